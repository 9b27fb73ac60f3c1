"""Every key of a scenario file, once: what may stand there, what it means, what it is if missing.

``Section`` reads a mapping by this table, ``docs/generate.py`` writes README.md from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import yaml

from exporter.settings import Place, Problem
from exporter.settings.mapping import (
    Given,
    InvalidValue,
    ListOf,
    Required,
    below,
    read_mapping,
)
from exporter.settings.values import StructureProblem
from exporter.settings.yamldocument import line_of, merge, value_of
from exporter.simulation import ScenarioError, identity, values
from exporter.simulation.description import SAMPLE_PERIOD_NS, SampleRule
from exporter.simulation.values import (
    DURATION,
    NAME,
    PROFILE,
    SIZE,
    TEXT,
    TEXTS,
    WATTS,
    Kind,
    choice,
    integer,
    listed,
    mapping,
)
from exporter.simulation.work import FOREVER

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SECOND = 10**9
GIB = 1 << 30
MOST_DEVICES = 64
PARTITIONS = {"dpx": 2, "qpx": 4, "cpx": 8}  # into how many, by AMD's name of the mode
WORST_MINOR = 1023
HUNDRED = 100
MOST_REPLICAS = 48


@dataclass(frozen=True, slots=True)
class Key(Generic[T_co]):
    """A key. ``default`` is what it means if missing, ``usual`` says so; else it must be there."""

    name: str
    kind: Kind[T_co]
    about: str
    default: T_co | None = None
    usual: str | None = None


TABLE: dict[str, dict[str, Key[Any]]] = {}  # by section, in the order in which they are explained


def must(section: str, name: str, kind: Kind[T], about: str) -> Key[T]:
    """Enter a key that must be given."""
    return _entered(section, Key(name, kind, about))


def may(section: str, name: str, kind: Kind[T], default: T, usual: str, about: str) -> Key[T]:
    """Enter a key that may be missing."""
    return _entered(section, Key(name, kind, about, default, usual))


def _entered(section: str, key: Key[T]) -> Key[T]:
    TABLE.setdefault(section, {})[key.name] = key
    return key


F, N, D, X, P, C, R = "file", "node", "devices", "faults", "pods", "containers", "processes"
DEVICES = must(
    F,
    "devices",
    listed(D, "device"),
    "The GPUs and MIG instances, numbered from 0; a board's partitions follow it.",
)
PODS = may(F, "pods", listed(P), [], "none", "The pods of the node.")
HOST_PROCESSES = may(F, "processes", listed(R), [], "none", "Processes outside all pods.")
FAULTS = may(F, "faults", listed(X), [], "none", "Devices that cannot be read for a while.")
NODE = may(F, "node", mapping(N), {}, "empty", "The node itself.")
SEED = may(F, "seed", integer(0, identity.WORD), 0, "0", "What all chances are drawn from.")
SAMPLE_RULE = may(
    F,
    "sample_rule",
    choice(*SampleRule),
    SampleRule.LAST,
    "last",
    "Which process a driver's sample names: the last in it, the one at its end or nobody, the "
    "longest, or one at random by use. Recorded boards fit all but `end`.",
)
SAMPLE_PERIOD = may(
    F,
    "sample_period",
    values.SAMPLE_PERIOD,
    SAMPLE_PERIOD_NS,
    "1/6 s",
    "Between two of the driver's samples. Turing boards have 500 ms.",
)
STATUS_DELAY = may(
    F,
    "status_delay",
    DURATION,
    0,
    "0s",
    "From a container's start until the API server knows its id.",
)

NODE_NAME = may(N, "name", NAME, "gpu-node", "gpu-node", "Name of the node.")
NODE_LABELS = may(
    N,
    "labels",
    TEXTS,
    {},
    "none",
    "Labels, added to or replacing those of the sharing systems.",
)
NODE_ANNOTATIONS = may(N, "annotations", TEXTS, {}, "none", "Annotations, likewise.")

MODEL = may(D, "model", TEXT, "", "its card's", "Name as the driver has it. A card must have one.")
DEVICE_MEMORY = may(
    D, "memory", SIZE, 0, "unknown: Intel's only", "Its memory, of all partitions together."
)
RESERVED = may(D, "reserved", SIZE, GIB // 2, "512MiB", "What the driver keeps for itself.")
PARENT = may(
    D,
    "parent",
    integer(0, MOST_DEVICES),
    None,
    "a card",
    "Number of the NVIDIA card that this is a MIG instance of. The card comes first.",
)
DEVICE_PROFILE = may(D, "profile", PROFILE, "", "none", "MIG profile of an instance.")
VENDOR = may(
    D,
    "vendor",
    choice("nvidia", "amd", "intel"),
    "nvidia",
    "nvidia",
    "Who makes it.",
)
PARTITION = may(
    D,
    "partition",
    choice(*PARTITIONS),
    "",
    "one device",
    "Compute partitions of an AMD board: 2, 4 or 8 equal devices.",
)
UUID = may(D, "uuid", TEXT, "", "drawn from the seed", "UUID.")
MINOR = may(D, "minor", integer(0, WORST_MINOR), None, "in order", "The number of its device file.")
PCI_BUS_ID = may(
    D, "pci_bus_id", TEXT, "", "by its index", "PCI address. Some systems number by it."
)
DRIVER_VERSION = may(D, "driver_version", TEXT, None, "its vendor's usual one", "Driver.")
SHARING = may(
    D,
    "sharing",
    choice("time-slicing", "mps"),
    "",
    "not shared",
    "How the device plugin shares it.",
)
DEVICE_REPLICAS = may(
    D, "replicas", integer(1, MOST_REPLICAS), 1, "1", "Into how many the plugin divides it."
)
DEVICE_RESOURCE = may(
    D,
    "resource",
    TEXT,
    "",
    "the plugin's usual name",
    "What its device plugin calls it: `nvidia.com/gpu.shared`, `gpu.intel.com/xe`, "
    "`amd.com/cpx_nps1`.",
)
CARD_POLICY = may(D, "policy", TEXT, "", "none", "Its `/proc/qgpu/<index>/policy`.")
IDLE_POWER = may(D, "idle_power", WATTS, 50.0, "50", "Of an idle board.")
MAX_POWER = may(D, "max_power", WATTS, 300.0, "300", "Of a busy board.")
CLOCK_MHZ = may(D, "clock_mhz", integer(1, 10_000), 1500, "1500", "Of a busy board.")

FAULTY = must(X, "device", integer(0, MOST_DEVICES), "Number of the device.")
STATE = must(
    X,
    "state",
    choice("lost", "stuck", "failing"),
    "Fallen off the bus, calls that hang, or calls that fail.",
)
FROM = must(X, "from", DURATION, "When it begins.")
TO = may(X, "to", DURATION, FOREVER, "never", "When it ends.")


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
        raise ScenarioError(*(Problem(Place(origin, w, line), text) for line, w, text in wrong))
    return Section(given, origin)


def _section(name: str) -> dict[str, Any]:
    return {key.name: _reader(key) for key in TABLE[name].values()}


def _reader(key: Key[Any]) -> Any:  # noqa: ANN401 - a reader, or a table of readers
    kind = key.kind
    reader: Any = partial(_read, kind)
    if kind.section:
        below = _section(kind.section)
        reader = ListOf(below, kind.allowed, key.usual is not None) if kind.several else below
    return reader if key.usual is not None else Required(reader, f"missing; write {kind.allowed}")


def _read(kind: Kind[Any], node: yaml.Node) -> object:
    value = value_of(node)
    try:
        return kind.read(value)
    except (KeyError, ValueError):
        raise InvalidValue(f"{_shown(value)} is not allowed; write {kind.allowed}") from None


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
        place = Place(self._origin, below(self._given.where, key.name), line)
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
