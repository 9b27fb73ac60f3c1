"""Runs expressions and rules with promtool, over pages of a simulated node or written series."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.pages import SCRAPE_S, pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RECORDING = ROOT / "rules" / "mgpu-recording.yaml"
DAY_MINUTES = 24 * 60
LEVELS = ("mgpu_device", "mgpu_namespace", "mgpu_container", "mgpu_group", "mgpu_pod")

Series = Mapping[str, list[str]]


class Alert(NamedTuple):
    """One that was raised: by which expression, when, its labels, what it says, in which case."""

    title: str
    minute: int
    labels: Mapping[str, str]
    annotations: str = ""
    case: str = ""


class Case(NamedTuple):
    """Series in promtool's notation, and when to look for which alerts."""

    series: Mapping[str, str]
    titles: Iterable[str]
    minutes: Iterable[int]

    def test(self, name: str, interval: str) -> dict[str, object]:
        """The case as a test of promtool, in which nothing is to be raised."""
        return {
            "name": name,
            "interval": interval,
            "input_series": [{"series": key, "values": v} for key, v in self.series.items()],
            "alert_rule_test": [
                {"alertname": title, "eval_time": f"{minute}m", "exp_alerts": []}
                for title in self.titles
                for minute in self.minutes
            ],
        }


def documented(page: str, heading: str = "") -> dict[str, str]:
    """The expressions of a page of docs/, or of one of its sections, by their titles."""
    text = (DOCS / page).read_text()
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0] if heading else text
    blocks = re.findall(r"```promql\n(.*?)```", section, re.DOTALL)
    queries = (one.partition("\n") for block in blocks for one in block.strip().split("\n\n"))
    return {title.removeprefix("# "): expression for title, _, expression in queries}


def simulated(
    scenario: str, minutes: int, cycle_s: int = 1, levels: tuple[str, ...] = LEVELS
) -> Series:
    """What a Prometheus has after some minutes with a scenario: the values of each series."""
    return _scraped((page for _, page in pages(scenario, minutes, cycle_s)), levels)


def _scraped(pages: Iterable[str], levels: tuple[str, ...]) -> Series:
    """One value for each page, in the notation of promtool."""
    found: dict[str, list[str]] = {}
    for number, page in enumerate(pages):
        for line in page.splitlines():
            if line.startswith(levels):
                name, _, value = line.rpartition(" ")
                found.setdefault(name, ["_"] * number).append(value)
        for values in found.values():
            if len(values) == number:
                values.append("stale")
    return found


class Rules:
    """Expressions as alerts over series."""

    def __init__(self, expressions: Mapping[str, str], series: Series, folder: Path) -> None:
        self._expressions = expressions
        self._series = {name: " ".join(values) for name, values in series.items()}
        self._folder = folder

    def alerts(self, minutes: Iterable[int]) -> list[Alert]:
        """What is raised at these minutes."""
        rules = [{"alert": title, "expr": query} for title, query in self._expressions.items()]
        groups = {"groups": [{"name": "rules", "rules": rules}]}
        file = self._folder / "rules.yaml"
        file.write_text(json.dumps(groups))  # JSON is YAML
        case = Case(self._series, self._expressions, list(minutes))
        # They have nothing to wait for, so nothing between whole minutes is of interest.
        return raised([file], {"": case}, self._folder, evaluated="1m")


def written(rules: Sequence[Mapping[str, Any]], folder: Path, recording: Path = RECORDING) -> Path:
    """A rule file with these rules, behind the shipped recording rules that they read."""
    file = folder / "rules.yaml"
    behind = read_by(json.dumps(rules), recording)
    groups = [{"name": "recorded", "rules": behind}, {"name": "rules", "rules": list(rules)}]
    file.write_text(json.dumps({"groups": groups}))  # JSON is YAML
    return file


def read_by(text: str, recording: Path = RECORDING) -> list[dict[str, Any]]:
    """The shipped recording rules that an expression or rules read, and those that these read.

    The others would take promtool most of its time.
    """
    recorded = [rule for group in _groups(recording) for rule in group["rules"]]
    needed = set[str]()
    while more := {r["record"] for r in recorded if r["record"] in text} - needed:
        needed |= more
        text = json.dumps([rule["expr"] for rule in recorded if rule["record"] in more])
    return [rule for rule in recorded if rule["record"] in needed]


@cache
def _groups(file: Path) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.load(file.read_text(), yaml.CSafeLoader)["groups"]
    return groups


def raised(
    files: Sequence[Path],
    cases: Mapping[str, Case],
    folder: Path,
    interval: str = f"{SCRAPE_S}s",
    evaluated: str = "",
) -> list[Alert]:
    """Which alerts of rule files are raised in these cases.

    ``interval`` lies between values, ``evaluated`` between evaluations where that is longer.
    """
    asked = _asked("".join(file.read_text() for file in files), cases)
    document = {
        "rule_files": [str(file) for file in files],
        "evaluation_interval": evaluated or interval,
        "tests": [case.test(name, interval) for name, case in asked.items()],
    }
    (folder / "test.yaml").write_text(json.dumps(document))
    done = subprocess.run(
        ["promtool", "test", "rules", str(folder / "test.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    found = list(_raised(said))
    assert bool(found) == (done.returncode != 0), said
    return found


def raised_alone(
    alerts: Path, recording: Path, cases: Mapping[str, Case], folder: Path
) -> list[Alert]:
    """Which alerts are raised, each case evaluated with its own alert only, since it asks for it.

    With all alerts promtool takes five times as long. An alert that is looked at after a day is
    evaluated each five minutes: each minute of days would take most of the time of all.
    """
    rules = {rule["alert"]: rule for group in _groups(alerts) for rule in group["rules"]}
    alike: dict[tuple[str, str], dict[str, Case]] = {}
    for title, case in cases.items():
        (name,) = case.titles
        evaluated = "5m" if min(case.minutes) > DAY_MINUTES else "1m"
        alike.setdefault((name, evaluated), {})[title] = case
    return [
        alert
        for (name, evaluated), own in alike.items()
        for alert in raised(
            [written([rules[name]], folder, recording)], own, folder, "1m", evaluated
        )
    ]


def _asked(rules: str, cases: Mapping[str, Case]) -> Mapping[str, Case]:
    """The cases with the series that a rule names. The others take promtool most of its time."""
    patterns = re.findall(r'__name__=~\\*"(.+?)\\*"', rules)
    asked = re.compile("|".join((*patterns, *set(re.findall(r"[\w:]+", rules)))))
    return {
        name: case._replace(
            series={k: v for k, v in case.series.items() if asked.fullmatch(k.partition("{")[0])}
        )
        for name, case in cases.items()
    }


def _raised(said: str) -> Iterator[Alert]:
    """None was expected, so that promtool complains of each."""
    case, title, minute, labels = "", "", 0, dict[str, str]()
    for line in said.splitlines():
        if named := re.fullmatch(r"\s+name: (.*),", line):
            case = named[1]
        elif head := re.search(r"alertname: (.+), time: (?:(\d+)h)?(?:(\d+)m)?", line):
            title, minute = head[1], int(head[2] or 0) * 60 + int(head[3] or 0)
        elif found := re.search(r"Labels:\{(.*)\}", line):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', found[1]))
            del labels["alertname"]
        elif found := re.search(r"Annotations:\{(.*)\}", line):
            yield Alert(title, minute, labels, found[1], case)
