"""Every key of a scenario file, once: what may stand there, what it means, what it is if missing.

``Section`` reads a mapping by this table, ``docs/generate.py`` writes README.md from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import yaml

from exporter.agent.simulation import ScenarioError, identity
from exporter.agent.simulation.description import SAMPLE_PERIOD_NS, EndedRows, SampleRule
from exporter.agent.simulation.scenariovalues import (
    DURATION,
    NAME,
    PROFILE,
    SAMPLE_LENGTH,
    SIZE,
    TEXT,
    TEXTS,
    WATTS,
)
from exporter.agent.simulation.work import FOREVER
from exporter.inputs.mapping import Given, ListOf, Required, below, of_kind, read_mapping
from exporter.inputs.problems import Problem, ValuePlace
from exporter.inputs.valuekinds import StructureProblem, ValueKind
from exporter.inputs.values import choice, count
from exporter.inputs.yamldocument import line_of, merge, value_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SECOND = 10**9
GIB = 1 << 30
MAX_DEVICES = 64
PARTITIONS = {"dpx": 2, "qpx": 4, "cpx": 8}  # into how many, by AMD's name of the mode
WORST_MINOR = 1023


@dataclass(frozen=True, slots=True)
class Key(Generic[T_co]):
    """A key. ``default`` is what it means if missing, ``usual`` its text; else it must be there.

    ``section``: the value is a mapping with the keys of this section, or ``several`` in a list.
    """

    name: str
    kind: ValueKind[T_co]
    about: str
    default: T_co | None = None
    usual: str | None = None
    section: str = ""
    several: bool = True


TABLE: dict[str, dict[str, Key[Any]]] = {}  # by section, in the order in which they are explained


def must(section: str, name: str, kind: ValueKind[T], about: str) -> Key[T]:
    """Enter a key that must be given."""
    return _entered(section, Key(name, kind, about))


def may(section: str, name: str, kind: ValueKind[T], usual: str, about: str) -> Key[T]:
    """Enter a key that means ``usual`` if it is missing."""
    return unset(section, name, kind, usual, about, default=kind.read(usual))


def unset(
    section: str, name: str, kind: ValueKind[T], usual: str, about: str, *, default: T
) -> Key[T]:
    """Enter a key whose absence has a meaning of its own, which ``usual`` says."""
    return _entered(section, Key(name, kind, about, default, usual))


def sections(section: str, name: str, of: str, about: str, *, what: str = "") -> Key[str]:
    """Enter a list of mappings with the keys of ``of``; ``what`` if there must be one."""
    kind = ValueKind(str, f"a list of at least one {what}" if what else "a list")
    return _entered(section, Key(name, kind, about, None, None if what else "none", of))


def _entered(section: str, key: Key[T]) -> Key[T]:
    TABLE.setdefault(section, {})[key.name] = key
    return key


F, N, D, X, P, C, R = "file", "node", "devices", "faults", "pods", "containers", "processes"
DEVICES = sections(
    F,
    "devices",
    D,
    "The GPUs and MIG instances, numbered from 0; a board's partitions follow it.",
    what="device",
)
PODS = sections(F, "pods", P, "The pods of the node.")
HOST_PROCESSES = sections(F, "processes", R, "Processes outside all pods.")
FAULTS = sections(F, "faults", X, "Devices that cannot be read for a while.")
NODE = _entered(
    F,
    Key("node", ValueKind(str, "a mapping"), "The node itself.", None, "empty", N, several=False),
)
SEED = may(F, "seed", count(0, identity.WORD), "0", "What all chances are drawn from.")
SAMPLE_RULE = may(
    F,
    "sample_rule",
    choice(*SampleRule),
    "last",
    "Which process a driver's sample names: the last in it, the one at its end or nobody, the "
    "longest, or one at random by use. Recorded boards fit all but `end`.",
)
SAMPLE_PERIOD = unset(
    F,
    "sample_period",
    SAMPLE_LENGTH,
    "1/6 s",
    "Between two of the driver's samples. Turing boards have 500 ms.",
    default=SAMPLE_PERIOD_NS,
)
ENDED_ROWS = may(
    F,
    "ended_rows",
    choice(*EndedRows),
    "kept",
    "Whether the driver still names a process that has ended. An H100 and an H200 with driver 580 "
    "have `forgotten` it.",
)
STATUS_DELAY = may(
    F, "status_delay", DURATION, "0s", "From a container's start until the API server knows its id."
)

NODE_NAME = may(N, "name", NAME, "gpu-node", "Name of the node.")
NODE_LABELS = unset(N, "labels", TEXTS, "none", "Labels.", default={})
NODE_ANNOTATIONS = unset(N, "annotations", TEXTS, "none", "Annotations.", default={})
ALLOCATABLE = unset(
    N, "allocatable", TEXTS, "none", "Resources that its device plugins offer.", default={}
)

MODEL = unset(
    D, "model", TEXT, "its card's", "Name as the driver has it. A card must have one.", default=""
)
DEVICE_MEMORY = unset(
    D, "memory", SIZE, "unknown: Intel's only", "Its memory, of all partitions together.", default=0
)
RESERVED = may(D, "reserved", SIZE, "512MiB", "What the driver keeps for itself.")
PARENT = unset(
    D,
    "parent",
    count(0, MAX_DEVICES),
    "a card",
    "Number of the NVIDIA card that this is a MIG instance of. The card comes first.",
    default=None,
)
DEVICE_PROFILE = unset(D, "profile", PROFILE, "none", "MIG profile of an instance.", default="")
VENDOR = may(D, "vendor", choice("nvidia", "amd", "intel"), "nvidia", "Who makes it.")
PARTITION = unset(
    D,
    "partition",
    choice(*PARTITIONS),
    "one device",
    "Compute partitions of an AMD board: 2, 4 or 8 equal devices.",
    default="",
)
UUID = unset(D, "uuid", TEXT, "drawn from the seed", "UUID.", default="")
MINOR = unset(
    D, "minor", count(0, WORST_MINOR), "in order", "The number of its device file.", default=None
)
PCI_BUS_ID = unset(
    D, "pci_bus_id", TEXT, "by its index", "PCI address. Some systems number by it.", default=""
)
DRIVER_VERSION = unset(D, "driver_version", TEXT, "its vendor's usual one", "Driver.", default=None)
SHARING = unset(
    D,
    "sharing",
    choice("time-slicing", "mps"),
    "not shared",
    "How the device plugin shares it.",
    default="",
)
CARD_POLICY = unset(D, "policy", TEXT, "none", "Its `/proc/qgpu/<index>/policy`.", default="")
IDLE_POWER = may(D, "idle_power", WATTS, "50", "Of an idle board.")
MAX_POWER = may(D, "max_power", WATTS, "300", "Of a busy board.")
CLOCK_MHZ = may(D, "clock_mhz", count(1, 10_000), "1500", "Of a busy board.")

FAULTY = must(X, "device", count(0, MAX_DEVICES), "Number of the device.")
STATE = must(
    X,
    "state",
    choice("lost", "stuck", "failing"),
    "Fallen off the bus, calls that hang, or calls that fail.",
)
FROM = must(X, "from", DURATION, "When it begins.")
TO = unset(X, "to", DURATION, "never", "When it ends.", default=FOREVER)


LONGEST_SHOWN = 60


def read(node: yaml.Node, origin: str) -> "Section":
    """The keys of a scenario file.

    Raises:
        ScenarioError: keys are unknown, missing or given twice, or values are not allowed.

    """
    merge(node)
    wrong: list[StructureProblem] = []
    given = read_mapping(node, _section(F), wrong)
    if wrong:
        raise ScenarioError(
            *(Problem(ValuePlace(origin, w, line), text) for line, w, text in wrong)
        )
    return Section(given, origin)


def _section(name: str) -> dict[str, Any]:
    return {key.name: _reader(key) for key in TABLE[name].values()}


def _reader(key: Key[Any]) -> Any:  # noqa: ANN401 - a reader, or a table of readers
    reader: Any = of_kind(key.kind)
    if key.section:
        table = _section(key.section)
        reader = ListOf(table, key.kind.allowed, key.usual is not None) if key.several else table
    wanted = f"missing; write {key.kind.allowed}"
    return reader if key.usual is not None else Required(reader, wanted)


class Section:
    """The values of a mapping of the file, with what a missing key means."""

    def __init__(self, given: Given, origin: str) -> None:
        self._given = given
        self._origin = origin

    def get(self, key: Key[T]) -> T:
        """The value of a key, or what it means if it is missing."""
        return self._given.get(key.name, key.default)  # type: ignore[return-value]  # a T

    def has(self, key: Key[object]) -> bool:
        """Whether the file gives this key."""
        return key.name in self._given

    def wrong(self, key: Key[object], allowed: str) -> ScenarioError:
        """The error for a key's value."""
        node = self._given.nodes.get(key.name)
        value = f"{_shown(value_of(node))} is not allowed" if node else "missing"
        return self.refused(key, f"{value}; write {allowed}")

    def refused(self, key: Key[object], text: str) -> ScenarioError:
        """The error that says this of a key."""
        node = self._given.nodes.get(key.name)
        line = line_of(node) if node else self._given.line
        place = ValuePlace(self._origin, below(self._given.where, key.name), line)
        return ScenarioError(Problem(place, text))

    def sections(self, key: Key[Any]) -> Iterator["Section"]:
        """The mappings of a list, none if it is missing."""
        for given in self._given.get(key.name, ()):
            yield Section(given, self._origin)

    def section(self, key: Key[Any]) -> "Section":
        """The mapping below a key, empty if it is missing."""
        empty = Given(key.name, self._given.line)
        return Section(self._given.get(key.name, empty), self._origin)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."
