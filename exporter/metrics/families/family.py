"""What a metric family is, the levels of the table, and what families of several levels share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from exporter.model import SECOND_NS, Averages, Number, Reasons, Used

PREFIX = "mgpu"

LEVELS: dict[str, tuple[str, ...]] = {
    "device": ("gpu", "uuid"),
    "container": ("namespace", "pod", "container", "gpu", "uuid"),
    "pod": ("namespace", "pod"),
    "namespace": ("namespace", "uuid"),
    "group": ("kind", "group", "gpu", "uuid"),
    "group_kind": ("kind", "uuid"),
    "exporter": (),
}

OWN_LEVEL = "exporter"  # families about the exporter itself

CORE = "core"  # the group of families that cannot be switched off
CONTENTION = "contention"
OFF_BY_DEFAULT = frozenset({CONTENTION})
"""Groups that are served only if ``--metrics.enable`` names them: they have many series."""

UJ = 1_000_000  # and energy in microjoules
_DIVISORS = {"seconds": SECOND_NS, "joules": UJ}

Sample = tuple[tuple[str, ...], Number]
"""The values of a family's own labels, and the number."""

F = TypeVar("F", contravariant=True)  # noqa: PLC0105 - the facts of a level

K = TypeVar("K", bound=str)


@dataclass(frozen=True)
class FamilyOf(Generic[F]):
    """One metric family. ``read`` returns its number from a fact, None if it is not known.

    A family with ``labels`` of its own has ``each`` instead. Families of one ``group`` are switched
    off together, with the driver calls that they need. ``further`` returns labels beyond the
    table's: ``label_…`` and ``annotation_…``.
    """

    level: str
    name: str
    help: str
    read: Callable[[F], Number | None] | None = None
    labels: tuple[str, ...] = ()
    each: Callable[[F], Iterable[Sample]] | None = None
    group: str = CORE
    further: Callable[[F], Mapping[str, str]] | None = None

    @property
    def full_name(self) -> str:
        """The name on the page, e.g. ``mgpu_container_core_seconds_total``."""
        return f"{PREFIX}_{self.level}_{self.name}"

    @property
    def type(self) -> str:
        """Counter or gauge."""
        return "counter" if self.name.endswith("_total") else "gauge"

    @property
    def divisor(self) -> int:
        """What makes its numbers the unit of its name: facts have nanoseconds and microjoules."""
        unit = self.name.removesuffix("_total").rpartition("_")[2]
        return _DIVISORS.get(unit, 1)

    def samples(self, fact: F) -> list[Sample]:
        """What it has of a fact; its own labels are empty where the family has none."""
        if self.each is not None:
            return list(self.each(fact))
        number = self.read(fact) if self.read is not None else None
        return [] if number is None else [((), number)]


Family = FamilyOf[Any]


WINDOW = "averaged over --collection.window"


class HasUsed(Protocol):
    """Facts with counters of use."""

    @property
    def used(self) -> Used:
        """The counters."""
        ...


class Measured(Protocol):
    """Facts with averages, and the reasons for what is not known."""

    @property
    def average(self) -> Averages:
        """The averages."""
        ...

    @property
    def unmeasured(self) -> Reasons:
        """The reasons, by quantity."""
        ...


def engines(level: str) -> tuple[FamilyOf[HasUsed], ...]:
    """The counters of the engines beside the core."""
    of = partial(FamilyOf[HasUsed], level)
    return (
        of(
            "memory_active_seconds_total",
            "Time with memory traffic.",
            lambda f: f.used.busy.memory_active,
        ),
        of("encoder_seconds_total", "Encoder busy time.", lambda f: f.used.busy.encoder),
        of("decoder_seconds_total", "Decoder busy time.", lambda f: f.used.busy.decoder),
    )


def counted(level: str) -> tuple[FamilyOf[HasUsed], ...]:
    """Counters that some drivers have for each process, summed."""
    of = partial(FamilyOf[HasUsed], level)
    return (
        of(
            "copy_seconds_total",
            "Busy time of all copy engines, summed (AMD: KFD's sdma_<gpu>; DRM: fdinfo).",
            lambda f: f.used.copy_ns,
        ),
        of(
            "evicted_seconds_total",
            "Time that queues were evicted to make room for others (AMD: KFD's evicted_ms).",
            lambda f: f.used.evicted_ns,
        ),
    )


def averages(level: str) -> tuple[FamilyOf[Measured], ...]:
    """The gauges of the engines beside the core."""
    of = partial(FamilyOf[Measured], level)
    return (
        of(
            "memory_active_ratio",
            f"Share of time with memory traffic, {WINDOW}.",
            lambda f: f.average.memory_active,
        ),
        of(
            "encoder_utilization_ratio",
            f"Share of the encoder's time, {WINDOW}.",
            lambda f: f.average.encoder,
        ),
        of(
            "decoder_utilization_ratio",
            f"Share of the decoder's time, {WINDOW}.",
            lambda f: f.average.decoder,
        ),
    )


def unmeasured(level: str) -> FamilyOf[Measured]:
    """What is not known, and why."""
    about = "1 for each quantity that cannot be measured now, with the reason; its series are "
    return FamilyOf(
        level,
        "unmeasured",
        f"{about}absent.",
        labels=("quantity", "reason"),
        each=lambda f: [((quantity, str(why)), 1) for quantity, why in f.unmeasured.items()],
    )


def keyed(numbers: Mapping[K, Number]) -> list[Sample]:
    """A sample for each value of a label."""
    return [((str(key),), number) for key, number in numbers.items()]


def flag(value: bool | None) -> int | None:  # noqa: FBT001 - what is turned into a number
    """1 for true, 0 for false."""
    return None if value is None else int(value)
