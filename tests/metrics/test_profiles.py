"""Which families each profile has, and how it combines with --metrics.enable and disable."""

from collections.abc import Mapping

import pytest

from benchmarks.fleet.series import DASHBOARDS, RULES, named_in
from exporter.agent.settings import SettingsError, load
from exporter.metrics.families import FAMILIES, OFF_BY_DEFAULT, OWN_LEVEL, groups_without
from exporter.metrics.profiles import PROFILES, has, left_out

BY_NAME = {family.full_name: family for family in FAMILIES}
BY_DEFAULT = {name for name, family in BY_NAME.items() if family.group not in OFF_BY_DEFAULT}


def served(flags: Mapping[str, str], environ: Mapping[str, str] | None = None) -> set[str]:
    settings = load({name: [text] for name, text in flags.items()}, environ or {})
    return BY_NAME.keys() - settings.metrics_left_out


def test_each_profile_has_more_than_the_one_before() -> None:
    minimal, full = ({f.full_name for f in FAMILIES if has(p, f)} for p in PROFILES)
    assert minimal < full == BY_DEFAULT


def test_full_is_the_default() -> None:
    assert served({}) == served({"metrics.profile": "full"}) == BY_DEFAULT


def test_a_group_that_is_off_by_default_is_served_if_it_is_asked_for() -> None:
    assert served({"metrics.enable": "contention"}) == BY_NAME.keys()


def test_full_has_what_the_shipped_rules_and_dashboards_ask_for() -> None:
    """What is off by default they take where it is, and do without it."""
    off = BY_NAME.keys() - BY_DEFAULT
    assert named_in(RULES, DASHBOARDS) - off <= BY_DEFAULT


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_keeps_what_the_exporter_says_of_itself(profile: str) -> None:
    own = {f.full_name for f in FAMILIES if f.level == OWN_LEVEL}
    assert own <= served({"metrics.profile": profile})


def test_minimal_has_use_allocation_energy_and_the_reasons_for_what_is_missing() -> None:
    assert {
        *("mgpu_container_core_seconds_total", "mgpu_container_memory_used_bytes"),
        *("mgpu_container_core_limit_ratio", "mgpu_pod_allocated_core_seconds_total"),
        *("mgpu_namespace_energy_joules_total", "mgpu_container_unmeasured"),
    } <= served({"metrics.profile": "minimal"})


def test_every_name_of_the_minimal_profile_is_a_family() -> None:
    from exporter.metrics.profiles import _MINIMAL  # noqa: PLC0415 - the table

    named = {f"mgpu_{level}_{name}" for level, names in _MINIMAL.items() for name in names}
    assert named <= BY_NAME.keys()


def test_what_is_enabled_is_added_to_the_profile() -> None:
    minimal = served({"metrics.profile": "minimal"})
    more = served(
        {"metrics.profile": "minimal", "metrics.enable": "power,mgpu_container_processes"}
    )
    power = {family.full_name for family in FAMILIES if family.group == "power"}
    assert power
    assert more - minimal == {*power, "mgpu_container_processes"}


def test_what_is_disabled_goes_whatever_else_says() -> None:
    names = {"metrics.profile": "minimal", "metrics.enable": "power"}
    less = served({**names, "metrics.disable": "mgpu_device_power_watts,mgpu_pod_info"})
    assert served(names) - less == {"mgpu_device_power_watts", "mgpu_pod_info"}


def test_the_profile_of_a_flag_goes_before_the_variables_and_the_lists_are_kept() -> None:
    environ = {"MGPU_METRICS_PROFILE": "full", "MGPU_METRICS_DISABLE": "mgpu_pod_info"}
    found = served({"metrics.profile": "minimal"}, environ)
    assert found == served({"metrics.profile": "minimal"}) - {"mgpu_pod_info"}


def test_what_a_profile_leaves_out_is_not_read() -> None:
    off = groups_without(left_out("minimal"))
    assert {"power", "temperature", "profiling", "link", "bar1", "pcie"} <= off
    assert "xid" not in off
    assert "power" not in groups_without(left_out("minimal", enable=["power"]))
    assert groups_without(left_out("full")) == OFF_BY_DEFAULT


def test_another_profile_is_refused() -> None:
    with pytest.raises(SettingsError, match="standard is gone: full has all of it"):
        served({"metrics.profile": "standard"})
