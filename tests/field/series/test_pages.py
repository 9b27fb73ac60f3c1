"""What scrapers, collectors, autoscalers and boards have had to do with others' pages."""

import json
import re
import time
from pathlib import Path

import pytest
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporter.agent.web.negotiation import choose_format
from exporter.agent.web.pages import OwnProcess
from exporter.metrics.text import Format, Renderer
from tests.agent.api.nodes import demo
from tests.field.report import report

ROOT = Path(__file__).parents[3]


def page(form: Format = Format.TEXT) -> str:
    return (Renderer().render(demo(20, "mixed"), form) + OwnProcess().page(form)).decode()


def openmetrics() -> list[Metric]:
    """The page as a strict parser reads it."""
    return list(read_openmetrics(page(Format.OPENMETRICS)))  # type: ignore[no-untyped-call]


@report(
    source="prometheus#16034",
    seen="Prometheus 3 asks for names in UTF-8, and some pages have names that no query knows.",
    first="right",
    group="series",
)
def test_names_are_the_same_whatever_escaping_is_asked_for() -> None:
    accept = (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
        "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,*/*;q=0.2"
    )
    chosen = choose_format(accept)
    assert chosen.form is Format.OPENMETRICS
    assert chosen.content_type.startswith("application/openmetrics-text; version=1.0.0")
    for family in openmetrics():
        for sample in family.samples:
            assert re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", sample.name)
            assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) for name in sample.labels)


@report(
    source="kube-state-metrics#2405",
    seen="Two series of a page have the same labels, and Prometheus 2.52 warns of each scrape.",
    first="right",
    group="series",
)
@pytest.mark.parametrize("form", [Format.TEXT, Format.OPENMETRICS])
def test_no_series_is_on_the_page_twice(form: Format) -> None:
    lines = [line.rpartition(" ")[0] for line in page(form).splitlines() if line[:1] != "#"]
    assert len(lines) == len(set(lines)) > 500


@report(
    source="opentelemetry-dotnet#5646",
    seen="A unit that is not the end of the name makes a page that Prometheus refuses whole.",
    first="right",
    group="series",
)
def test_a_strict_parser_takes_the_page_with_its_units_and_its_counters() -> None:
    families = openmetrics()
    assert len(families) > 60
    for family in families:
        assert family.name.endswith(family.unit)
        if family.type == "counter":
            assert {one.name for one in family.samples} == {f"{family.name}_total"}


@report(
    source="opentelemetry-collector#969",
    seen="A receiver that takes counters' start from the process drops all of a page without it.",
    first="right",
    group="series",
)
def test_the_page_says_when_its_process_started() -> None:
    [(_, started)] = re.findall(r"(?m)^(process_start_time_seconds) (\S+)$", page())
    assert 0 < float(started) < time.time()


@report(
    source="scaphandre#416",
    seen="A label with a command line is longer than 200 bytes, and the whole scrape is refused.",
    first="right",
    group="series",
)
def test_no_label_is_longer_than_the_usual_limit() -> None:
    longest = max(
        (len(value.encode()), name, sample.name)
        for family in read_text(page())
        for sample in family.samples
        for name, value in sample.labels.items()
    )
    assert longest[0] <= 200, longest


@report(
    source="keda#3065",
    seen="An empty answer is taken for 0, and workloads are scaled to their least at the peak.",
    first="right",
    group="series",
)
def test_keda_is_told_that_an_empty_answer_is_no_zero() -> None:
    given = yaml.safe_load((ROOT / "examples/autoscaling/keda-core.yaml").read_text())
    triggers = given["spec"]["triggers"]
    assert [one["metadata"]["ignoreNullValues"] for one in triggers] == ["false"] * len(triggers)


@report(
    source="grafana-dashboards#169",
    seen="With a scrape a minute and a data source that expects one in 15 s, panels are empty.",
    first="wrong",
    kind="A time between scrapes that is fixed",
    group="series",
)
def test_panels_of_rates_have_two_scrapes_of_a_minute_in_their_window() -> None:
    """$__rate_interval is at least four times the panel's least step: 15 s where it says none."""
    missing = []
    for path in sorted((ROOT / "dashboards").glob("*.json")):
        panels = json.loads(path.read_text())["panels"]
        panels += [inner for one in panels for inner in one.get("panels", [])]
        missing += [
            (path.name, one["title"])
            for one in panels
            if "$__rate_interval" in json.dumps(one.get("targets", [])) and "interval" not in one
        ]
    assert missing == []
