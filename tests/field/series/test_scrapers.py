"""What scrapers of other makers do to a page: their names, their limits, what they ask for."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporter.agent.web.negotiation import accepts_gzip, choose_format
from exporter.metrics.families import FAMILIES
from exporter.metrics.text import Format, Renderer
from tests.fakenvml.scenario import Gpu
from tests.field.nodes import field_node
from tests.field.pods import FieldPod
from tests.field.report import report
from tests.field.series.test_pages import openmetrics, page

OF_TARGETS = {"job", "instance", "le", "quantile", "__name__"}


@report(
    round=3,
    source="open-telemetry/opentelemetry-collector-contrib#38085, #9986, #15239",
    seen="A page with labels job or instance of its own lost them, or its whole scrape, in the "
    "collector's receiver.",
    first="right",
    group="series",
)
def test_no_series_has_a_label_that_belongs_to_the_target() -> None:
    for family in FAMILIES:
        assert not OF_TARGETS & {*family.labels}, family.full_name
    for found in read_text(page()):
        for sample in found.samples:
            own = OF_TARGETS & {*sample.labels}
            assert not own or (found.type == "histogram" and own == {"le"}), sample


@report(
    round=3,
    source="DataDog/integrations-core#14772, DataDog/integrations-core#13573",
    seen="A check that takes _total off each counter's name found none of those whose type was "
    "told with another name.",
    first="right",
    group="series",
)
def test_the_type_of_a_counter_is_told_with_the_name_of_its_format() -> None:
    text = page()
    told = dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text))
    sampled = set(re.findall(r"(?m)^([a-z]\w+)[{ ]", text))
    counters = {name for name, kind in told.items() if kind == "counter"}
    assert counters
    for name in counters:
        assert name.endswith("_total")
        assert name in sampled or name.startswith("process_")
    assert not [name for name, kind in told.items() if kind == "gauge" and name.endswith("_total")]
    for family in openmetrics():
        assert not family.name.endswith("_total")


@report(
    round=3,
    source="rabbitmq/rabbitmq-prometheus#12, newrelic/nri-prometheus#313",
    seen="Telegraf's and New Relic's headers were answered with 406, or with a format that they "
    "cannot read.",
    first="right",
    group="series",
)
@pytest.mark.parametrize(
    "accept",
    [
        (
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
            "encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3"
        ),
        "application/vnd.google.protobuf",
        "text/plain;version=0.0.4;charset=utf-8,*/*;q=0.1",
        "text/plain, */*;q=0.5",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "",
    ],
)
def test_who_cannot_read_openmetrics_gets_the_plain_text(accept: str) -> None:
    chosen = choose_format(accept)
    assert chosen.form is Format.TEXT
    assert re.fullmatch(
        r"text/plain; version=\d\.\d\.\d; charset=utf-8(; escaping=\S+)?", chosen.content_type
    )


@report(
    round=3,
    source="open-telemetry/opentelemetry-collector-contrib#36655, prometheus/docs#2772",
    seen="Prometheus 3 refuses a page whose Content-Type is blank or no media type.",
    first="right",
    group="series",
)
@pytest.mark.parametrize(
    "accept",
    [
        "*/*",
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
            "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;"
            "escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
        ),
        "application/openmetrics-text; version=2.0.0",
        "a" * 2000,
    ],
)
def test_each_page_says_what_it_is(accept: str) -> None:
    kind, *parameters = choose_format(accept).content_type.split("; ")
    assert kind in {"text/plain", "application/openmetrics-text"}
    assert any(one.startswith("version=") for one in parameters)
    assert not accepts_gzip("gzip;q=0, identity")


@report(
    round=3,
    source="kubermatic/kubermatic#8195, grafana/mimir#10028, Tanguille/cluster#4640",
    seen="A store takes thirty labels of a series: one with more was refused each time, and a "
    "whole write with it.",
    first="right",
    group="series",
)
def test_a_series_has_room_for_the_labels_of_its_target() -> None:
    """Job, instance, node, and eight more that a site may add."""
    most = max(
        (len(sample.labels) + 1, sample.name)
        for family in read_text(page())
        for sample in family.samples
    )
    assert most[0] + 11 <= 30, most


@report(
    round=3,
    source="opencost/opencost#2107, kubecost/kubecost#102",
    seen="Two labels of a pod that differ by a dot or a dash are one in Prometheus's writing: the "
    "page was refused for a duplicate, or one team paid for both.",
    first="right",
    group="series",
)
def test_two_labels_of_one_writing_are_no_duplicate_and_neither_is_lost(tmp_path: Path) -> None:
    labels = {"cost.centre": "red", "cost-centre": "blue"}
    pod = FieldPod("train", {"main": {"nvidia.com/gpu": "1"}}, labels=labels)
    with field_node(tmp_path, Gpu(0), pods_labels="cost*") as node:
        node.pod(pod.document())
        node.start(pod.cgroup(), 0)
        node.run(3)
        assert node.collector is not None
        for form in (Format.TEXT, Format.OPENMETRICS):
            text = Renderer().render(node.collector.snapshot, form).decode()
            [line] = re.findall(r"(?m)^mgpu_pod_info\{.*$", text)
            names = re.findall(r'[{,](\w+)="', line)
            assert len(names) == len(set(names)), line
            assert 'label_cost_centre="' not in line, line
            assert '"red"' in line, line
            assert '"blue"' in line, line
