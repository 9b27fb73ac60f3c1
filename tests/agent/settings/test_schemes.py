"""Sharing systems that a user describes, and what else is said of allocations in the settings."""

import json
from argparse import ArgumentParser
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.collector.wiring import read_settings
from exporter.agent.settings import Settings, SettingsError, add_arguments, load
from exporter.agent.settings.schemes import KEYS, MAX_SCHEMES
from exporter.inputs.mapping import MAX_PROBLEMS
from exporter.model import SchemeDescription

EVERY_KEY = """\
allocations:
  schemes:
    - name: acme
      core-resource: acme.example/core
      core-units: 1000
      memory-resource: acme.example/memory
      memory-unit: 256Mi
      count-resource: acme.example/count
      amounts: each
      count-alone: whole-cards
      placement-annotation: acme.example/cards-{index}
      index-basis: minor
      policy-annotation: acme.example/policy
      policy-node-label: acme.example/node-policy
      replaces: [hami, vke-mgpu]
    - {name: "2", core-resource: b.example/core, memory-unit: null}
"""
EVERY_VALUE = SchemeDescription(
    name="acme",
    core_resource="acme.example/core",
    core_units=1000,
    memory_resource="acme.example/memory",
    memory_unit=256 << 20,
    count_resource="acme.example/count",
    amounts="each",
    count_alone="whole-cards",
    placement_annotation="acme.example/cards-{index}",
    index_basis="minor",
    policy_annotation="acme.example/policy",
    policy_node_label="acme.example/node-policy",
    replaces=("hami", "vke-mgpu"),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def parse(*argv: str, **environ: str) -> Settings:
    parser = ArgumentParser(allow_abbrev=False)
    add_arguments(parser)
    return load(vars(parser.parse_args(argv)), environ)


def problems(text: str, file: Path) -> list[str]:
    """What is wrong with a settings file; each starts with the file and the line."""
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        read_settings({"config.file": [str(file)]})
    assert all(str(problem).startswith(f"{file}, line ") for problem in caught.value.problems)
    return [str(problem).removeprefix(f"{file}, line ") for problem in caught.value.problems]


def item(more: str) -> str:
    return f"allocations.schemes:\n- name: a\n  core-resource: a.b/c\n  {more}\n"


def test_every_key_of_a_described_scheme_is_read(file: Path) -> None:
    file.write_text(EVERY_KEY)

    assert parse(f"--config.file={file}").allocations_schemes == (
        EVERY_VALUE,
        SchemeDescription(name="2", core_resource="b.example/core"),
    )


def test_the_keys_and_the_description_are_one() -> None:
    described = {field.name: field.default for field in fields(SchemeDescription)}

    assert [key.field for key in KEYS.values()] == list(described)
    for key in KEYS.values():
        if key.default:
            assert key.kind.read(key.default) == described[key.field]
        elif key.name != "name":
            assert not described[key.field]


def test_a_list_can_be_given_as_text_too(file: Path) -> None:
    text = "[{name: a, core-resource: a.b/c}]"
    [scheme] = parse(f"--allocations.schemes={text}").allocations_schemes
    file.write_text("allocations.schemes: |\n  - name: a\n    core-resource: a.b/c\n")

    assert scheme == SchemeDescription(name="a", core_resource="a.b/c")
    assert parse(MGPU_ALLOCATIONS_SCHEMES=text).allocations_schemes == (scheme,)
    assert parse(f"--config.file={file}").allocations_schemes == (scheme,)


@pytest.mark.parametrize("text", ["", "allocations.schemes:\n", "allocations: {schemes: []}\n"])
def test_no_schemes_are_described_unless_they_are(text: str, file: Path) -> None:
    file.write_text(text)

    assert parse(f"--config.file={file}").allocations_schemes == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("allocations.schemes: x\n", "1, allocations.schemes: a list of schemes is expected"),
        ("allocations: {schemes: {a: 1}}", "1, allocations.schemes: a list of schemes is expected"),
        ("allocations.schemes:\n- a\n", "2, allocations.schemes[0]: a mapping is expected; known"),
        ("allocations.schemes: [[]]\n", "1, allocations.schemes[0]: a mapping is expected; known"),
        ("allocations.schemes:\n- {}\n", "2, allocations.schemes[0]: it needs a name"),
        (
            "allocations.schemes:\n\n- name: a\n",
            "3, allocations.schemes[0]: it needs a resource or a key: one of core-resource",
        ),
        (item("cores: 1"), "4, allocations.schemes[0].cores: no such key; known: name, core-"),
        (item("<<: {core-units: 1}"), "4, allocations.schemes[0].<<: no such key"),
        (item("name: b"), "4, allocations.schemes[0].name: given twice"),
        (item("core-units: 0"), "4, allocations.schemes[0].core-units: '0' is not a number from 1"),
        (item("core-units: [1]"), "4, allocations.schemes[0].core-units: this is not a number"),
        (item("count-resource: gpu"), "[0].count-resource: 'gpu' is not an extended resource such"),
        (
            item("memory-unit: Mi"),
            "[0].memory-unit: it has no effect without memory-resource or memory-key",
        ),
        (
            item("index-basis: pci"),
            "index-basis: it has no effect without placement-annotation",
        ),
        (
            item("placement-annotation: a/b\n  index-basis: nvml"),
            "5, allocations.schemes[0].index-basis: 'nvml' is not one of nvml_index, minor, pci",
        ),
        (item("placement-annotation: '{container}'"), "[0].placement-annotation: '{container}' is"),
        (item("placement-annotation: a/b{pod}"), "'a/b{pod}' is not a key such as"),
        (item("placement-annotation: a/b{index}{index}"), "is not a key such as"),
        (item("memory-resource: a.b/d\n  memory-unit: 2Pi"), "'2Pi' is not a number of bytes from"),
        (item("memory-resource: a.b/d\n  memory-unit: 0"), "'0' is not a number of bytes from"),
        (item("memory-resource: a.b/c"), "[0]: it reads one resource as two things"),
        (item("amounts: some"), "'some' is not one of total, each"),
        (item("replaces: {hami: 1}"), "[0].replaces: this is not a name of small letters"),
        (
            item("") + "- name: a\n  core-resource: b.c/d\n",
            "5, allocations.schemes[1].name: a is given twice; see [0]",
        ),
        (
            item("") + "- name: b\n  core-resource: a.b/c\n",
            "5, allocations.schemes[1]: a.b/c is read by two schemes; see [0]",
        ),
        (
            "allocations.schemes:\n" + "- {name: a}\n" * (MAX_SCHEMES + 1),
            f"2, allocations.schemes: more than {MAX_SCHEMES} schemes",
        ),
        (
            "\nallocations.schemes: [{name: hami, core-resource: a.b/c}]\n",
            "2, allocations.schemes: hami is the name of a shipped scheme",
        ),
        (
            "allocations.index-basis: [hami=pci]\n",
            "1, allocations.index-basis: hami does not number its cards",
        ),
        (
            "allocations.index-basis: [vke-mgpu=uuid]\n",
            "1, allocations.index-basis: 'vke-mgpu=uuid' is not SCHEME=BASIS, where BASIS is one",
        ),
        (
            "allocations.index-basis: [vke-mgpu=pci, vke-mgpu=minor]\n",
            "several separated by commas, each once",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_what_is_allowed(
    text: str, complaint: str, file: Path
) -> None:
    [problem] = problems(text, file)[:1]

    assert complaint in problem


def test_a_scheme_after_too_many_problems_is_not_said_to_lack_what_it_has(file: Path) -> None:
    wrong = "".join(f"  k{n}: 1\n" for n in range(MAX_PROBLEMS))
    said = problems(item(wrong.lstrip()) + "- {name: b, core-resource: b.c/d}\n", file)
    assert len(said) == MAX_PROBLEMS
    assert all("no such key" in one for one in said)


def test_all_that_is_wrong_is_said_at_once(file: Path) -> None:
    text = item("cores: 1\n  core-units: x") + "- {name: b}\nlog.level: loud\n"

    assert [problem.split(":")[0] for problem in problems(text, file)] == [
        "4, allocations.schemes[0].cores",
        "5, allocations.schemes[0].core-units",
        "6, allocations.schemes[1]",
        "7, log.level",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[", "--allocations.schemes: line 1, column 2: not YAML: "),
        ("[" * 5000, "--allocations.schemes: line 1, column 65: not YAML: nested more"),
        ("[{name: a}]", "--allocations.schemes[0]: it needs a resource or a key"),
    ],
)
def test_wrong_text_is_said_with_its_flag(text: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(f"--allocations.schemes={text}")

    assert str(caught.value.problems[0]).startswith(complaint)


@pytest.mark.parametrize(
    "text",
    [
        "allocations.index-basis: vke-mgpu=minor, tke-qgpu=pci",
        "allocations.index-basis: [vke-mgpu=minor, tke-qgpu=pci]",
        "allocations: {index-basis: {vke-mgpu: minor, tke-qgpu: pci}}",
    ],
)
def test_index_bases_can_be_a_text_a_list_or_a_mapping(text: str, file: Path) -> None:
    file.write_text(text)
    flags = ("--allocations.index-basis=vke-mgpu=minor", "--allocations.index-basis=tke-qgpu=pci")

    expected = (("vke-mgpu", "minor"), ("tke-qgpu", "pci"))
    assert parse(f"--config.file={file}").allocations_index_basis == expected
    assert parse(*flags).allocations_index_basis == expected


HAMI = (("resourceCoreName", "acme.example/cores"), ("memoryFactor", "10"))


@pytest.mark.parametrize(
    "text",
    [
        "allocations.hami: [resourceCoreName=acme.example/cores, memoryFactor=10]",
        "allocations: {hami: {resourceCoreName: acme.example/cores, memoryFactor: 10}}",
    ],
)
def test_hamis_names_are_taken_by_the_keys_of_its_own_configuration(text: str, file: Path) -> None:
    file.write_text(text)

    assert parse(f"--config.file={file}").allocations_hami == HAMI


@pytest.mark.parametrize(
    "text",
    ["resourceName=a.b/c", "resourceCoreName=cores", "memoryFactor=a.b/c", "memoryFactor=0"],
)
def test_what_hami_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not KEY=RESOURCE, where KEY is one of resource"):
        parse(f"--allocations.hami={text}")


SCALARS = st.one_of(st.text(max_size=8), st.integers(), st.none(), st.sampled_from(["a.b/c", "a"]))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=4)


@given(
    st.lists(
        st.dictionaries(st.one_of(st.sampled_from(sorted(KEYS)), st.text(max_size=5)), VALUES),
        max_size=3,
    )
)
@settings(deadline=None)
def test_any_list_is_either_read_or_refused(items: list[dict[str, object]]) -> None:
    with suppress(SettingsError):
        found = load({"allocations.schemes": [json.dumps(items)]}, {}).allocations_schemes
        assert len(found) == len(items)
