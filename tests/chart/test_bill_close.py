"""The CronJob that closes days of the bill."""

import shlex
from typing import Any

import pytest

from exporter.answers.bill.pricefile import prices_of
from exporter.cli import _read
from tests.chart.rendering import Refused, render

pytestmark = pytest.mark.program("helm")
GIVEN: dict[str, Any] = {
    "enabled": True,
    "image": "registry.example/mgpu-exporter-bill:1",
    "prometheus": "http://prometheus.monitoring:9090",
    "claim": "bills",
    "prices": {"default": 2.5, "models": {"NVIDIA L4": 0.8}},
}


def pod(**values: object) -> dict[str, Any]:
    job = render(billClose={**GIVEN, **values}).one("CronJob")
    spec: dict[str, Any] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


def test_it_is_off_by_default() -> None:
    assert render().of("CronJob") == []


def test_its_command_is_one_and_its_prices_are_read() -> None:
    [container] = pod(extraArgs=["--cluster=east"])["containers"]
    given = _read(shlex.split(" ".join(container["args"])))
    assert (given.close, given.to, given.since, given.cluster) == ("close", "/bills", "7d", "east")
    assert given.prometheus == GIVEN["prometheus"]
    maps = render(billClose=GIVEN).of("ConfigMap")
    [text] = [one["data"]["prices.yaml"] for one in maps if "prices.yaml" in one["data"]]
    prices = prices_of(text)
    assert str(prices.flat) == "2.5"
    assert str(prices.by_model["NVIDIA L4"]) == "0.8"
    assert pod(claim="", to="s3://bucket/bills")["containers"][0]["args"][-1] == (
        "--to=s3://bucket/bills"
    )


def test_it_may_as_little_as_the_others() -> None:
    spec = pod()
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert container["resources"]["limits"]["memory"] == "2Gi"


def test_the_policy_lets_it_reach_the_store_and_nobody_it() -> None:
    egress = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 443}]}]
    found = render(billClose={**GIVEN, "networkPolicy": {"enabled": True, "egress": egress}})
    job = found.one("CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    spec = found.one("NetworkPolicy")["spec"]
    assert spec["podSelector"]["matchLabels"].items() <= job["metadata"]["labels"].items()
    assert spec["egress"][1:] == egress
    assert "ingress" not in spec
    daemon = found.one("DaemonSet")["spec"]["selector"]["matchLabels"]
    assert not daemon.items() <= job["metadata"]["labels"].items()
    name = "app.kubernetes.io/name"  # by it alone the runbooks look for the exporter of a node
    assert job["metadata"]["labels"][name] == f"{daemon[name]}-bill-close"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"image": ""}, "billClose.image"),
        ({"prometheus": ""}, "billClose.prometheus"),
        ({"claim": ""}, "one of billClose.to and billClose.claim"),
        ({"to": "s3://a"}, "one of billClose.to and billClose.claim"),
        ({"prices": {}}, "billClose.prices"),
        ({"networkPolicy": {"enabled": True}}, "billClose.networkPolicy.egress"),
    ],
)
def test_what_it_needs_is_asked_for_by_name(values: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why):
        pod(**values)


def test_a_long_name_leaves_room_for_those_of_its_jobs() -> None:
    [job] = render(billClose=GIVEN, fullnameOverride="x" * 63).of("CronJob")
    assert len(job["metadata"]["name"]) == 52
