"""What ``serve`` refuses in its settings file, Helm refuses before a pod could fail of it."""

import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from charts import settings
from charts.forms import schema
from exporter.agent.collector.wiring import examine_settings
from tests.chart.rendering import Refused, render

_TOO_MANY = [{"name": f"s{n}", "core-resource": f"a.b/c{n}"} for n in range(33)]
_SECONDS = ["", "0.5s", "61s", "1m0.5s", "0s", "1", 5, "1 s", "5S", "-5s"]

BAD: dict[str, list[Any]] = {
    "web.max-requests": [0, -1, 10_001, 1.5, "many", "1e3", [1]],
    "web.open-page": ["on", 1, "True"],
    "web.metrics-only": ["yes please"],
    "web.enable-lifecycle": [0],
    "log.level": ["loud", "INFO", "", ["info"]],
    "log.format": ["text", "JSON"],
    "gpus.source": ["rocm", "", [], ["nvml", "rocm"], ["auto", ""]],
    "nvml.released": ["maybe"],
    "drm.wake": [2],
    "pods.labels": ["a b", "*a", "-a", ["team", ""], [["team"]], {"team": "x"}],
    "pods.annotations": ["a=b", ["*", "**"]],
    "pods.list-spread": ["5m1s", "301s", "6m", "1h", "10", "-1s"],
    "allocations.schemes": [
        [{"name": "acme"}],
        [{"core-resource": "a.b/c"}],
        [{"name": "Acme", "core-resource": "a.b/c"}],
        [{"name": "acme", "core-resource": "nodomain"}],
        [{"name": "acme", "core-resource": "a.b/c", "core-units": 0}],
        [{"name": "acme", "memory-resource": "a.b/c", "memory-unit": "2Ti"}],
        [{"name": "acme", "memory-resource": "a.b/c", "memory-unit": "1KiB"}],
        [{"name": "acme", "core-resource": "a.b/c", "amounts": "some"}],
        [{"name": "acme", "core-resource": "a.b/c", "kernel": 1}],
        [{"name": "acme", "core-resource": "a.b/c", "index-basis": "minor"}],
        [{"name": "acme", "core-resource": "a.b/c", "count-alone": "no-limit"}],
        _TOO_MANY,
        "acme",
        [[]],
    ],
    "allocations.index-basis": [{"hami": "uuid"}, {"Hami": "minor"}, "hami", ["hami"]],
    "allocations.hami": [
        {"memoryFactor": 0},
        {"memoryFactor": "x"},
        {"resourceName": "a.b/c"},
        {"resourceCoreName": "c"},
    ],
    "allocations.volcano-memory-factor": [-1, (1 << 20) + 1, "1Mi"],
    "allocations.kai-namespaces": ["Kai", "kai_x", ["kai", "-"], ["a" * 64]],
    "groups.sockets": ["docker.sock", ["auto", "run/docker.sock"], [], ""],
    "groups.slurm": ["jobs", True],
    "groups.slurm-account": ["sometimes"],
    "groups.patterns": [
        [{"kind": "lsf"}],
        [{"path": "/lsf/{group}"}],
        [{"kind": "LSF", "path": "/lsf/{group}"}],
        [{"kind": "lsf", "path": "lsf/{group}"}],
        [{"kind": "lsf", "path": "/lsf/{group}", "regex": "(a+)+"}],
        "lsf",
    ],
    "collection.interval": ["10s", "99ms", "5001ms", "5s1ms", "0.09s", "1m", *_SECONDS[4:]],
    "collection.window": ["999ms", "10m1s", "11m", "601s", "1h", "0.5m0s5", "fast"],
    "collection.samples-interval": ["99ms", "61s", "5", "-1s", ""],
    "collection.processes-interval": _SECONDS,
    "collection.sensors-interval": _SECONDS,
    "collection.mps-servers": ["GPU", ["gpu-operator", "a b"], [], "/x.service"],
    "energy.idle": ["everybody", "all"],
    "ledger.retention": ["25h", "24h1s", "1441m", "1d", "5", "forever"],
    "metrics.profile": ["tiny", ""],
    "metrics.enable": ["energy-only", ["pcie", "nonsense"]],
    "metrics.disable": ["core", "memory", ["mgpu_nonsense"]],
    "metrics.created": ["never"],
    "metrics.max-series-per-family": [0, 1_000_001, "10k"],
    "metrics.pod-uid": ["pod", ["uid", "id"]],
    "compat": ["dcgm-exporter", ["dcgm", "DCGM"], {"dcgm": True}],
}

GOOD: dict[str, list[Any]] = {
    "web.max-requests": [1, 10_000],
    "gpus.source": ["nvml", ["amd", "drm"]],
    "pods.labels": ["*", ["app.kubernetes.io/*", "team"], [], ""],
    "pods.list-spread": ["0s", "5m", "4m59s", "299s", "500ms"],
    "groups.patterns": [[{"kind": "lsf", "path": "/lsf/*/job.{job}.*", "group": "{job}"}]],
    "allocations.schemes": [
        [],
        [
            {"name": "acme", "core-resource": "acme.com/core", "core-units": 10},
            {"name": "b", "memory-key": "b.com/memory", "memory-unit": "256Mi"},
            {"name": "c", "memory-resource": "c.com/memory", "memory-unit": 1048576},
        ],
    ],
    "allocations.index-basis": [{"elastic-gpu": "minor"}, {}],
    "allocations.hami": [{"memoryFactor": 10, "resourceCoreName": "a.com/cores"}],
    "allocations.kai-namespaces": ["kai", ["a", "b"]],
    "groups.sockets": ["none", ["/run/docker.sock", "auto"]],
    "collection.interval": ["100ms", "0.1s", "5s", "2.5s", "1500ms"],
    "collection.window": ["5s", "1m30s", "10m", "9.5m", "600s"],
    "collection.mps-servers": ["nvidia-mps.service", ["gpu-operator"]],
    "ledger.retention": ["0s", "24h", "23h59m59s", "1.5h"],
    "metrics.disable": [["pcie", "mgpu_container_processes"], []],
    "metrics.max-series-per-family": [1, 1_000_000],
    "metrics.created": [True, False],
    "compat": ["dcgm", ["dcgm", "hami"], []],
}

FREE = {setting.name: setting for setting in settings.free()}


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """The values by the parts of their names, as they stand in the chart's values."""
    root: dict[str, Any] = {}
    for name, value in values.items():
        *folders, leaf = name.split(".")
        at = root
        for folder in folders:
            at = at.setdefault(folder, {})
        at[leaf] = value
    return root


def refused_by_serve(tmp_path: Path, text: str) -> list[str]:
    """What the exporter says of a settings file."""
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    return list(map(str, examine_settings({"config.file": [str(file)]}, {})[1]))


def rounds(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """The first value of each setting, the second of those that have two, and so on."""
    rows = zip_longest(*([(name, value) for value in values] for name, values in table.items()))
    return [dict(filter(None, row)) for row in rows]


def test_each_setting_of_the_chart_has_a_bad_value_and_there_are_a_hundred() -> None:
    assert set(BAD) == set(FREE)
    assert sum(map(len, BAD.values())) >= 100


@pytest.mark.parametrize("name", BAD)
def test_serve_refuses_each_bad_value(tmp_path: Path, name: str) -> None:
    for value in BAD[name]:
        assert refused_by_serve(tmp_path, yaml.safe_dump(nested({name: value}))), value


@pytest.mark.program("helm")
@pytest.mark.parametrize("bad", rounds(BAD))
def test_helm_refuses_the_same_values_and_names_each(bad: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        render(settings=nested(bad))

    named = set(re.findall(r"^ *- at '/settings/([^']+)'", str(refused.value), re.MULTILINE))
    for name in bad:
        path = name.replace(".", "/")
        assert any(one == path or one.startswith(f"{path}/") for one in named), name


@pytest.mark.program("helm")
def test_helm_says_what_to_write_for_a_value_of_an_older_version(tmp_path: Path) -> None:
    ((name, (value,)),) = settings.GONE.items()
    old = {name: value}
    assert refused_by_serve(tmp_path, yaml.safe_dump(old))
    with pytest.raises(Refused, match=r"settings\.metrics\.profile: standard is gone; write full"):
        render(settings=nested(old))


@pytest.mark.program("helm")
@pytest.mark.parametrize("good", rounds(GOOD))
def test_helm_and_serve_take_the_good_values(tmp_path: Path, good: dict[str, Any]) -> None:
    assert refused_by_serve(tmp_path, render(settings=nested(good)).settings) == []


CONTRADICTIONS: list[dict[str, Any]] = [
    {"collection.interval": "5s", "collection.window": "4.999s"},
    {"collection.window": "1s", "collection.interval": "1.001s"},
    {"web.open-page": True, "web.metrics-only": True},
    {"gpus.source": "simulated"},
]


@pytest.mark.program("helm")
@pytest.mark.parametrize("given", CONTRADICTIONS, ids=str)
def test_helm_refuses_settings_that_contradict_each_other(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    assert refused_by_serve(tmp_path, yaml.safe_dump(given))
    with pytest.raises(Refused, match=next(iter(given))):
        render(settings=nested(given))


@pytest.mark.program("helm")
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"accessControl": {"enabled": True}}, "open-page contradicts accessControl"),
        ({"kubeRBACProxy": {"enabled": True}}, "open-page contradicts kubeRBACProxy"),
        ({"simulate": "demo", "settings": {"gpus": {"source": ["nvml"]}}}, r"gpus\.source"),
        ({"simulate": "dmo"}, "/simulate"),
        ({"kubelet": {"address": "10.0.0.1:10250"}}, "/kubelet/address"),
        ({"web": {"telemetryPath": "/-/ready"}}, "/web/telemetryPath"),
    ],
    ids=str,
)
def test_helm_refuses_values_with_which_serve_would_not_start(
    values: dict[str, Any], named: str
) -> None:
    with pytest.raises(Refused, match=named):
        render({"settings": {"web": {"open-page": True}}, **values})


AUTH = {"username": {"name": "s", "key": "u"}, "password": {"name": "s", "key": "p"}}
TOKEN = {"credentials": {"name": "s", "key": "t"}}
POLICY = {"enabled": True, "from": [{"podSelector": {}}]}
NAME = "app.kubernetes.io/name"


@pytest.mark.program("helm")
@pytest.mark.parametrize(
    ("values", "named"),
    [
        # Prometheus' Operator leaves out a monitor that shows two
        (
            {"serviceMonitor": {"enabled": True, "basicAuth": AUTH, "authorization": TOKEN}},
            r"serviceMonitor\.basicAuth beside serviceMonitor\.authorization",
        ),
        (
            {
                "accessControl": {"enabled": True},
                "serviceMonitor": {"enabled": True, "basicAuth": AUTH},
            },
            r"serviceMonitor\.basicAuth beside accessControl",
        ),
        (
            {
                "podMonitor": {
                    "enabled": True,
                    "authorization": TOKEN,
                    "extraEndpoint": {"oauth2": {"tokenUrl": "https://a"}},
                }
            },
            r"podMonitor\.authorization beside podMonitor\.extraEndpoint\.oauth2",
        ),
        # what the Operator does not know is dropped in silence
        (
            {"podMonitor": {"relabelings": [{"source_labels": ["a"], "target_label": "b"}]}},
            "/podMonitor/relabelings/0",
        ),
        (
            {"serviceMonitor": {"metricRelabelings": [{"source_labels": ["a"]}]}},
            "/serviceMonitor/metricRelabelings/0",
        ),
        ({"podMonitor": {"tlsConfig": {"caFile": "/ca.crt"}}}, "/podMonitor/tlsConfig/caFile"),
        ({"podMonitor": {"params": {"collect[]": "pod"}}}, r"/podMonitor/params/collect\[\]"),
        ({"podMonitor": {"bodySizeLimit": "10 MB"}}, "/podMonitor/bodySizeLimit"),
        ({"podMonitor": {"extraSpec": {"sampleLimit": 5}}}, "/podMonitor/extraSpec/sampleLimit"),
        (
            {"serviceMonitor": {"extraEndpoint": {"port": "x"}}},
            "/serviceMonitor/extraEndpoint/port",
        ),
        # two targets with the same labels
        (
            {"extraContainers": [{"name": "side", "ports": [{"name": "metrics"}]}]},
            "the port of side is named metrics",
        ),
        ({"kubeRBACProxy": {"enabled": True, "port": 10045}}, r"kubeRBACProxy\.port and web\.port"),
        ({"hostNetwork": True, "networkPolicy": POLICY}, "no NetworkPolicy holds"),
        ({"serviceAccount": {"create": False}}, r"needs serviceAccount\.name"),
        (
            {
                "serviceAccount": {"create": False},
                "rbac": {"create": False},
                "openshift": {"securityContextConstraints": True},
            },
            r"needs serviceAccount\.name",
        ),
        ({"commonLabels": {NAME: "x"}}, "/commonLabels/app"),
        ({"podLabels": {NAME: "x"}}, "/podLabels/app"),
        ({"service": {"labels": {NAME: "x"}}}, "/service/labels/app"),
        ({"updateStrategy": {"maxUnavailable": "0%"}}, "/updateStrategy/maxUnavailable"),
        ({"updateStrategy": {"maxUnavailable": 0}}, "/updateStrategy/maxUnavailable"),
        ({"prometheusRule": {"disabled": ["MgpuGpuLots"]}}, "/prometheusRule/disabled"),
    ],
    ids=str,
)
def test_helm_refuses_what_would_render_and_not_do_what_it_says(
    values: dict[str, Any], named: str
) -> None:
    with pytest.raises(Refused, match=named):
        render(values)


@pytest.mark.program("helm")
def test_without_an_account_of_its_own_nothing_is_granted() -> None:
    rendered = render(serviceAccount={"create": False}, rbac={"create": False})
    assert not rendered.of("ClusterRoleBinding")
    assert render(serviceAccount={"create": False}, pods={"source": "none"}).objects


def _patterns() -> list[tuple[str, str]]:
    forms = ((name, schema(setting.kind.form).get("pattern")) for name, setting in FREE.items())
    return [(name, str(pattern)) for name, pattern in forms if pattern]


@pytest.mark.parametrize(("name", "pattern"), _patterns())
@given(data=st.data())
def test_serve_reads_whatever_a_pattern_of_the_chart_allows(
    name: str, pattern: str, data: st.DataObject
) -> None:
    spelt = st.from_regex(pattern, fullmatch=True, alphabet="0123456789.hms")
    FREE[name].kind.read(data.draw(spelt))
