"""Claims and slices from a real API server, in every version of resource.k8s.io."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.agent.allocations.schemes.dra import SCHEME
from exporter.agent.sources.pods.claims import MAX_CLAIMS, Claims, ClaimsError, decode_claim
from exporter.agent.sources.pods.podtable import indexed
from exporter.agent.sources.polled import Polled
from exporter.model import ClaimedDevice, ClaimRef, Container, NodeFacts, Pod, PodTable
from tests.agent.allocations.build import decoder
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.node.asking import PATIENT, Asking
from tests.agent.sources.pods.apiserver import ApiServer
from tests.agent.sources.pods.devices import DRIVER, claim_document, result, slice_document
from tests.agent.sources.pods.watching import connector

decode = decoder(SCHEME)

GPU = ClaimedDevice("gpu", DRIVER, "node-1", "gpu-0")
VERSIONS = ("v1", "v1beta2", "v1beta1")


def pods(*claims: str, version: int = 1) -> PodTable:
    """A pod of the namespace default for each claim."""
    made = [
        Pod(f"u-{c}", "default", f"p-{c}", containers=(Container("main", claims=(ClaimRef(c),)),))
        for c in claims
    ]
    return indexed({pod.uid: pod for pod in made}, version)


@pytest.fixture
def cluster(server: ApiServer) -> ApiServer:
    server.serve_devices(*VERSIONS)
    server.set_slices(slice_document({"gpu-0": "GPU-a", "gpu-1": "GPU-b"}))
    server.set_claim("c", claim_document(result("gpu-0")))
    return server


class Asked:
    """The inquiry, asked in the test's own thread."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.clock = ManualClock()
        self.claims = Claims(connector(server, folder), "node-1", self.clock)

    def ask(self, table: PodTable) -> NodeFacts:
        return self.claims.facts(self.claims.ask(table), table)


@pytest.fixture
def asked(cluster: ApiServer, tmp_path: Path) -> Iterator[Asked]:
    asked = Asked(cluster, tmp_path)
    yield asked
    asked.claims._forget_client()


@pytest.mark.parametrize("served", [VERSIONS, ("v1beta2",), ("v1beta1",), ("v1alpha3", "v1beta1")])
def test_claims_and_slices_are_known_in_every_version(
    cluster: ApiServer, asked: Asked, served: tuple[str, ...]
) -> None:
    cluster.serve_devices(*served)

    facts = asked.ask(pods("c"))

    version = next(v for v in VERSIONS if v in served)
    assert facts.claims == {("default", "c"): (GPU,)}
    assert facts.offered[DRIVER, "node-1", "gpu-0"].attributes["uuid"] == "GPU-a"
    assert facts.offered[DRIVER, "node-1", "gpu-1"].capacity == {"memory": "80Gi"}
    assert [r.path for r in cluster.requests("claim")] == [
        f"/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims/c"
    ]
    assert [dict(r.query) for r in cluster.requests("slices")] == [
        {"fieldSelector": "spec.nodeName=node-1", "resourceVersion": "0"}
    ]


def test_without_a_pod_that_refers_to_a_claim_nothing_is_asked(
    cluster: ApiServer, tmp_path: Path
) -> None:
    claims = Claims(connector(cluster, tmp_path), "node-1")
    plain = Pod("u", "default", "p", containers=(Container("main"),))
    gone = Pod("v", "default", "q", containers=pods("c").pods["u-c"].containers, deleted=True)

    assert claims.subject(indexed({"u": plain, "v": gone})) is None
    with Asking(claims, PATIENT) as source:
        source.facts(indexed({"u": plain}))
        source.facts(pods("c"))
        source.until_up()
    assert len(cluster.requests("versions")) == 1


def test_an_allocated_claim_is_asked_for_once_until_it_is_old(
    cluster: ApiServer, asked: Asked
) -> None:
    asked.ask(pods("c"))
    cluster.set_claim("c", claim_document(result("gpu-1")))
    asked.clock.move(300)
    assert asked.ask(pods("c")).claims["default", "c"] == (GPU,)
    asked.clock.move(301)
    assert asked.ask(pods("c")).claims["default", "c"][0].device == "gpu-1"
    assert (len(cluster.requests("claim")), len(cluster.requests("slices"))) == (2, 2)


def test_a_claim_that_is_not_allocated_or_not_there_is_asked_for_again(
    cluster: ApiServer, asked: Asked
) -> None:
    cluster.set_claim("c", claim_document())
    assert asked.ask(pods("c", "away")).claims == {("default", "c"): (), ("default", "away"): ()}
    cluster.set_claim("c", claim_document(result("gpu-0")))
    cluster.set_claim("away", claim_document(result("gpu-1")))

    answer = asked.claims.ask(pods("c", "away"))
    later = asked.claims.facts(answer, pods("c", "new", version=2)).claims
    assert later == {("default", "c"): (GPU,), ("default", "new"): ()}


def test_a_claim_is_asked_for_again_once_none_of_its_pods_is_there_any_more(
    cluster: ApiServer, asked: Asked
) -> None:
    """Without a user a claim loses its devices; its next pod may have others, or it is another."""
    [first] = pods("c").pods.values()
    second = replace(first, uid="u-second", name="p-second")
    third = replace(first, uid="u-third", name="p-third")
    answer = asked.claims.ask(indexed({"u-c": first}))
    cluster.set_claim("c", claim_document(result("gpu-1")))

    both = indexed({"u-c": first, "u-second": second})
    assert asked.ask(both).claims == {("default", "c"): (GPU,)}
    anew = indexed({"u-c": replace(first, deleted=True), "u-third": third})
    assert asked.claims.subject(anew) not in {None, asked.claims.subject(both)}
    assert asked.claims.facts(answer, anew).claims == {("default", "c"): ()}
    assert asked.ask(anew).claims["default", "c"][0].device == "gpu-1"
    assert len(cluster.requests("claim")) == 2


def test_slices_are_listed_again_when_a_claims_device_is_not_among_them(
    cluster: ApiServer, asked: Asked
) -> None:
    asked.ask(pods("c"))
    cluster.set_claim("d", claim_document(result("gpu-9")))
    cluster.set_slices(slice_document({"gpu-0": "GPU-a", "gpu-9": "GPU-new"}, generation=2))

    facts = asked.ask(pods("c", "d"))

    assert facts.offered[DRIVER, "node-1", "gpu-9"].attributes["uuid"] == "GPU-new"


def test_a_claim_of_a_pod_that_runs_at_the_start_is_not_unknown(asked: Asked) -> None:
    table = pods("c")
    [pod] = table.pods.values()

    assert decode(pod, Polled(asked.claims).facts(table)).problems == ()
    assert [p.reason for p in decode(pod, NodeFacts()).problems] == ["unknown_claim"]


@pytest.mark.parametrize("kind", ["versions", "claim", "slices"])
def test_without_the_permission_the_missing_rule_is_said(
    cluster: ApiServer, tmp_path: Path, kind: str
) -> None:
    user = "system:serviceaccount:monitoring:mgpu-exporter"
    cluster.fail(kind, 403, f'User "{user}" cannot get resource "resourceclaims"', times=999)
    with Asking(Claims(connector(cluster, tmp_path), "node-1")) as source:
        source.facts(pods("c"))
        detail = source.status_when("missing permission").detail

    assert "give ServiceAccount monitoring/mgpu-exporter a ClusterRole" in detail
    assert "'resourceclaims: get' and 'resourceslices: list'" in detail


def test_a_failure_keeps_what_was_known_and_is_tried_again(
    cluster: ApiServer, tmp_path: Path
) -> None:
    with Asking(Claims(connector(cluster, tmp_path), "node-1")) as source:
        source.facts(pods("c"))
        source.until_up()
        cluster.fail("claim", 503, times=3)
        source.facts(pods("c", "d", version=2))
        source.status_when("answers 503")
        assert source.facts().claims[("default", "c")] == (GPU,)
        cluster.set_claim("d", claim_document(result("gpu-1")))

        source.when(lambda facts: facts.claims.get(("default", "d")))


@pytest.mark.parametrize(("status", "words"), [(403, "missing permission"), (500, "answers 500")])
def test_a_claim_that_is_refused_costs_only_itself(
    cluster: ApiServer, asked: Asked, status: int, words: str
) -> None:
    """RBAC may grant claims by namespace."""
    cluster.set_claim("a", claim_document(result("gpu-1")))
    cluster.fail("claim", status, times=1)
    table = pods("a", "c")

    facts = asked.ask(table)
    assert facts.claims == {("default", "c"): (GPU,)}
    assert words in asked.claims.problem
    reasons = [p.reason for pod in table.pods.values() for p in decode(pod, facts).problems]
    assert reasons == ["unknown_claim"]

    assert asked.ask(table).claims["default", "a"][0].device == "gpu-1"
    assert asked.claims.problem == ""
    asked.clock.move(601)
    cluster.fail("claim", status, times=1)
    assert asked.ask(table).claims["default", "a"][0].device == "gpu-1"


@pytest.mark.parametrize(("status", "words"), [(403, "missing permission"), (503, "answers 503")])
def test_slices_that_are_refused_cost_no_claim_its_devices(
    cluster: ApiServer, asked: Asked, status: int, words: str
) -> None:
    """A device of a driver for GPUs is one, wherever it is."""
    cluster.fail("slices", status, times=1)

    facts = asked.ask(pods("c"))

    assert facts.claims == {("default", "c"): (GPU,)}
    assert facts.offered == {}
    assert asked.claims.is_down
    assert words in asked.claims.problem
    assert asked.ask(pods("c")).offered
    assert (asked.claims.is_down, asked.claims.problem) == (False, "")


def test_a_namespace_of_many_claims_does_not_hide_those_of_others(asked: Asked) -> None:
    [one] = pods("c").pods.values()
    many = tuple(ClaimRef(f"c-{number}") for number in range(5_000))
    greedy = Pod("u-a", "aaa", "p", containers=(Container("main", claims=many),))
    subject = asked.claims.subject(indexed({"u-a": greedy, one.uid: one})) or frozenset()

    assert (("default", "c"), frozenset({one.uid})) in subject
    assert len(subject) == MAX_CLAIMS


def test_claims_that_are_not_asked_for_are_counted(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporter.agent.sources.pods.claims.MAX_CLAIMS", 3)
    [one] = pods("c").pods.values()
    many = tuple(ClaimRef(f"c-{number}") for number in range(9))
    greedy = Pod("u-a", "aaa", "p", containers=(Container("main", claims=many),))
    control = asked.ask(pods("c"))

    facts = asked.ask(indexed({"u-a": greedy, one.uid: one}))

    assert facts.claims["default", "c"] == control.claims["default", "c"]
    assert asked.claims.rejected() == {"claim_over_limit": 7}


@pytest.mark.parametrize("versions", [(), ("v1alpha3",)])
def test_a_cluster_without_resource_k8s_io_is_said(
    cluster: ApiServer, asked: Asked, versions: tuple[str, ...]
) -> None:
    cluster.serve_devices(*versions)

    with pytest.raises(ClaimsError, match=r"404|served in none of v1, v1beta2, v1beta1"):
        asked.ask(pods("c"))
    cluster.stop()
    with pytest.raises(ClaimsError, match="no connection to the API server"):
        asked.ask(pods("c"))


def test_closing_does_not_wait_for_a_server_that_hangs(cluster: ApiServer, tmp_path: Path) -> None:
    cluster.hold("claim")
    with Asking(Claims(connector(cluster, tmp_path), "node-1")) as source:
        source.facts(pods("c"))
        cluster.wait_for_requests("claim", 1)
        assert source.facts().claims == {("default", "c"): ()}
    cluster.release()


def test_a_slice_that_is_none_costs_only_itself(cluster: ApiServer, asked: Asked) -> None:
    broken = slice_document({"gpu-9": "GPU-z"})
    broken["spec"]["pool"] = {}
    cluster.set_slices(broken, slice_document({"gpu-0": "GPU-a"}))

    assert set(asked.ask(pods("c")).offered) == {(DRIVER, "node-1", "gpu-0")}
    assert asked.claims.rejected() == {"slice_unusable": 1}


def mps(percent: object, memory: object, **more: object) -> dict[str, Any]:
    limits = {"defaultActiveThreadPercentage": percent, "defaultPinnedDeviceMemoryLimit": memory}
    sharing = {"strategy": "MPS", "mpsConfig": {**limits, **more}}
    return {"driver": "gpu.nvidia.com", "parameters": {"kind": "GpuConfig", "sharing": sharing}}


RESULT = {"request": "mps/first", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"}


@pytest.mark.parametrize(
    ("configs", "sharing"),
    [
        (
            [{"opaque": mps(50, "10Gi")}],
            {"config": "0", "strategy": "MPS", "core": "50", "memory": "10Gi"},
        ),
        (
            [
                {
                    "requests": ["mps"],
                    "opaque": mps(50, 1, defaultPerDevicePinnedMemoryLimit={"0": "2G"}),
                }
            ],
            {"config": "0", "strategy": "MPS", "core": "50", "memory": "1", "memory/0": "2G"},
        ),
        (
            [{"requests": ["mps/first"], "opaque": mps(50, "1Gi")}, {"opaque": mps(20, "2Gi")}],
            {"config": "1", "strategy": "MPS", "core": "20", "memory": "2Gi"},
        ),
        ([{"requests": ["other"], "opaque": mps(50, "1Gi")}], {}),
        ([{"opaque": {**mps(50, "1Gi"), "driver": "other.example"}}], {}),
        ([{"requests": [None, {}], "opaque": mps(50, "1Gi")}], {}),
        ([None, 1, {"opaque": []}, {"opaque": {"driver": "gpu.nvidia.com", "parameters": 1}}], {}),
        ("x", {}),
        ([{"opaque": mps([], {})}], {"config": "0", "strategy": "MPS"}),
        (
            [{"opaque": mps(50, "1Gi")}] * 5000,
            {"config": "63", "strategy": "MPS", "core": "50", "memory": "1Gi"},
        ),
    ],
)
def test_the_drivers_sharing_is_kept(configs: Any, sharing: dict[str, str]) -> None:
    document = {"status": {"allocation": {"devices": {"results": [RESULT], "config": configs}}}}
    [device] = decode_claim(document)
    assert device.sharing == sharing
