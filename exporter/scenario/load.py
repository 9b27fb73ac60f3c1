"""Scenario files → ``Scenario``. ``shipped/demo.yaml`` shows every key and says what it means."""

from importlib.resources import files
from pathlib import Path

import yaml

from exporter.model import DeviceState
from exporter.scenario import identity
from exporter.scenario.description import (
    Allotment,
    ContainerSpec,
    DeviceSpec,
    Fault,
    PodSpec,
    ProcessSpec,
    SampleRule,
    Scenario,
    ScenarioError,
    Scheme,
)
from exporter.scenario.section import Section
from exporter.scenario.values import (
    DURATION,
    FLAG,
    LENGTHS,
    NAME,
    RATIO,
    SIZE,
    TEXT,
    TEXTS,
    WATTS,
    choice,
    curve,
    integer,
    numbers_below,
)
from exporter.scenario.work import FOREVER, Curve, Span, Work

LARGEST_FILE = 1 << 20
MILLISECOND = 10**6
MOST_AT_ONCE = 64  # occurrences of one recurring pod or process that may overlap
FAULTS = {
    "lost": DeviceState.LOST,
    "stuck": DeviceState.STUCK,
    "failing": DeviceState.FAILED,
}
DEFAULT_PERIOD_NS = 200 * MILLISECOND
GIB = 1 << 30


def shipped() -> tuple[str, ...]:
    """Names of the scenarios that come with the exporter."""
    folder = files("exporter.scenario").joinpath("shipped")
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".yaml")))


def load(name_or_path: str) -> Scenario:
    """Read a shipped scenario by its name, or a file.

    Raises:
        ScenarioError: there is none, or it is not valid.

    """
    try:
        if name_or_path in shipped():
            folder = files("exporter.scenario").joinpath("shipped")
            text = folder.joinpath(f"{name_or_path}.yaml").read_text(encoding="utf-8")
        else:
            with Path(name_or_path).open(encoding="utf-8") as file:
                text = file.read(LARGEST_FILE + 1)
        if len(text) > LARGEST_FILE:
            raise ScenarioError(f"{name_or_path}: longer than {LARGEST_FILE} characters")
        return describe(yaml.safe_load(text), name_or_path)
    except (OSError, UnicodeDecodeError) as error:
        names = ", ".join(shipped())
        raise ScenarioError(f"{name_or_path}: {error}; give a file or one of {names}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ScenarioError(f"{name_or_path}: not YAML: {error}") from error


def describe(data: object, origin: str) -> Scenario:
    """A scenario from a file's mapping; ``origin`` names it in errors.

    Raises:
        ScenarioError: a key is unknown or missing, or a value is not allowed.

    """
    top = Section(data, origin)
    node = top.section("node")
    name = node.get("name", NAME, "gpu-node")
    labels = node.get("labels", TEXTS, {})
    node.done()
    seed = top.get("seed", integer(0, identity.WORD), 0)
    devices = tuple(_device(s, i, seed) for i, s in enumerate(top.sections("devices")))
    if not devices:
        raise top.wrong("devices", "a list of at least one device")
    scenario = Scenario(
        node_name=name,
        node_labels=labels,
        seed=seed,
        devices=devices,
        pods=tuple(_pod(s, len(devices)) for s in top.sections("pods")),
        processes=tuple(_process(s, len(devices)) for s in top.sections("processes")),
        faults=tuple(_fault(s, len(devices)) for s in top.sections("faults")),
        sample_rule=SampleRule(top.get("sample_rule", choice(*SampleRule), SampleRule.END)),
        status_delay_ns=top.get("status_delay", DURATION, 0),
    )
    _refuse_twins(top, scenario)
    top.done()
    return scenario


def _refuse_twins(top: Section, scenario: Scenario) -> None:
    pods = {(pod.namespace, pod.name) for pod in scenario.pods}
    if len(pods) < len(scenario.pods):
        raise ScenarioError(f"{top.where}.pods: two pods have the same name; write each once")
    if len({device.uuid for device in scenario.devices}) < len(scenario.devices):
        raise ScenarioError(f"{top.where}.devices: two devices have the same uuid; write each once")


def _device(section: Section, index: int, seed: int) -> DeviceSpec:
    device = DeviceSpec(
        index=index,
        uuid=section.get("uuid", TEXT, f"GPU-{identity.uuid(seed, 'device', index)}"),
        model=section.need("model", TEXT),
        memory_bytes=section.need("memory", SIZE),
        reserved_bytes=section.get("reserved", SIZE, GIB // 2),
        idle_watts=section.get("idle_power", WATTS, 50.0),
        max_watts=section.get("max_power", WATTS, 300.0),
        clock_hertz=section.get("clock_mhz", integer(1, 10_000), 1500) * 10**6,
        pci_bus_id=section.get("pci_bus_id", TEXT, f"00000000:{0x10 + index:02X}:00.0"),
        driver_version=section.get("driver_version", TEXT, "580.95.05"),
        sharing=section.get("sharing", choice("", "time-slicing", "mps"), ""),
    )
    if device.max_watts < device.idle_watts:
        raise section.wrong("max_power", "no less than idle_power")
    section.done()
    return device


def _pod(section: Section, devices: int) -> PodSpec:
    span = _span(section)
    name = section.need("name", NAME)
    scheme = section.get("scheme", choice(*Scheme), "")
    owner_kind, _, owner_name = section.get("owner", TEXT, "").partition("/")
    pod = PodSpec(
        namespace=section.need("namespace", NAME),
        name=name,
        span=span,
        scheme=Scheme(scheme) if scheme else None,
        policy=section.get("policy", TEXT, ""),
        app_class=section.get("app_class", choice("online", "offline"), ""),
        owner_kind=owner_kind,
        owner_name=owner_name,
        qos=section.get("qos", choice("Guaranteed", "Burstable", "BestEffort"), "Burstable"),
        runtime=section.get("runtime", choice("containerd", "cri-o", "docker"), "containerd"),
        cgroup_driver=section.get("cgroup_driver", choice("systemd", "cgroupfs"), "systemd"),
        static=section.get("static", FLAG, False),
        labels=section.get("labels", TEXTS, {}),
        containers=tuple(_container(s, devices, span) for s in section.sections("containers")),
    )
    if not pod.containers:
        raise section.wrong("containers", "a list of at least one container")
    if pod.scheme is None and any(c.allotment for c in pod.containers):
        raise section.wrong("scheme", "one of " + ", ".join(Scheme) + ": a container has devices")
    section.done()
    return pod


def _container(section: Section, devices: int, pod_span: Span) -> ContainerSpec:
    container = ContainerSpec(
        name=section.need("name", NAME),
        allotment=_allotment(section, devices) if section.has("devices") else None,
        processes=tuple(_process(s, devices, pod_span) for s in section.sections("processes")),
    )
    section.done()
    return container


def _allotment(section: Section, devices: int) -> Allotment:
    return Allotment(
        devices=section.need("devices", numbers_below(devices)),
        core_percent=section.need("core", integer(1, 100)) if section.has("core") else None,
        memory_bytes=section.need("memory", SIZE) if section.has("memory") else None,
        placed=section.get("placed", FLAG, True),
    )


def _process(section: Section, devices: int, pod_span: Span | None = None) -> ProcessSpec:
    span = _span(section)
    if pod_span and pod_span.every_ns and span.every_ns:
        raise section.wrong("every", "it for the pod or for its processes, not for both")
    process = ProcessSpec(
        devices=section.need("device", numbers_below(devices)),
        work=_work(section),
        memory=section.get("memory", curve(SIZE), Curve(((0, 0),))),
        span=span,
        memory_active=section.get("memory_active", RATIO, 0.0),
        encoder=section.get("encoder", RATIO, 0.0),
        decoder=section.get("decoder", RATIO, 0.0),
        kind=section.get("kind", choice("compute", "graphics"), "compute"),
        cgroup="" if pod_span else section.get("cgroup", TEXT, "/system.slice/gpu-tool.service"),
    )
    section.done()
    return process


def _work(section: Section) -> Work:
    repeat = section.need("repeat", DURATION) if section.has("repeat") else None
    period = section.get("period", DURATION, DEFAULT_PERIOD_NS)
    if period < MILLISECOND:
        raise section.wrong("period", "a time of 1ms or more")
    return Work(
        duty=section.get("duty", curve(RATIO, repeat), Curve(((0, 0.0),))),
        period_ns=period,
        phase_ns=section.need("phase", DURATION) if section.has("phase") else None,
        jitter=section.get("jitter", RATIO, 0.0),
    )


def _span(section: Section) -> Span:
    start = section.get("start", DURATION, 0)
    shortest, longest = section.get("for", LENGTHS, (FOREVER, FOREVER))
    if not section.has("every"):
        return Span(start, shortest, longest)
    every = section.need("every", DURATION)
    if not longest <= MOST_AT_ONCE * every:
        raise section.wrong("every", f"a time, and 'for' of at most {MOST_AT_ONCE} times of it")
    return Span(start, shortest, longest, every)


def _fault(section: Section, devices: int) -> Fault:
    fault = Fault(
        device=section.need("device", integer(0, devices - 1)),
        state=FAULTS[section.need("state", choice(*FAULTS))],
        from_ns=section.need("from", DURATION),
        to_ns=section.get("to", DURATION, FOREVER),
    )
    section.done()
    return fault
