"""The pods of a scenario file: containers, what they were allotted, and the processes in them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from exporter.scenario import keys as file_keys
from exporter.scenario import pod_keys as keys
from exporter.scenario.description import (
    Allotment,
    ContainerSpec,
    DeviceSpec,
    PodSpec,
    ProcessSpec,
    Scheme,
)
from exporter.scenario.error import ScenarioError
from exporter.scenario.keys import Key
from exporter.scenario.schemes import Site, memory_unit
from exporter.scenario.section import Section
from exporter.scenario.work import Span, Work

MILLISECOND = 10**6
MOST_AT_ONCE = 64  # occurrences of one recurring pod or process that may overlap
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

Slots = Counter[int]  # replicas of each device that are given out


def read_pods(top: Section, site: Site) -> tuple[PodSpec, ...]:
    """The pods in their order.

    Raises:
        ScenarioError: one is not valid, or two have the same name.

    """
    slots: Slots = Counter()
    pods = [_pod(section, site, slots) for section in top.sections(file_keys.PODS, keys.P)]
    if len({(pod.namespace, pod.name) for pod in pods}) < len(pods):
        raise ScenarioError(f"{top.where}.pods: two pods have the same name; write each once")
    return tuple(_with_shared_claims(pods))


def _pod(section: Section, site: Site, slots: Slots) -> PodSpec:
    scheme = section.get(keys.SCHEME)
    owner_kind, _, owner_name = section.get(keys.OWNER).partition("/")
    pod = PodSpec(
        namespace=section.get(keys.NAMESPACE),
        name=section.get(keys.POD_NAME),
        span=_span(section, keys.POD_START, keys.POD_FOR, keys.POD_EVERY),
        scheme=Scheme(scheme) if scheme else None,
        policy=section.get(keys.POLICY),
        app_class=section.get(keys.APP_CLASS),
        owner_kind=owner_kind,
        owner_name=owner_name,
        qos=section.get(keys.QOS),
        runtime=section.get(keys.RUNTIME),
        cgroup_driver=section.get(keys.CGROUP_DRIVER),
        static=section.get(keys.STATIC),
        labels=section.get(keys.LABELS),
        annotations=section.get(keys.ANNOTATIONS),
        containers=(),
    )
    containers = tuple(
        _container(s, pod, site, slots) for s in section.sections(keys.CONTAINERS, keys.C)
    )
    if pod.scheme is None and any(container.allotment for container in containers):
        one_of = "one of " + ", ".join(Scheme)
        raise section.wrong(keys.SCHEME, f"{one_of}: a container has devices")
    return replace(pod, containers=containers)


def _container(section: Section, pod: PodSpec, site: Site, slots: Slots) -> ContainerSpec:
    return ContainerSpec(
        name=section.get(keys.CONTAINER_NAME),
        kind=section.get(keys.KIND),
        resource=section.get(keys.RESOURCE),
        claim=section.get(keys.CLAIM),
        limits=section.get(keys.LIMITS),
        allotment=_allotment(section, pod, site, slots) if section.has(keys.ASKED) else None,
        processes=tuple(
            read_process(s, site.devices, pod.span)
            for s in section.sections(keys.PROCESSES, keys.R)
        ),
    )


def _allotment(section: Section, pod: PodSpec, site: Site, slots: Slots) -> Allotment:
    numbers = _numbers(section, keys.ASKED, len(site.devices))
    memory, unit = section.get(keys.MEMORY), memory_unit(pod.scheme, site)
    if memory is not None and memory % unit and not section.has(keys.LIMITS):
        size, name = next((s, n) for s, n in UNITS if unit % s == 0)
        raise section.wrong(keys.MEMORY, f"a multiple of {unit // size}{name}, {pod.scheme}'s unit")
    replicas = section.get(keys.REPLICAS)
    given = []
    for number in numbers:
        given.append(tuple(range(slots[number], slots[number] + replicas)))
        slots[number] += replicas if site.devices[number].replicas > 1 else 0
        if slots[number] > site.devices[number].replicas > 1:
            raise section.wrong(keys.ASKED, f"a device with replicas left: {number} has none")
    return Allotment(
        devices=numbers,
        core_percent=section.get(keys.CORE),
        memory_bytes=memory,
        placed=section.get(keys.PLACED),
        replicas=replicas,
        slots=tuple(given),
    )


def read_process(
    section: Section, devices: Sequence[DeviceSpec], pod_span: Span | None = None
) -> ProcessSpec:
    """A process; ``pod_span`` is its pod's.

    Raises:
        ScenarioError: it is not valid.

    """
    span = _span(section, keys.PROCESS_START, keys.PROCESS_FOR, keys.PROCESS_EVERY)
    if pod_span and pod_span.every_ns and span.every_ns:
        instead = "it for the pod or for its processes, not for both"
        raise section.wrong(keys.PROCESS_EVERY, instead)
    numbers = _numbers(section, keys.DEVICE, len(devices))
    if any(devices[number].divided for number in numbers):
        raise section.wrong(keys.DEVICE, "parts of it: nothing runs on a card that is divided")
    return ProcessSpec(
        devices=numbers,
        work=_work(section),
        memory=section.get(keys.HELD),
        span=span,
        memory_active=section.get(keys.MEMORY_ACTIVE),
        encoder=section.get(keys.ENCODER),
        decoder=section.get(keys.DECODER),
        copy=section.get(keys.COPY),
        kind=section.get(keys.CONTEXT),
        cgroup="" if pod_span else section.get(keys.CGROUP),
        called=section.get(keys.CALLED),
        user=section.get(keys.USER),
        account=section.get(keys.ACCOUNT),
    )


def _work(section: Section) -> Work:
    period = section.get(keys.PERIOD)
    if period < MILLISECOND:
        raise section.wrong(keys.PERIOD, "a time of 1ms or more")
    return Work(
        duty=replace(section.get(keys.DUTY), repeat_ns=section.get(keys.REPEAT)),
        period_ns=period,
        phase_ns=section.get(keys.PHASE),
        jitter=section.get(keys.JITTER),
    )


def _span(
    section: Section, start: Key[int], length: Key[tuple[int, int]], again: Key[int | None]
) -> Span:
    shortest, longest = section.get(length)
    every = section.get(again)
    if every is not None and not longest <= MOST_AT_ONCE * every:
        raise section.wrong(again, f"a time, and 'for' of at most {MOST_AT_ONCE} times of it")
    return Span(section.get(start), shortest, longest, every)


def _numbers(section: Section, key: Key[tuple[int, ...]], count: int) -> tuple[int, ...]:
    return tuple(below(section, key, number, count) for number in section.get(key))


def below(section: Section, key: Key[object], number: int, count: int) -> int:
    """The number of a device, if there is one of this number.

    Raises:
        ScenarioError: there is none.

    """
    if number >= count:
        raise section.wrong(key, f"device numbers from 0 to {count - 1}, none twice")
    return number


def _with_shared_claims(pods: Sequence[PodSpec]) -> list[PodSpec]:
    """Mark the containers whose ResourceClaim another one has as well."""
    users = Counter((pod.namespace, c.claim) for pod in pods for c in pod.containers if c.claim)
    return [
        replace(
            pod,
            containers=tuple(
                replace(c, shares_claim=users[pod.namespace, c.claim] > 1) for c in pod.containers
            ),
        )
        for pod in pods
    ]
