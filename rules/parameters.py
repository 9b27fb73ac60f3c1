"""What of an alert's expression can be set by values of the chart, and where in it that stands.

The rule files are for any Prometheus and hold the defaults; the chart replaces them as text. Tests
hold each place to both sets of rules.
"""

from typing import NamedTuple

from exporter.model.alerts import NEAR_LIMIT, OVER_SHARE, OVERCOMMITTED, XID_S

NUMBER, TIME, PATTERN = "number", "time", "pattern"


class Parameter(NamedTuple):
    """One of an alert: its name, default and kind, and what stands before and after it."""

    alert: str
    name: str
    default: str
    before: str
    after: str
    about: str
    kind: str = NUMBER

    @property
    def found(self) -> str:
        """The default in its place, as the expression has it."""
        return f"{self.before}{self.default}{self.after}"


def _over(alert: str, default: str, about: str, sign: str = "> ") -> Parameter:
    """A threshold, of which an expression has one."""
    return Parameter(alert, "threshold", default, sign, "", about)


def _window(alert: str) -> Parameter:
    """The time over which an expression counts what happens rarely."""
    return Parameter(alert, "window", "30m", "[", "]", "time looked at", TIME)


def _jobs(alert: str) -> Parameter:
    """The jobs of Prometheus that an expression takes for exporters."""
    about = "Prometheus' jobs of exporters"
    return Parameter(alert, "jobs", ".*mgpu-exporter.*", 'job=~"', '"', about, PATTERN)


_XID = "seconds since the XID"

PARAMETERS: tuple[Parameter, ...] = (
    _over("MgpuBillDayOpen", "129600", "seconds since a day was closed"),
    _over("MgpuPodNearMemoryLimit", str(NEAR_LIMIT), "share of the memory that was allocated"),
    _over("MgpuContainerOverCoreShare", str(OVER_SHARE), "times the share that was allocated"),
    Parameter(
        "MgpuContainerCrowdsOutNeighbour",
        "threshold",
        str(OVER_SHARE),
        "> ",
        " *",
        "times the own share",
    ),
    Parameter(
        "MgpuContainerCrowdsOutNeighbour",
        "neighbour",
        "0.9",
        "< ",
        " *",
        "times its share that the neighbour gets",
    ),
    Parameter("MgpuContainerCrowdsOutNeighbour", "busy", "0.95", "rate5m > ", "", "of the GPU"),
    Parameter(
        "MgpuContainerStarved", "threshold", "0.9", "< ", " *", "times its share that it gets"
    ),
    Parameter("MgpuContainerStarved", "waiting", "0.1", "> ", " and", "of the time, with a share"),
    Parameter(
        "MgpuContainerStarved", "pressure", "0.5", "> ", " unless", "of the time, without one"
    ),
    Parameter("MgpuContainerStarved", "busy", "0.95", "busy_seconds:rate5m > ", "", "of the GPU"),
    _over("MgpuAllocatedGpuIdle", "0.001", "GPUs' worth of core", "< "),
    Parameter("MgpuAllocatedGpuIdle", "window", "4h", "", "", "time without use", TIME),
    Parameter(
        "MgpuDeviceOvercommitted",
        "core",
        str(OVERCOMMITTED),
        "> ",
        "",
        "of the GPU's core, allocated",
    ),
    Parameter("MgpuDeviceOvercommitted", "memory", "1", "bytes > ", "", "of its memory, allocated"),
    Parameter("MgpuUnattributedUse", "threshold", "0.2", ") > ", "", "of the GPU's work"),
    Parameter("MgpuUnattributedUse", "busy", "0.05", "> ", ")", "of the GPU, busy at least"),
    _over("MgpuGpuUsedOutsidePods", "0.1", "of a GPU's core or memory"),
    Parameter("MgpuGpuUsedOutsidePods", "kinds", "pod", 'kind!~"', '"', "kinds that may", PATTERN),
    _over("MgpuBooksOutOfBalance", "0.05", "of what the GPU did", ") > "),
    _over("MgpuXidHardware", str(XID_S), _XID, "< "),
    _over("MgpuXidWarning", str(XID_S), _XID, "< "),
    _over("MgpuXidError", str(XID_S), _XID, "< "),
    _window("MgpuEccUncorrected"),
    _over("MgpuNvlinkErrors", "0", "errors"),
    _window("MgpuNvlinkErrors"),
    _over("MgpuGpuThrottled", "0.1", "of the time"),
    Parameter(
        "MgpuGpuThrottled",
        "reasons",
        "hw_thermal|sw_thermal|hw_power_brake",
        'reason=~"',
        '"',
        "reasons",
        PATTERN,
    ),
    Parameter("MgpuGpuMissing", "window", "1d", "[", ":5m]", "time looked at", TIME),
    _over("MgpuUseUnobserved", "0.05", "of the time"),
    _jobs("MgpuExporterDown"),
    Parameter(
        "MgpuExporterMissing",
        "resources",
        ".*(gpu|nvidia|vcuda|amd_com|mig_).*",
        'resource=~"',
        '"',
        "resources of GPU nodes, as kube-state-metrics names them",
        PATTERN,
    ),
    _jobs("MgpuExporterMissing"),
    Parameter("MgpuExporterStuck", "window", "6m", "offset ", "", "time without a cycle", TIME),
    _over("MgpuExporterOverrun", "0.2", "of the cycles"),
)


def of(alert: str) -> tuple[Parameter, ...]:
    """The parameters of an alert."""
    return tuple(one for one in PARAMETERS if one.alert == alert)
