"""Who leaves a part of the page out, as our documents say, hears of no fault that is none.

Each choice is a cluster of one Prometheus. Its exporter showed everything for some minutes; since
then it shows what is left.
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
import yaml

from exporter.agent.web.selection import CHOICES
from exporter.metrics.families import FAMILIES, LEVELS, OPTIONAL_GROUPS
from exporter.metrics.profiles import left_out
from tests.agent.simulation.clock import SECOND, START
from tests.pages import pages
from tests.rules.run import RECORDING, ROOT
from tests.store import Store, Target

MINUTES, SINCE = 10, 3
END = START // SECOND + MINUTES * 60
NAMES = [family.full_name for family in FAMILIES]
ALERTS = RECORDING.with_name("mgpu-alerts.yaml")


def _without(pattern: str) -> frozenset[str]:
    return frozenset(name for name in NAMES if re.fullmatch(pattern, name))


def _disabled(file: Path) -> frozenset[str]:
    given = yaml.safe_load(file.read_text())["metrics"]
    return left_out(given.get("profile", "full"), (), given.get("disable", ()))


DROPPED: dict[str, frozenset[str]] = {
    **{f"exclude[]={name}": CHOICES[name] for name in (*LEVELS, *OPTIONAL_GROUPS)},
    "exclude[]=group and container": CHOICES["group"] | CHOICES["container"],
    "exclude[]=namespace and group_kind": CHOICES["namespace"] | CHOICES["group_kind"],
    "exclude[]=device and group": CHOICES["device"] | CHOICES["group"],
    "exclude[]=device and container": CHOICES["device"] | CHOICES["container"],
    "all of groups": _without("mgpu_group_.*"),
    "all of pods": _without("mgpu_(container|pod|namespace)_.*"),
    **{f"drop {text}": _without(text) for text in ("mgpu_container_.*", ".+_info", ".+_bytes")},
    "the profile minimal": left_out("minimal"),
    **{path.name: _disabled(path) for path in sorted((ROOT / "examples/metrics").glob("*.yaml"))},
}
EVERYTHING = "everything"
TOLD = ("pod", "uuid", "quantity", "reason")  # of an alert: who and what

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.slow]


@pytest.fixture(scope="module", params=["demo", "hpc"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """On the one node pods use most, on the other groups all."""
    with Store(tmp_path_factory.mktemp("prometheus")) as found:
        dropped_by = DROPPED
        if request.param == "hpc":
            dropped_by = {title: dropped for title, dropped in DROPPED.items() if "group" in title}
        for number, (at, page) in enumerate(pages(request.param, MINUTES, cycle_s=5)):
            if number % 4:  # each minute
                continue
            for title, dropped in {EVERYTHING: frozenset[str](), **dropped_by}.items():
                left = page if at < START // SECOND + SINCE * 60 else without(page, dropped)
                labels = {"job": "mgpu-exporter", "instance": "n", "cluster": title}
                found.scrape(Target(labels), left, at)
        found.record(RECORDING, END - 60, END, "1m")
        yield found


def without(page: str, families: Collection[str]) -> str:
    kept = (line for line in page.splitlines() if line.startswith("mgpu_"))
    return "\n".join(line for line in kept if re.split("[{ ]", line)[0] not in families)


def test_what_is_left_out_raises_no_alert(store: Store, request: pytest.FixtureRequest) -> None:
    raised: dict[str, set[tuple[str, ...]]] = {title: set() for title in (EVERYTHING, *DROPPED)}
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            for one in store.query(rule["expr"], END):
                labels = one["metric"]
                what = (rule["alert"], *(labels.get(name, "") for name in TOLD))
                raised[labels.get("cluster", EVERYTHING)].add(what)
    if request.node.callspec.params["store"] == "demo":
        used = ("MgpuGpuUsedWithoutAllocation", "debug-shell")
        assert any(one[:2] == used for one in raised["drop .+_info"])  # what is true is still said
    known = raised.pop(EVERYTHING)
    assert {title: more for title, found in raised.items() if (more := found - known)} == {}


@pytest.mark.parametrize("title", ["drop .+_info", "exclude[]=exporter"])
def test_an_exporter_without_its_version_is_not_absent(store: Store, title: str) -> None:
    """``absent`` names no cluster, so it is asked of one."""
    (expr,) = (
        rule["expr"]
        for group in yaml.safe_load(ALERTS.read_text())["groups"]
        for rule in group["rules"]
        if rule["alert"] == "MgpuExporterAbsent"
    )
    alone = expr.replace("{", f'{{cluster="{title}",')
    assert store.query(alone, END) == []
