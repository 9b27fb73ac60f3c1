"""The pods of a scenario file: keys and readers of pods, containers, requests and processes."""

from collections.abc import Sequence
from dataclasses import replace

from exporter.agent.simulation import keys as file_keys
from exporter.agent.simulation.description import ContainerSpec, DeviceSpec, PodSpec, ProcessSpec
from exporter.agent.simulation.keys import C, Key, P, R, Section, may, must, sections, unset
from exporter.agent.simulation.scenariovalues import (
    DURATION,
    GRANTED,
    LENGTHS,
    NAME,
    NUMBERS,
    RATIO,
    SIZE,
    TEXT,
    TEXTS,
    curve,
)
from exporter.agent.simulation.work import FOREVER, Lifetime, Work
from exporter.inputs.values import SWITCH, choice

START = ("start", DURATION, "0s", "After the start of the scenario or, in a pod, of the pod.")
FOR = ("for", LENGTHS, "for ever", "How long it lives.")
EVERY = (
    "every",
    DURATION,
    "once",
    "From one start to the next, 1ms or more; each has a new name and ids.",
)

POD_NAME = must(P, "name", NAME, "Name, or its first part if the pod comes again.")
NAMESPACE = must(P, "namespace", NAME, "Namespace.")
CONTAINERS = sections(P, "containers", C, "Its containers.", what="container")
OWNER = unset(
    P,
    "owner",
    TEXT,
    "none",
    "Kind and name of its topmost owner: `Job/train`, and not a ReplicaSet.",
    default="",
)
LABELS = unset(P, "labels", TEXTS, "none", "Labels.", default={})
ANNOTATIONS = unset(
    P, "annotations", TEXTS, "none", "Annotations, as its sharing system writes them.", default={}
)
QOS = may(P, "qos", choice("Guaranteed", "Burstable", "BestEffort"), "Burstable", "QoS class.")
RUNTIME = may(
    P,
    "runtime",
    choice("containerd", "cri-o", "docker"),
    "containerd",
    "Container runtime, which names the cgroup.",
)
CGROUP_DRIVER = may(
    P,
    "cgroup_driver",
    choice("systemd", "cgroupfs"),
    "systemd",
    "How the kubelet makes the cgroup.",
)
STATIC = may(P, "static", SWITCH, "false", "A static pod: the kubelet knows it by its file's hash.")
POD_START = may(P, *START)
POD_FOR = unset(P, *FOR, default=(FOREVER, FOREVER))
POD_EVERY = unset(P, *EVERY, default=None)

CONTAINER_NAME = must(C, "name", NAME, "Name.")
KIND = may(C, "kind", choice("app", "init", "sidecar"), "app", "In which list it stands.")
PROCESSES = sections(C, "processes", R, "What runs in it.")
LIMITS = unset(C, "limits", TEXTS, "none", "Its resources' limits.", default={})
GRANTED_IDS = unset(
    C,
    "granted",
    GRANTED,
    "none",
    "Resource → ids of devices that the kubelet gave it, as PodResources lists them.",
    default={},
)

DEVICE = must(R, "device", NUMBERS, "The device that it works on.")
DUTY = may(R, "duty", curve(RATIO), "0", "The part of each period in which it wants the device.")
REPEAT = unset(
    R, "repeat", DURATION, "never", "After this time duty and memory start over.", default=None
)
PERIOD = may(R, "period", DURATION, "200ms", "Length of a period, 1ms or more.")
PHASE = unset(R, "phase", DURATION, "drawn", "How far into its period it starts.", default=None)
JITTER = may(R, "jitter", RATIO, "0", "How much length and place of its bursts vary.")
HELD = may(R, "memory", curve(SIZE), "0", "Device memory that it holds.")
MEMORY_ACTIVE = may(R, "memory_active", RATIO, "0", "Memory traffic per core time.")
ENCODER = may(R, "encoder", RATIO, "0", "Encoder time per core time.")
DECODER = may(R, "decoder", RATIO, "0", "Decoder time per core time.")
COPY = may(R, "copy", RATIO, "0", "Copy engines' time per core time; NVIDIA's driver reports none.")
CONTEXT = may(R, "kind", choice("compute", "graphics"), "compute", "What the driver lists it as.")
CGROUP = may(
    R,
    "cgroup",
    TEXT,
    "/system.slice/gpu-tool.service",
    "Its cgroup; outside pods only. `{id}` stands for a container's id, `{4711}` for that number "
    "and one more each time that the process comes again.",
)
CALLED = unset(
    R, "name", TEXT, "none", "What its container is called; outside pods only.", default=""
)
USER = unset(R, "user", TEXT, "none", "Its user's name; outside pods only.", default="")
ACCOUNT = unset(
    R, "account", TEXT, "none", "Slurm's account of its job; outside pods only.", default=""
)
PROCESS_START = may(R, *START)
PROCESS_FOR = unset(R, *FOR, default=(FOREVER, FOREVER))
PROCESS_EVERY = unset(R, *EVERY, default=None)


MILLISECOND = 10**6
MAX_AT_ONCE = 64  # occurrences of one recurring pod or process that may overlap


def read_pods(top: Section, devices: Sequence[DeviceSpec]) -> tuple[PodSpec, ...]:
    """The pods in their order.

    Raises:
        ScenarioError: one is not valid, or two have the same name.

    """
    pods = tuple(_pod(section, devices) for section in top.sections(file_keys.PODS))
    if len({(pod.namespace, pod.name) for pod in pods}) < len(pods):
        raise top.refused(file_keys.PODS, "two pods have the same name; write each once")
    return pods


def _pod(section: Section, devices: Sequence[DeviceSpec]) -> PodSpec:
    owner_kind, _, owner_name = section.get(OWNER).partition("/")
    span = _span(section, POD_START, POD_FOR, POD_EVERY)
    return PodSpec(
        namespace=section.get(NAMESPACE),
        name=section.get(POD_NAME),
        span=span,
        owner_kind=owner_kind,
        owner_name=owner_name,
        qos=section.get(QOS),
        runtime=section.get(RUNTIME),
        cgroup_driver=section.get(CGROUP_DRIVER),
        static=section.get(STATIC),
        labels=section.get(LABELS),
        annotations=section.get(ANNOTATIONS),
        containers=tuple(_container(s, devices, span) for s in section.sections(CONTAINERS)),
    )


def _container(section: Section, devices: Sequence[DeviceSpec], span: Lifetime) -> ContainerSpec:
    return ContainerSpec(
        name=section.get(CONTAINER_NAME),
        kind=section.get(KIND),
        limits=section.get(LIMITS),
        granted=section.get(GRANTED_IDS),
        processes=tuple(read_process(s, devices, span) for s in section.sections(PROCESSES)),
    )


def read_process(
    section: Section, devices: Sequence[DeviceSpec], pod_span: Lifetime | None = None
) -> ProcessSpec:
    """A process; ``pod_span`` is its pod's.

    Raises:
        ScenarioError: it is not valid.

    """
    span = _span(section, PROCESS_START, PROCESS_FOR, PROCESS_EVERY)
    if pod_span and pod_span.every_ns and span.every_ns:
        instead = "it for the pod or for its processes, not for both"
        raise section.wrong(PROCESS_EVERY, instead)
    numbers = tuple(below(section, DEVICE, one, len(devices)) for one in section.get(DEVICE))
    if any(devices[number].divided for number in numbers):
        raise section.wrong(DEVICE, "parts of it: nothing runs on a card that is divided")
    period = section.get(PERIOD)
    if period < MILLISECOND:
        raise section.wrong(PERIOD, "a time of 1ms or more")
    return ProcessSpec(
        devices=numbers,
        work=Work(
            duty=replace(section.get(DUTY), repeat_ns=section.get(REPEAT)),
            period_ns=period,
            phase_ns=section.get(PHASE),
            jitter=section.get(JITTER),
        ),
        memory=replace(section.get(HELD), repeat_ns=section.get(REPEAT)),
        span=span,
        memory_active=section.get(MEMORY_ACTIVE),
        encoder=section.get(ENCODER),
        decoder=section.get(DECODER),
        copy=section.get(COPY),
        kind=section.get(CONTEXT),
        # In a pod it is made as the kubelet and the runtime would.
        cgroup="" if pod_span else section.get(CGROUP),
        called=section.get(CALLED),
        user=section.get(USER),
        account=section.get(ACCOUNT),
    )


def _span(
    section: Section, start: Key[int], length: Key[tuple[int, int]], again: Key[int | None]
) -> Lifetime:
    shortest, longest = section.get(length)
    every = section.get(again)
    if every is not None and not (every >= MILLISECOND and longest <= MAX_AT_ONCE * every):
        allowed = f"a time of 1ms or more, and 'for' of at most {MAX_AT_ONCE} times of it"
        raise section.wrong(again, allowed)
    return Lifetime(section.get(start), shortest, longest, every)


def below(section: Section, key: Key[object], number: int, count: int) -> int:
    """The number of a device, if there is one of this number.

    Raises:
        ScenarioError: there is none.

    """
    if number >= count:
        raise section.wrong(key, f"device numbers from 0 to {count - 1}, none twice")
    return number
