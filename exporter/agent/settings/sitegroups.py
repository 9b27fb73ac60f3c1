"""Groups that a site describes by patterns of cgroup paths, as they stand in the settings file."""

import yaml

from exporter.inputs.mapping import MAX_PROBLEMS, of_kind, of_text, read_mapping
from exporter.inputs.valuekinds import Form, StructureError, StructureProblem, ValueKind
from exporter.inputs.values import matching
from exporter.inputs.yamldocument import line_of
from exporter.model import GroupPattern

MAX_PATTERNS = 32
TAKEN = frozenset(  # kinds whose groups mean something of their own
    {
        "pod",
        "container",
        "docker",
        "podman",
        "containerd",
        "crio",
        "systemd",
        "user",
        "host",
        "cgroup",
    }
)
_KEYS = {
    "kind": matching(r"[a-z][a-z0-9-]{0,30}", "a name of small letters, digits and -, at most 31"),
    "path": matching(r"~?/[^\x00]{1,254}", "a path such as /lsf/*/job.{job}.*"),
    "group": matching(r"[^\x00]{1,254}", "a text such as {job}"),
}
_SECTION = {name: of_kind(kind) for name, kind in _KEYS.items()}


def read(root: yaml.Node) -> tuple[GroupPattern, ...]:
    """The patterns in a YAML list.

    Raises:
        StructureError: has all problems found in it.

    """
    if not isinstance(root, yaml.SequenceNode) or len(root.value) > MAX_PATTERNS:
        expected = f"a list of at most {MAX_PATTERNS} patterns is expected"
        raise StructureError([StructureProblem(line_of(root), "", expected)])
    wrong: list[StructureProblem] = []
    patterns: list[GroupPattern] = []
    for number, node in enumerate(root.value):
        where, before = f"[{number}]", len(wrong)
        given = read_mapping(node, _SECTION, wrong, where)
        lacking = [name for name in ("kind", "path") if name not in given]
        # A key that could not be read is lacking, too, and was named already.
        if len(wrong) == before and lacking:
            wrong.append(StructureProblem(line_of(node), where, f"it needs a {lacking[0]}"))
        if len(wrong) == before:
            pattern = GroupPattern(**given)
            wrong += [
                StructureProblem(line_of(given.nodes["path"]), f"{where}.path", complaint)
                for complaint in pattern.complaints()
            ]
            if pattern.kind in TAKEN:
                taken = f"{pattern.kind} is a kind of its own: give it another name"
                wrong.append(StructureProblem(line_of(node), f"{where}.kind", taken))
            patterns.append(pattern)
        if len(wrong) >= MAX_PROBLEMS:
            break
    if wrong:
        raise StructureError(wrong)
    return tuple(patterns)


PATTERNS = ValueKind(
    of_text(read),
    f"a YAML list of at most {MAX_PATTERNS} patterns; see docs/off-kubernetes.md",
    read_node=read,
    form=Form(
        "mappings",
        ({name: kind.form for name, kind in _KEYS.items()}, MAX_PATTERNS, ("kind", "path")),
    ),
)
