"""Sharing systems that a user describes: the table of their keys, and the reader of their YAML."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import yaml

from exporter.inputs.mapping import MAX_PROBLEMS, below, of_kind, of_text, read_mapping
from exporter.inputs.valuekinds import Form, StructureError, StructureProblem, ValueKind
from exporter.inputs.values import choice, count, many, matching, size
from exporter.inputs.yamldocument import line_of
from exporter.model import SchemeDescription
from exporter.model.policies import DESCRIBED_LENDING

MAX_SCHEMES = 32

SCHEME_NAME = matching(
    r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "a name of small letters, digits and -, at most 63"
)
RESOURCE = matching(
    r"[a-z0-9][a-z0-9.-]{0,252}/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?",
    "an extended resource such as example.com/gpu-core",
)
_KEY = r"[A-Za-z0-9][A-Za-z0-9._/-]{2,315}"
BEGINNING = matching(
    r"[a-z0-9][a-z0-9.-]{0,252}/[A-Za-z0-9]([A-Za-z0-9._-]{0,62})?",
    "an extended resource, or the beginning of one such as example.com/index_",
)
*_LENDING, _LAST = DESCRIBED_LENDING
AMOUNT_KEYS = ("core-key", "memory-key", "count-key")
KEY = matching(_KEY, "a key such as example.com/gpu-policy")
KEY_TEMPLATE = matching(
    rf"{_KEY}(\{{(container|index)\}}[A-Za-z0-9._-]{{0,63}})?",
    "a key such as example.com/gpu-index, with {container} or {index} after its first letters "
    "if each container has its own",
)


@dataclass(frozen=True, slots=True)
class SchemeKey:
    """A key of a described scheme. It has no effect without one of the keys in ``needs``."""

    name: str
    kind: ValueKind[object]
    default: str
    about: str
    needs: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """The field of ``SchemeDescription``."""
        return self.name.replace("-", "_")


KEYS = {
    key.name: key
    for key in (
        SchemeKey("name", SCHEME_NAME, "", "Name of the scheme, as the label `scheme` shows it."),
        SchemeKey("core-resource", RESOURCE, "", "Resource that counts parts of a card's cores."),
        SchemeKey(
            "core-units",
            count(1, 1_000_000),
            "100",
            "How many units of core-resource or core-key are one whole card.",
            ("core-resource", "core-key"),
        ),
        SchemeKey("memory-resource", RESOURCE, "", "Resource that counts device memory."),
        SchemeKey(
            "memory-unit",
            size("1", "1Ti"),
            "Mi",
            "Bytes of one unit of memory-resource or memory-key.",
            ("memory-resource", "memory-key"),
        ),
        SchemeKey("count-resource", RESOURCE, "", "Resource that counts cards."),
        SchemeKey(
            "amounts",
            choice("total", "each"),
            "total",
            "total: cores and memory are divided over the container's cards; each: "
            "every card has them. More than one card's cores, without a count, are on the fewest "
            "cards that can hold them.",
        ),
        SchemeKey(
            "count-alone",
            choice("whole-cards", "no-limit"),
            "no-limit",
            "What a container is allocated that requests cards by number, but no cores and no "
            "memory.",
            ("count-resource", "count-key"),
        ),
        SchemeKey(
            "core-key",
            KEY,
            "",
            "Annotation, or else label, of the pod that states cores, also decimal.",
        ),
        SchemeKey(
            "memory-key",
            KEY,
            "",
            "Annotation or label that states device memory, in memory-unit or as 4Gi.",
        ),
        SchemeKey("count-key", KEY, "", "Annotation or label that states a number of cards."),
        SchemeKey(
            "container-key",
            KEY,
            "",
            "Annotation or label that names the containers that have it, separated by commas; else "
            "the pod's only container, else the pod as a whole.",
            AMOUNT_KEYS,
        ),
        SchemeKey(
            "evidence-resource",
            BEGINNING,
            "",
            "Resource, or the beginning of some, that a container must ask for before these keys "
            "count. Without any resource, who may change a pod may change them.",
            AMOUNT_KEYS,
        ),
        SchemeKey(
            "placement-annotation",
            KEY_TEMPLATE,
            "",
            "Annotation of the pod that lists the cards, separated by commas. `{container}` is a "
            "container's name, `{index}` its index in `spec.containers`.",
        ),
        SchemeKey(
            "index-basis",
            choice("nvml_index", "minor", "pci", "uuid"),
            "nvml_index",
            "What the listed cards are: NVML indices, the N of /dev/nvidiaN, positions by PCI "
            "address, or UUIDs.",
            ("placement-annotation",),
        ),
        SchemeKey(
            "policy-annotation",
            KEY,
            "",
            "Annotation of the pod that names its policy. Under "
            f"{', '.join(_LENDING)} and {_LAST} a container that uses more than its share is not "
            "marked.",
        ),
        SchemeKey(
            "policy-node-label",
            KEY,
            "",
            "Label of the node that names the policy if the pod does not.",
        ),
        SchemeKey(
            "replaces",
            many(SCHEME_NAME),
            "",
            "Shipped schemes that it replaces, whose names and resources it then may use.",
        ),
    )
}

_SECTION = {name: of_kind(key.kind) for name, key in KEYS.items()}


def read(root: yaml.Node) -> tuple[SchemeDescription, ...]:
    """The described schemes in a YAML list.

    Raises:
        StructureError: has all problems found in it.

    """
    wrong: list[StructureProblem] = []
    if not isinstance(root, yaml.SequenceNode):
        raise StructureError([_misread(root, "", "a list of schemes is expected")])
    if len(root.value) > MAX_SCHEMES:
        raise StructureError([_misread(root, "", f"more than {MAX_SCHEMES} schemes")])
    schemes = []
    for number, node in enumerate(root.value):
        scheme = _read_scheme(node, f"[{number}]", wrong)
        if scheme is not None:
            schemes.append((node, f"[{number}]", scheme))
    wrong += _twice(schemes)
    if wrong:
        raise StructureError(wrong)
    return tuple(scheme for _, _, scheme in schemes)


_RESOURCES = tuple(name for name, key in KEYS.items() if key.kind is RESOURCE)
_FORM = (
    {name: key.kind.form for name, key in KEYS.items()},
    MAX_SCHEMES,
    ("name",),
    (*_RESOURCES, *AMOUNT_KEYS),
    {name: key.needs for name, key in KEYS.items() if key.needs},
)
SCHEMES = ValueKind(
    of_text(read),
    f"a YAML list of at most {MAX_SCHEMES} schemes, best in the file; see docs/configuration.md",
    read_node=read,
    form=Form("mappings", _FORM),
)


def _misread(node: yaml.Node, where: str, text: str) -> StructureProblem:
    return StructureProblem(line_of(node), where, text)


def _twice(
    schemes: Sequence[tuple[yaml.Node, str, SchemeDescription]],
) -> Iterator[StructureProblem]:
    for (_, before, first), (node, where, second) in combinations(schemes, 2):
        if first.name == second.name:
            yield _misread(node, f"{where}.name", f"{first.name} is given twice; see {before}")
        # Both would allocate the same card, and its container would seem to have two shares.
        for name in set(first.resources) & set(second.resources):
            yield _misread(node, where, f"{name} is read by two schemes; see {before}")


def _read_scheme(
    node: yaml.Node, where: str, wrong: list[StructureProblem]
) -> SchemeDescription | None:
    """One scheme of the list; None if something is wrong with it."""
    before = len(wrong)
    if before >= MAX_PROBLEMS:
        return None  # it would not be read
    if not isinstance(node, yaml.MappingNode):
        wrong.append(_misread(node, where, f"a mapping is expected; known keys: {', '.join(KEYS)}"))
        return None
    given = read_mapping(node, _SECTION, wrong, where)
    # A key that could not be read is not in ``given``: the scheme would be said to lack it.
    if len(wrong) == before:
        wrong += (_misread(node, below(where, name), text) for name, text in _contradictions(given))
    if len(wrong) > before:
        return None
    return SchemeDescription(**{KEYS[name].field: value for name, value in given.items()})


def _contradictions(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Key, or "" for the scheme as a whole, and what is wrong with it."""
    resources = [given[name] for name in _RESOURCES if name in given]
    if "name" not in given:
        yield "", "it needs a name"
    if not resources and not any(name in given for name in AMOUNT_KEYS):
        yield "", f"it needs a resource or a key: one of {', '.join((*_RESOURCES, *AMOUNT_KEYS))}"
    if len(set(resources)) < len(resources):
        yield "", "it reads one resource as two things"
    for name, key in KEYS.items():
        if name in given and key.needs and not any(needed in given for needed in key.needs):
            yield name, f"it has no effect without {' or '.join(key.needs)}"
