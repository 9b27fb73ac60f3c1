"""What is kept of ResourceClaims and ResourceSlices."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.pods.claims import MAX_RESULTS, decode_claim, decode_slice, offered
from exporter.model import ClaimedDevice, OfferedDevice
from tests.agent.sources.pods.devices import DRIVER, as_in, claim_document, result, slice_document

GPU = ClaimedDevice("gpu", DRIVER, "node-1", "gpu-0")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


def test_a_claims_devices_are_those_of_its_allocation() -> None:
    share = {"shareID": "s-1", "consumedCapacity": {"memory": "10Gi", "cores": 5}}
    claim = claim_document(result("gpu-0"), result("gpu-1", "big/h100", adminAccess=True, **share))

    assert decode_claim(claim) == (
        GPU,
        ClaimedDevice(
            *("big/h100", DRIVER, "node-1", "gpu-1", "s-1"), True, {"memory": "10Gi", "cores": "5"}
        ),
    )


@pytest.mark.parametrize(
    "claim", [None, [], {}, {"status": 1}, {"status": {"allocation": {"devices": []}}}]
)
def test_a_claim_without_an_allocation_has_no_devices(claim: object) -> None:
    assert decode_claim(claim) == ()


def test_a_claim_has_a_most_of_devices() -> None:
    assert len(decode_claim(claim_document(*[result("gpu-0")] * 5000))) == MAX_RESULTS


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_slice_has_the_same_devices_in_every_version(version: str) -> None:
    one = decode_slice(as_in(version, slice_document({"gpu-0": "GPU-a"})))

    assert one is not None
    assert one.devices == {
        "gpu-0": OfferedDevice(
            {
                "type": "gpu",
                "uuid": "GPU-a",
                "driverVersion": "580.65.6",
                f"{DRIVER}/index": "0",
                "example.com/spare": "true",
            },
            {"memory": "80Gi"},
        )
    }


@pytest.mark.parametrize(
    "spec", [{}, {"driver": DRIVER}, {"driver": DRIVER, "pool": {"name": "p", "generation": "1"}}]
)
def test_a_slice_without_driver_pool_or_generation_is_none(spec: dict[str, Any]) -> None:
    assert decode_slice({"spec": spec}) is None
    assert decode_slice(None) is None


@pytest.mark.parametrize("turn", [1, -1])
def test_of_a_pool_only_the_newest_generation_counts(turn: int) -> None:
    documents = (
        slice_document({"old": "GPU-a"}, generation=1),
        slice_document({"new": "GPU-b"}, generation=3),
        slice_document({"newer": "GPU-c"}, generation=3),
        slice_document({"other": "GPU-d"}, node="node-2", generation=1),
    )
    slices = [one for document in documents[::turn] if (one := decode_slice(document))]

    assert sorted(place[1:] for place in offered(slices)) == [
        ("node-1", "new"),
        ("node-1", "newer"),
        ("node-2", "other"),
    ]


@given(JSON, JSON)
def test_anything_is_a_claim_or_slice_or_none(document: Any, part: Any) -> None:
    decode_claim(document)
    decode_claim({"status": {"allocation": {"devices": {"results": [part, {"request": part}]}}}})
    decode_slice(document)
    decode_slice({"spec": {"driver": "d", "pool": {"name": "p"}, "devices": [part]}})
    device = {"name": "x", "attributes": part, "capacity": part}
    decode_slice({"spec": {"driver": "d", "pool": {"name": "p"}, "devices": [device]}})
