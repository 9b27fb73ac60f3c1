"""Renders the families of other exporters from a Snapshot."""

from collections.abc import Collection, Mapping

from exporter.metrics.compat import dcgm, dcgm_renamed, hami_monitor, tencent
from exporter.metrics.compat.subjects import Alias, CompatSubject, Subjects, of
from exporter.metrics.text import Format, escaped, head
from exporter.model import Snapshot

# Below it each whole number is exact in a float, which has 53 bits for it.
LARGEST_EXACT = 1e15

LEAST_NS = 10_000_000_000
"""The shortest time that a rate is taken over: traffic is read at intervals of some seconds."""

COUNTERS = ("pcie_bytes_total", "nvlink_bytes_total")

Totals = Mapping[tuple[str, str], float]
"""Bytes by a device's UUID and the counter with its direction, as ``pcie_bytes_transmit``."""

_ITSELF = {name: name for name in ("namespace", "pod", "container", "node", "uid")}
OPENCOST = (
    Alias(
        "container_gpu_allocation",
        "GPUs allocated to the container, also parts of one",
        "allocation",
        _ITSELF,
        of("allocated_gpus"),
    ),
)
"""What OpenCost and Kubecost charge for (``pkg/costmodel/metrics.go``).

Theirs is what the pod's resources state: whole cards, and 0 for a part of one. From this one they
charge parts, too. ``instance`` is left to Prometheus, because OpenCost does not ask for it. Left
out: their prices (``node_gpu_hourly_cost``), which OpenCost knows itself.
"""

PROGRAMS: dict[str, tuple[Alias, ...]] = {
    "dcgm": dcgm.ALIASES,
    "dcgm-4.9": dcgm_renamed.ALIASES,
    "opencost": OPENCOST,
    "hami": hami_monitor.ALIASES,
    "hami-legacy": hami_monitor.LEGACY,
    "elastic-gpu": tencent.ELASTIC_GPU,
    "gpu-manager": tencent.GPU_MANAGER,
}
"""The tables by the values of ``--compat``. What two of them share is served once."""


class CompatPage:
    """Renders the families of some programs. ``node`` is the value of labels that name the host.

    ``uids``: the labels that hold the UID of a series' pod, of ``subjects.UIDS``.
    """

    def __init__(self, programs: Collection[str], node: str, uids: Collection[str] = ()) -> None:
        self._node = node
        self._uids = tuple(uids)
        self._rates = Rates()
        self._families: dict[str, list[Alias]] = {}
        for program, aliases in PROGRAMS.items():
            for alias in aliases if program in programs else ():
                rows = self._families.setdefault(alias.name, [])
                rows += [] if alias in rows else [alias]

    def render(self, snapshot: Snapshot, form: Format) -> bytes:
        """The page in bytes. A family without samples is left out."""
        if not self._families:
            return b""
        subjects = Subjects(snapshot, self._node, self._uids, self._rates.of(snapshot))
        page: list[str] = []
        for name, aliases in self._families.items():
            lines: list[str] = []
            for alias in aliases:
                for subject in subjects.of[alias.subject]:
                    figure = alias.figure(subject)
                    if figure is not None:
                        # The other programs write whole numbers without a point.
                        exact = float(figure).is_integer() and abs(figure) < LARGEST_EXACT
                        number = str(int(figure)) if exact else repr(float(figure))
                        lines.append(f"{name}{{{_labels(alias, subject)}}} {number}\n")
            if lines:
                # OpenMetrics allows no counter whose name does not end in _total.
                kind, is_renamed = aliases[0].type, not name.endswith("_total")
                if kind == "counter" and is_renamed and form is Format.OPENMETRICS:
                    kind = "unknown"
                page += [head(name, kind, aliases[0].help, form), *lines]
        return "".join(page).encode()


def _labels(alias: Alias, subject: CompatSubject) -> str:
    """The labels as text. A label without a value is left out, which is the same to Prometheus."""
    pairs = (
        (label, source[1:] if source.startswith("=") else subject.labels.get(source, ""))
        for label, source in alias.labels.items()
    )
    return ",".join(f'{label}="{escaped(value)}"' for label, value in pairs if value)


class Rates:
    """Bytes per second of each device since an earlier page, at least ``LEAST_NS`` before.

    Until there is one, nothing is known. Time is the monotonic clock's. Not thread-safe.
    """

    def __init__(self) -> None:
        self._earlier: tuple[int, Totals] | None = None
        self._newest: tuple[int, Totals] | None = None

    def of(self, snapshot: Snapshot) -> Mapping[str, Mapping[str, float]]:
        """The rates by UUID and counter."""
        totals: dict[tuple[str, str], float] = {}
        for device in snapshot.facts.devices:
            for counter in COUNTERS:
                name = counter.removesuffix("total")
                moved = device.sensors.by_label(counter)
                totals |= {(device.uuid, name + way): count for way, count in moved.items()}
        now = snapshot.mono_ns, totals
        if self._newest is None or now[0] - self._newest[0] >= LEAST_NS:
            self._earlier, self._newest = self._newest, now
        if self._earlier is None or now[0] <= self._earlier[0]:
            return {}
        then_ns, before = self._earlier
        rates: dict[str, dict[str, float]] = {}
        for (uuid, name), total in now[1].items():
            # A counter that fell began again, and one that is new was not seen to grow.
            grown = total - before.get((uuid, name), total + 1)
            if grown >= 0:
                rates.setdefault(uuid, {})[name] = grown * 1e9 / (now[0] - then_ns)
        return rates
