import re

import pytest

from exporter.metrics.families import (
    CORE,
    FAMILIES,
    LEVELS,
    OFF_BY_DEFAULT,
    OPTIONAL_GROUPS,
    PREFIX,
    families_without,
)

UNITS = ("seconds", "bytes", "joules", "ratio", "watts", "celsius", "hertz", "gpus")
WITHOUT_UNIT = re.compile(
    r".*_(info|up|unmeasured|processes|devices|simulated|replicas|mismatch|successful|rows|remapping)"
    r"|.*_(pages|pending|action|state|generation|width|licensed)"
    r"|.*_(cycles|reviews|cycle_overruns|calls|samples|errors|series|replays)_total"
)
TARGET_LABELS = {"node", "host", "hostname", "instance", "job", "cluster", "zone", "env"}
UNBOUNDED_LABELS = {"pid", "process", "command", "timestamp"}


def test_names_are_unique_with_and_without_total() -> None:
    names = [family.full_name.removesuffix("_total") for family in FAMILIES]

    assert len(names) == len(set(names))


def test_the_name_is_of_its_level_and_in_snake_case() -> None:
    for family in FAMILIES:
        assert re.fullmatch(rf"{PREFIX}_{family.level}(_[a-z][a-z0-9]*)+", family.full_name)
        assert family.level in LEVELS


def test_the_unit_is_a_base_unit() -> None:
    for family in FAMILIES:
        name = family.full_name
        unit = name.removesuffix("_total").rpartition("_")[2]
        assert (
            unit in UNITS or WITHOUT_UNIT.fullmatch(name) or family.name.startswith("rejected_")
        ), name


def test_no_label_is_the_targets_or_unbounded() -> None:
    for family in FAMILIES:
        labels = (*LEVELS[family.level], *family.labels)
        assert not set(labels) & (TARGET_LABELS | UNBOUNDED_LABELS)
        assert len(labels) == len(set(labels))
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", label) for label in labels)


def test_help_is_a_sentence() -> None:
    for family in FAMILIES:
        assert re.fullmatch(r"[A-Z1].{8,}\.", family.help), family.full_name


def test_only_what_devices_tell_of_themselves_can_be_left_out() -> None:
    left_out = set(FAMILIES) - set(families_without(OPTIONAL_GROUPS))

    of_devices = [family for family in left_out if family.group not in OFF_BY_DEFAULT]

    assert {family.level for family in of_devices} == {"device"}
    owned = re.compile("core|busy|energy|memory_(used|active)")  # names of what owners use, too
    assert [one.full_name for one in of_devices if owned.search(one.name)] == [], (
        "a figure of the device alone needs a name without these words, or the group CORE"
    )
    assert CORE not in OPTIONAL_GROUPS


@pytest.mark.parametrize("group", OPTIONAL_GROUPS)
def test_a_group_is_left_out_alone(group: str) -> None:
    left_out = set(FAMILIES) - set(families_without([group]))

    assert left_out == {family for family in FAMILIES if family.group == group}
    assert left_out
