import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.node import resourceentries
from exporter.agent.sources.node.resourceentries import (
    AMBIGUOUS,
    MALFORMED,
    OVER_LIMIT,
    WireError,
    decode_get,
    decode_list,
)
from exporter.model import ClaimedDevice, Grant
from tests.agent.sources.node.messages import (
    claim,
    container,
    devices,
    field,
    holding,
    pod,
    recorded,
)

FIRST = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
SECOND = "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76"
MIG = "MIG-e0c1a2b3-0000-5000-8000-000000000001"


def test_a_recorded_list_is_read() -> None:
    answer = decode_list(recorded("list"))

    assert answer.rejected == {}
    assert list(answer.entries) == [
        ("kube-system", "coredns-7c65d6cfc9-x2x4z"),
        ("ml", "train-0"),
        ("ml", "slice"),
        ("ml", "claimed"),
    ]
    train, sliced, claimed = (
        answer.entries["ml", name] for name in ("train-0", "slice", "claimed")
    )
    assert train.grants == (
        Grant("main", "nvidia.com/gpu", (FIRST, SECOND)),
        Grant("main", "rdma/hca", ("mlx5_1",)),
    )
    assert sliced.grants == (
        Grant("a", "nvidia.com/gpu.shared", (f"{FIRST}::0", f"{FIRST}::1")),
        Grant("b", "nvidia.com/mig-1g.5gb", (MIG,)),
    )
    shared = "1d2c3b4a-0000-4000-8000-000000000009"
    assert claimed.claims == {
        ("ml", "claimed-gpu-x7k2p"): (
            ClaimedDevice("", "gpu.nvidia.com", "node-1", "gpu-0"),
            ClaimedDevice("", "gpu.nvidia.com", "node-1", "gpu-1", share_id=shared),
        )
    }


def test_a_recorded_get_is_the_entry_of_the_list() -> None:
    of_list = decode_list(recorded("list"))
    assert list(decode_get(recorded("get")).entries.values()) == [of_list.entries["ml", "train-0"]]
    assert decode_get(b"") == ({}, {})


def test_nothing_is_an_empty_list() -> None:
    assert decode_list(b"") == ({}, {})


@pytest.mark.parametrize(
    "bad",
    [
        pod(""),
        pod("bad", namespace=""),
        pod(b"\xff\xfe"),
        pod("bad" * 200),
        field(1, field(1, 5)),
        pod("bad", container("")),
        pod("bad", container("main"), container("main")),
        pod("bad", container("main", devices("nvidia.com/gpu", b"\xc3\x28"))),
        pod("bad", container("main", field(2, b"\x0a\x7f"))),
    ],
)
def test_an_entry_that_cannot_be_read_costs_only_itself(bad: bytes) -> None:
    answer = decode_list(holding("before", FIRST) + bad + holding("after", SECOND))

    assert [key[1] for key in answer.entries] == ["before", "after"]
    assert answer.rejected == {MALFORMED: 1}


def test_of_two_different_pods_with_one_name_neither_is_believed() -> None:
    answer = decode_list(holding("a", FIRST) + holding("a", SECOND) + holding("b", FIRST))

    assert list(answer.entries) == [("ml", "b")]
    assert answer.rejected == {AMBIGUOUS: 1}


def test_what_is_said_twice_is_said_once() -> None:
    answer = decode_list(holding("a", FIRST, FIRST) + holding("a", FIRST))

    assert answer.entries["ml", "a"].grants == (Grant("main", "nvidia.com/gpu", (FIRST,)),)
    assert answer.rejected == {}


def test_the_order_in_which_the_kubelet_tells_devices_does_not_matter() -> None:
    one = pod("a", container("main", devices("r", "1"), devices("r", "2"), devices("q", "3")))
    other = pod("a", container("main", devices("q", "3"), devices("r", "2"), devices("r", "1")))

    assert decode_list(one) == decode_list(other)


def test_too_many_ids_cost_the_resource_its_ids_and_nothing_else() -> None:
    """Plugins of virtual ids hand out one for each unit: 30,000 for the memory of a card."""
    units = (f"{FIRST}-_-{number}" for number in range(30_000))
    answer = decode_list(
        pod(
            "big",
            container("main", devices("example.com/memory", *units), devices("r", SECOND)),
            container("side", devices("nvidia.com/gpu", FIRST)),
        )
    )

    assert answer.entries["ml", "big"].grants == (
        Grant("main", "example.com/memory", ()),
        Grant("main", "r", (SECOND,)),
        Grant("side", "nvidia.com/gpu", (FIRST,)),
    )
    assert answer.rejected == {OVER_LIMIT: 1}


def test_too_many_devices_of_a_claim_cost_the_claim() -> None:
    many = claim("c", *(f"{number}" for number in range(resourceentries.MAX_CLAIMED + 1)))
    answer = decode_list(pod("a", container("main", many, claim("d", "gpu-0"))))

    assert list(answer.entries["ml", "a"].claims) == [("ml", "d")]
    assert answer.rejected == {OVER_LIMIT: 1}


def test_too_many_containers_cost_those_beyond() -> None:
    most = resourceentries.MAX_CONTAINERS
    parts = [container(f"c{n}", devices("r", FIRST)) for n in range(most + 3)]
    answer = decode_list(pod("a", *parts))

    assert len(answer.entries["ml", "a"].grants) == most
    assert answer.rejected == {OVER_LIMIT: 3}


def test_of_ever_so_many_pods_those_that_are_asked_about_are_read() -> None:
    """An older kubelet lists pods that ended too, and a cluster keeps 12,500 of them."""
    ended = b"".join(holding(f"p{number}", FIRST) for number in range(40_000))
    answer = decode_list(ended + pod("") + holding("lives", SECOND), [("ml", "lives")])

    assert list(answer.entries) == [("ml", "lives")]
    assert answer.rejected == {MALFORMED: 1}


def test_an_answer_of_empty_parts_costs_neither_memory_nor_time() -> None:
    """16 MiB of them took 16 s of CPU and 245 MiB, where the pod may have 192."""
    with pytest.raises(WireError, match="more than 65536 pods"):
        decode_list(field(1, b"") * (1 << 20))
    parts = b"".join(field(2, b"") for _ in range(resourceentries.MAX_POD // 2))
    answer = decode_list(pod("huge", parts) + holding("a", FIRST))

    assert list(answer.entries) == [("ml", "a")]
    assert answer.rejected == {MALFORMED: 1}
    many = container("main", *(field(2, b"") for _ in range(resourceentries.MAX_DEVICES + 5)))
    answer = decode_list(pod("a", many))
    assert answer.rejected == {OVER_LIMIT: 5}


@pytest.mark.parametrize("length", [1, 40, 200, 700])
def test_a_list_that_is_cut_off_is_no_answer(length: int) -> None:
    with pytest.raises(WireError):
        decode_list(recorded("list")[:length])


@given(st.binary(max_size=400), st.integers(0, 752), st.integers(0, 255))
def test_hostile_bytes_are_an_answer_or_none(noise: bytes, place: int, byte: int) -> None:
    broken = bytearray(recorded("list"))
    broken[place % len(broken)] = byte
    for message in (noise, bytes(broken), field(1, noise)):
        for decode in (decode_list, decode_get):
            with contextlib.suppress(WireError):
                decode(message)
