"""Which claims a pod's containers take."""

from typing import Any

from exporter.agent.sources.pods.decode import MAX_REFERENCES, decode_pod
from exporter.model import ClaimRef
from tests.agent.sources.pods.documents import Document, pod_document


def claiming(*claims: Document, **parts: Any) -> Document:
    """A pod with containers a and b; a takes these, of the pod's claims shared and own."""
    document = pod_document("p", containers={"a": None, "b": None})
    document["spec"]["containers"][0]["resources"] = {"claims": list(claims)}
    document["spec"]["resourceClaims"] = [
        {"name": "shared", "resourceClaimName": "team-gpu"},
        {"name": "own", "resourceClaimTemplateName": "gpu"},
    ]
    document["status"] |= parts
    return document


def references(document: Document) -> dict[str, tuple[ClaimRef, ...]]:
    return {one.name: one.claims for one in decode_pod(document).pod.containers}


def test_a_claim_is_named_by_the_pod_or_by_what_was_made_from_its_template() -> None:
    made = [{"name": "own", "resourceClaimName": "p-own-x7k2p"}]
    document = claiming(
        {"name": "shared"}, {"name": "own", "request": "mig"}, resourceClaimStatuses=made
    )
    taken = {"resources": {"claims": [{"name": "shared"}]}}
    document["spec"]["initContainers"] = [{"name": "warm-up", **taken}]

    assert references(document) == {
        "warm-up": (ClaimRef("team-gpu"),),
        "a": (ClaimRef("team-gpu"), ClaimRef("p-own-x7k2p", "mig")),
        "b": (),
    }


def test_a_claim_that_is_not_made_yet_or_not_the_pods_is_none() -> None:
    assert references(claiming({"name": "own"}, {"name": "other"}))["a"] == ()
    assert references(claiming({"name": "own"}, resourceClaimStatuses=[{"name": "own"}]))["a"] == ()


def test_a_claim_stands_for_extended_resources_by_container_and_request() -> None:
    mapping = {"resourceName": "nvidia.com/gpu", "requestName": "container-1-request-0"}
    made = {
        "resourceClaimName": "p-extended-4h2k9",
        "requestMappings": [{"containerName": "b", **mapping}, {"containerName": "", **mapping}],
    }

    assert references(claiming(extendedResourceClaimStatus=made)) == {
        "a": (),
        "b": (ClaimRef("p-extended-4h2k9", "container-1-request-0", "nvidia.com/gpu"),),
    }


def test_what_is_said_twice_is_said_once_and_there_is_a_most() -> None:
    assert references(claiming({"name": "shared"}, {"name": "shared"}))["a"] == (
        ClaimRef("team-gpu"),
    )
    many = claiming(*({"name": "shared", "request": f"r{n}"} for n in range(5000)))
    assert len(references(many)["a"]) == MAX_REFERENCES


def test_a_pod_is_acknowledged_once_the_kubelet_has_given_its_start_time() -> None:
    document = pod_document("p", containers={"main": None})

    assert not decode_pod(document).pod.acknowledged
    document["status"]["startTime"] = "2026-01-01T00:00:00Z"
    assert decode_pod(document).pod.acknowledged
