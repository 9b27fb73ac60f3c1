import json
from dataclasses import replace

import pytest

from exporter.agent.allocations import registry
from exporter.agent.allocations.registry import read_by
from exporter.agent.allocations.schemes import hami
from exporter.agent.allocations.schemes.hami import SCHEME
from exporter.agent.allocations.schemes.vgpu import ResourceNames
from exporter.agent.allocations.terms import Reason
from exporter.model import Container, Pod
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    MIB,
    Told,
    card,
    container,
    decoder,
    granted,
    instance,
    node,
    pod,
    reasons,
    told,
)

decode = decoder(SCHEME)

ALLOCATED = "hami.io/vgpu-devices-allocated"
GPU = {"nvidia.com/gpu": "1"}
INIT = container("i", kind="init")
PLAIN = container("plain")
FIRST = container("first", GPU)
SECOND = container("second", GPU)
PAIR = container("pair", {"nvidia.com/gpu": "2"})
ZERO = "GPU-0,NVIDIA,1000,10:"
ONE = "GPU-1,NVIDIA,2000,0:"


@pytest.mark.parametrize(
    ("containers", "annotation", "expected"),
    [
        pytest.param((INIT, FIRST), f";{ZERO};", [("first", "GPU-0")], id="init first since v2.9"),
        pytest.param((INIT, FIRST), f"{ZERO};", [("first", "GPU-0")], id="containers only before"),
        pytest.param(
            (INIT, PLAIN, FIRST), f"{ZERO};", [("first", "GPU-0")], id="empty segment dropped"
        ),
        pytest.param(
            (FIRST, container("s", GPU, "sidecar"), SECOND),
            f"{ONE};{ZERO};;",
            [("s", "GPU-1"), ("first", "GPU-0"), ("second", None)],
            id="a sidecar is an init container of the spec",
        ),
        pytest.param(
            (container("i", GPU, "init"), FIRST),
            f"{ZERO};{ONE};",
            [("first", "GPU-1")],
            id="an ordinary init container hands its devices on",
        ),
        pytest.param(
            (container("i", GPU, "init"), FIRST, PLAIN),
            f"{ZERO};{ONE};",
            [("first", "GPU-1")],
            id="as many containers as segments, of which one has no vGPU",
        ),
        pytest.param(
            (container("i", GPU, "init"), container("s", GPU, "sidecar"), PLAIN, FIRST),
            f"{ZERO};{ONE};{ZERO};",
            [("s", "GPU-1"), ("first", "GPU-0")],
            id="no empty segments since v2.10",
        ),
        pytest.param(
            (FIRST, SECOND),
            f"{ZERO};{ONE};;;",
            [("first", None), ("second", None)],
            id="no rule fits: the limits",
        ),
    ],
)
def test_segments_find_their_containers(
    containers: tuple[Container, ...], annotation: str, expected: list[tuple[str, str | None]]
) -> None:
    decoded = decode(pod(*containers, annotations={ALLOCATED: annotation}), node(*FOUR_CARDS))
    assert [(a.container, a.device) for a in decoded.allocations] == expected


@pytest.mark.parametrize(
    ("entry", "reason", "shares"),
    [
        ("GPU-9,NVIDIA,1000,10:", Reason.UNKNOWN_DEVICE, [(None, 0.1, 1000 * MIB)]),
        ("GPU-9[7-9],NVIDIA,1000,10:", Reason.UNKNOWN_DEVICE, [(None, None, 1000 * MIB)]),
        ("GPU-0,NVIDIA,1000,101:", Reason.CORE_OUT_OF_RANGE, [("GPU-0", None, 1000 * MIB)]),
        ("GPU-0,NVIDIA,9999999,10:", Reason.MEMORY_OUT_OF_RANGE, [("GPU-0", 0.1, None)]),
        ("GPU-0,NVIDIA,-1,10:", Reason.BAD_QUANTITY, [("GPU-0", 0.1, None)]),
        ("GPU-0,NVIDIA,1000:", Reason.BAD_ANNOTATION, [(None, None, None)]),
        (ZERO + ZERO, Reason.PLACEMENT_MISMATCH, [(None, None, None)]),
        (";" + ZERO, Reason.CONTAINER_MISMATCH, [("GPU-0", 0.1, 1000 * MIB)]),
        ("nonsense", Reason.BAD_ANNOTATION, [(None, None, None)]),
        (ZERO * 65, Reason.TOO_MANY_DEVICES, [(None, None, None)]),
        (ZERO * 5000, Reason.BAD_ANNOTATION, [(None, None, None)]),
    ],
)
def test_bad_entry_is_counted_and_costs_only_itself(
    entry: str, reason: Reason, shares: list[tuple[str | None, float | None, int | None]]
) -> None:
    decoded = decode(pod(FIRST, annotations={ALLOCATED: entry + ";"}), node(*FOUR_CARDS))
    assert [(a.device, a.core, a.memory_bytes) for a in decoded.allocations] == shares
    assert [problem.reason for problem in decoded.problems] == [reason]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [("GPU-1,NVIDIA,1000:", Reason.BAD_ANNOTATION), (ZERO, Reason.DUPLICATE_DEVICE)],
)
def test_bad_entry_of_two_costs_only_its_device(entry: str, reason: Reason) -> None:
    described = pod(PAIR, annotations={ALLOCATED: f"{ZERO}{entry};"})
    decoded = decode(described, node(*FOUR_CARDS))
    assert told(decoded) == [("pair", "GPU-0", 0.1, 1000 * MIB), ("pair", None, None, None)]
    assert reasons(decoded) == [reason]


def test_memory_beyond_the_card_is_kept_as_hami_can_oversubscribe() -> None:
    described = pod(FIRST, annotations={ALLOCATED: "GPU-0,NVIDIA,49152,0:;"})
    decoded = decode(described, node(*FOUR_CARDS))
    assert decoded.allocations[0].memory_bytes == 48 * 1024 * MIB > CARD_MEMORY


@pytest.mark.parametrize(
    ("limits", "shares"),
    [
        ({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3k"}, [(None, 3000 * MIB)] * 2),
        ({"nvidia.com/gpumem": "500", "nvidia.com/gpucores": "30"}, [(0.3, 500 * MIB)]),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}, [(None, CARD_MEMORY // 2)]),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "0"}, [(None, None)]),
    ],
)
def test_without_annotation_the_limits_tell_all_but_the_device(
    limits: dict[str, str], shares: list[tuple[float | None, int | None]]
) -> None:
    decoded = decode(pod(container(limits=limits)), node(*FOUR_CARDS))
    assert [(a.core, a.memory_bytes) for a in decoded.allocations] == shares
    assert {a.device for a in decoded.allocations} == {None}


def test_percentage_of_unequal_cards_is_unknown() -> None:
    described = pod(container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}))
    decoded = decode(described, node(card(0), card(1, memory=1 << 30)))
    assert decoded.allocations[0].memory_bytes is None


@pytest.mark.parametrize(("limit", "priority"), [("0", "high"), ("1", "low"), ("2", "")])
def test_priority_is_named(limit: str, priority: str) -> None:
    owner = container(limits={**GPU, "nvidia.com/priority": limit})
    decoded = decode(pod(owner, annotations={ALLOCATED: ZERO + ";"}), node(*FOUR_CARDS))
    assert [a.priority for a in decoded.allocations] == [priority]
    assert len(decoded.problems) == (priority == "")


def test_the_permanent_record_wins_over_the_older_keys() -> None:
    annotations = {ALLOCATED: ZERO + ";", "4pd.io/vgpu-ids-new": ONE + ";"}
    decoded = decode(pod(FIRST, annotations=annotations), node(*FOUR_CARDS))
    assert [a.device for a in decoded.allocations] == ["GPU-0"]


@pytest.mark.parametrize(
    ("limits", "memory"),
    [
        ({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}, CARD_MEMORY),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100", "nvidia.com/gpumem": "x"},
            None,
        ),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "99"}, None),
    ],
)
def test_all_cores_of_a_card_have_its_memory_unless_some_is_stated(
    limits: dict[str, str], memory: int | None
) -> None:
    decoded = decode(pod(container(limits=limits)), node(*FOUR_CARDS))
    assert [a.memory_bytes for a in decoded.allocations] == [memory]


def test_segments_that_fit_no_rule_are_the_only_users() -> None:
    described = pod(PLAIN, FIRST, annotations={ALLOCATED: f"{ZERO};;;;"})
    assert told(decode(described, node(*FOUR_CARDS))) == [("first", "GPU-0", 0.1, 1000 * MIB)]


# --- what the limits say --------------------------------------------------------------------------

REGISTER = "hami.io/node-nvidia-register"
LINUX = {"kubernetes.io/os": "linux"}


@pytest.mark.parametrize(
    ("limits", "entry", "expected"),
    [
        pytest.param(
            {"nvidia.com/gpucores": "10", "nvidia.com/gpumem": "1000"},
            "GPU-0,NVIDIA,30000,100:",
            ("a", "GPU-0", 0.1, 1000 * MIB),
            id="over-asker",
        ),
        pytest.param(
            {"nvidia.com/gpucores": "100", "nvidia.com/gpumem": "30000"},
            "GPU-0,NVIDIA,100,1:",
            ("a", "GPU-0", 1.0, 30000 * MIB),
            id="underpayer",
        ),
        pytest.param(
            {"nvidia.com/gpumem-percentage": "100"},
            "GPU-0,NVIDIA,100,0:",
            ("a", "GPU-0", None, CARD_MEMORY),
            id="underpayer by percentage",
        ),
        pytest.param(
            {"nvidia.com/gpucores": "0"},
            "GPU-0,NVIDIA,100,50:",
            ("a", "GPU-0", None, 100 * MIB),
            id="core of nothing",
        ),
    ],
)
def test_limits_win_where_the_annotation_states_other_amounts(
    limits: dict[str, str], entry: str, expected: tuple[str, str, float | None, int]
) -> None:
    described = pod(container(limits={**GPU, **limits}), annotations={ALLOCATED: entry + ";"})
    decoded = decode(described, node(*FOUR_CARDS))
    assert told(decoded) == [expected]
    assert reasons(decoded) == [Reason.LIMITS_DIFFER]


@pytest.mark.parametrize(
    ("limits", "entry"),
    [
        pytest.param({}, "GPU-0,NVIDIA,5000,30:", id="defaults of the scheduler"),
        pytest.param({"nvidia.com/gpumem": "0"}, "GPU-0,NVIDIA,32768,0:", id="0 is the default"),
        pytest.param({"nvidia.com/gpumem": "3k"}, "GPU-0,NVIDIA,3000,0:", id="canonical form"),
        pytest.param({"nvidia.com/gpumem-percentage": "50"}, "GPU-0,NVIDIA,16384,0:", id="percent"),
        pytest.param({"nvidia.com/gpumem-percentage": "33"}, "GPU-0,NVIDIA,10813,0:", id="rounded"),
        pytest.param({"nvidia.com/gpucores": "30"}, "GPU-0,NVIDIA,32768,30:", id="core alone"),
        pytest.param(
            {"nvidia.com/gpucores": "10", "nvidia.com/gpumem": "4000"},
            "GPU-0[7-9],NVIDIA,4864,14:",
            id="the next larger MIG instance",
        ),
    ],
)
def test_what_the_scheduler_makes_of_a_request_is_no_difference(
    limits: dict[str, str], entry: str
) -> None:
    described = pod(container(limits={**GPU, **limits}), annotations={ALLOCATED: entry + ";"})
    assert decode(described, node(*FOUR_CARDS)).problems == ()


@pytest.mark.parametrize(
    "registered",
    [
        "GPU-0,10,65536,100,NVIDIA-V100,0,true:GPU-1,10,1,100,NVIDIA-V100,0,true:",
        json.dumps([{"id": "GPU-0", "count": 10, "devmem": 65536}, {"id": "GPU-1", "devmem": 1}]),
    ],
    ids=["list", "json"],
)
def test_percentage_is_one_of_the_memory_that_the_plugin_registered(registered: str) -> None:
    """``deviceMemoryScaling`` 2 registers twice the memory of the card."""
    limits = {**GPU, "nvidia.com/gpumem-percentage": "50"}
    described = pod(container(limits=limits), annotations={ALLOCATED: "GPU-0,NVIDIA,32768,0:;"})
    decoded = decode(described, replace(node(*FOUR_CARDS), annotations={REGISTER: registered}))
    assert told(decoded) == [("a", "GPU-0", None, CARD_MEMORY)]
    assert decoded.problems == ()


@pytest.mark.parametrize("key", [ALLOCATED, "hami.io/amd-devices-allocated"])
def test_segment_of_a_container_that_asks_for_nothing_is_refused(key: str) -> None:
    decoded = registry.decode(pod(PLAIN, annotations={key: ZERO + ";"}), node(*FOUR_CARDS))
    assert (decoded.allocations, reasons(decoded)) == ((), [Reason.NOT_REQUESTED])


def test_list_of_another_number_of_devices_places_nothing() -> None:
    described = pod(PAIR, annotations={ALLOCATED: ZERO + ";"})
    decoded = decode(described, node(*FOUR_CARDS))
    assert told(decoded) == [("pair", None, None, None)] * 2
    assert reasons(decoded) == [Reason.PLACEMENT_MISMATCH]


def test_device_that_is_listed_twice_does_not_halve_the_allocation() -> None:
    limits = {"nvidia.com/gpu": "2", "nvidia.com/gpucores": "50"}
    described = pod(container(limits=limits), annotations={ALLOCATED: "GPU-0,NVIDIA,9,50:" * 2})
    decoded = decode(described, node(*FOUR_CARDS))
    assert [a.core for a in decoded.allocations] == [0.5, 0.5]


def test_two_devices_of_another_vendor_are_not_counted_as_one() -> None:
    limits = {"hygon.com/dcunum": "2", "hygon.com/dcumem": "1000"}
    entries = "amd-0,DCU,1000,0:amd-1,DCU,1000,0:;"
    described = pod(
        container(limits=limits), annotations={"hami.io/dcu-devices-allocated": entries}
    )
    decoded = decode(described, node(card(0, vendor="amd"), card(1, vendor="amd")))
    assert [a.device for a in decoded.allocations] == ["amd-0", "amd-1"]
    assert decoded.problems == ()


def test_annotation_on_a_node_without_hami_leaves_a_whole_card_whole() -> None:
    """On a node of NVIDIA's own plugin, the annotation would make of a card a hundredth."""
    described = pod(FIRST, annotations={ALLOCATED: "GPU-0,NVIDIA,100,1:;"})
    decoded = registry.decode(described, node(*FOUR_CARDS, labels=LINUX))
    assert [(a.scheme, a.core) for a in decoded.allocations] == [("nvidia-device-plugin", 1.0)]
    assert [(p.scheme, p.reason) for p in decoded.problems] == [("hami", Reason.UNPROVEN)]


@pytest.mark.parametrize(
    ("registered", "ids", "scheme"),
    [
        ("", ("GPU-0-3",), "hami"),
        ("GPU-0,10,65536,100,NVIDIA-V100,0,true:", (), "hami"),
        ("GPU-0,10,65536,100,NVIDIA-V100,0,true:", ("GPU-0",), "nvidia-device-plugin"),
    ],
    ids=["its ids are granted", "its plugin has registered", "another's id is granted"],
)
def test_grant_or_register_makes_a_pod_hamis(
    registered: str, ids: tuple[str, ...], scheme: str
) -> None:
    facts = replace(
        node(*FOUR_CARDS, labels=LINUX),
        annotations={REGISTER: registered} if registered else {},
        grants=granted({"nvidia.com/gpu": ids}, "first") if ids else {},
    )
    decoded = registry.decode(pod(FIRST, annotations={ALLOCATED: ZERO + ";"}), facts)
    assert [a.scheme for a in decoded.allocations] == [scheme]


# --- MIG ------------------------------------------------------------------------------------------

INSTANCES = "hami.io/vgpu-mig-allocations"
DIVIDED = node(card(0), card(1), instance(0, 0), instance(0, 1, "2g.10gb", 10 * GIB))
PARENT = "GPU-0,NVIDIA,4000,10:"


def record(segment: object, place: object, **more: object) -> dict[str, object]:
    return {"containerIndex": segment, "deviceIndex": place, "gpuUUID": "GPU-0", **more}


def mig_pod(encoded: str, *records: object, containers: tuple[Container, ...] = (FIRST,)) -> Pod:
    annotations = {ALLOCATED: encoded, INSTANCES: json.dumps(records)}
    return pod(*containers, annotations=annotations)


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        pytest.param(
            mig_pod(PARENT + ";", record(0, 0, migUUID="MIG-0-0")),
            [("first", "MIG-0-0", None, 5 * GIB)],
            id="made",
        ),
        pytest.param(
            mig_pod(PARENT + ";", record(0, 0)),
            [("first", None, None, 4000 * MIB)],
            id="not made yet",
        ),
        pytest.param(
            mig_pod(
                PARENT * 2 + ";",
                record(0, 1, migUUID="MIG-0-0"),
                record(0, 0, migUUID="MIG-0-1"),
                containers=(PAIR,),
            ),
            [("pair", "MIG-0-1", None, 10 * GIB), ("pair", "MIG-0-0", None, 5 * GIB)],
            id="two of one GPU",
        ),
        pytest.param(
            mig_pod(
                f";{PARENT};",
                record(1, 0, migUUID="MIG-0-1"),
                containers=(INIT, FIRST),
            ),
            [("first", "MIG-0-1", None, 10 * GIB)],
            id="segments begin with init containers",
        ),
        pytest.param(
            pod(FIRST, annotations={ALLOCATED: "GPU-0[7-9],NVIDIA,4000,10:;"}),
            [("first", None, None, 4000 * MIB)],
            id="template and slot name no instance",
        ),
        pytest.param(
            pod(FIRST, annotations={ALLOCATED: PARENT + ";"}),
            [("first", None, None, 4000 * MIB)],
            id="a divided GPU is none of its instances",
        ),
        pytest.param(
            pod(FIRST, annotations={ALLOCATED: "MIG-0-0,NVIDIA,4000,10:;"}),
            [("first", "MIG-0-0", None, 5 * GIB)],
            id="an instance by its own name",
        ),
    ],
)
def test_mig_instance_has_its_own_memory_and_states_no_core(described: Pod, expected: Told) -> None:
    decoded = decode(described, DIVIDED)
    assert told(decoded) == expected
    assert {a.policy for a in decoded.allocations} == {"mig"}
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([record(0, 0, migUUID="MIG-9")], Reason.UNKNOWN_DEVICE),
        ([record(0, 0, migUUID="GPU-1")], Reason.PLACEMENT_MISMATCH),
        ([record(0, 0, migUUID="MIG-0-0", gpuUUID="GPU-1")], Reason.PLACEMENT_MISMATCH),
        ([record(0, 0), record(0, 0)], Reason.BAD_ANNOTATION),
        ([record(-1, 0)], Reason.BAD_ANNOTATION),
        ([record(2**80, 0)], Reason.BAD_ANNOTATION),
        ([record(0, None)], Reason.BAD_ANNOTATION),
        ([record(0, 0, gpuUUID=7)], Reason.BAD_ANNOTATION),
        ([record(0, 0, migUUID=["MIG-0-0"])], Reason.BAD_ANNOTATION),
        (["MIG-0-0"], Reason.BAD_ANNOTATION),
    ],
)
def test_bad_record_of_an_instance_places_nothing(records: list[object], reason: Reason) -> None:
    decoded = decode(mig_pod(PARENT + ";", *records), DIVIDED)
    assert told(decoded) == [("first", None, None, 4000 * MIB)]
    assert reasons(decoded) == [reason]


def test_instance_that_is_told_twice_is_given_once() -> None:
    records = [record(0, place, migUUID="MIG-0-0") for place in range(2)]
    decoded = decode(mig_pod(PARENT * 2 + ";", *records, containers=(PAIR,)), DIVIDED)
    assert told(decoded)[0] == ("pair", "MIG-0-0", None, 5 * GIB)
    assert [device for _, device, _, _ in told(decoded)] == ["MIG-0-0", None]
    assert reasons(decoded) == [Reason.DUPLICATE_DEVICE]


# --- other vendors, other names -------------------------------------------------------------------


DCU = {"hygon.com/dcunum": "1"}


@pytest.mark.parametrize(
    ("vendor", "resource", "core"),
    [
        ("amd", "amd.com/gpu", None),
        ("dcu", "hygon.com/dcunum", 0.25),
        ("mthreads-vgpu", "mthreads.com/vgpu", None),
        ("xpu", "kunlunxin.com/vxpu", None),
    ],
)
def test_other_vendors_devices_are_found_by_their_uuid(
    vendor: str, resource: str, core: float | None
) -> None:
    """AMD's cores are compute units: 76 of 304 are no 76 per cent."""
    key = f"hami.io/{vendor}-devices-allocated"
    user = container("user", {resource: "1"})
    described = pod(PLAIN, user, annotations={key: ";amd-1,ANY,1000,25:;"})
    decoded = decode(described, node(card(0), card(1, vendor="amd")))
    assert told(decoded) == [("user", "amd-1", core, 1000 * MIB)]
    assert decoded.problems == ()


def test_device_in_two_vendors_lists_is_given_once() -> None:
    annotations = {ALLOCATED: ZERO + ";", "hami.io/dcu-devices-allocated": ZERO + ";"}
    described = pod(container("both", {**GPU, **DCU}), annotations=annotations)
    decoded = decode(described, node(*FOUR_CARDS))
    assert told(decoded) == [("both", "GPU-0", 0.1, 1000 * MIB)]
    assert reasons(decoded) == [Reason.DUPLICATE_DEVICE]


OTHER_NAMES = ResourceNames(
    count="example.com/vgpu",
    memory="example.com/mem",
    memory_percentage="example.com/mem-percent",
    core="example.com/cores",
    memory_factor=256,
)


def test_pod_under_other_resource_names_is_read_where_they_are_stated() -> None:
    owner = container("a", {"example.com/vgpu": "1", "example.com/mem": "4"})
    described = pod(owner, annotations={ALLOCATED: "GPU-0,NVIDIA,1024,10:;"})
    assert reasons(decode(described, node(*FOUR_CARDS))) == [Reason.NOT_REQUESTED]
    decoded = read_by(hami.scheme(OTHER_NAMES), described, node(*FOUR_CARDS))
    assert told(decoded) == [("a", "GPU-0", 0.1, 1024 * MIB)]
    assert decoded.problems == ()


def test_names_that_are_not_stated_ask_for_nothing() -> None:
    decoded = read_by(hami.scheme(OTHER_NAMES), pod(container(limits=GPU)), node(*FOUR_CARDS))
    assert (decoded.allocations, decoded.problems) == ((), ())
