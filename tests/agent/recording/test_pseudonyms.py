"""Pseudonyms: nothing of the real names is left, and the same is still the same."""

import json
import re
from dataclasses import dataclass, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.allocations.registry import SCHEMES, decode
from exporter.agent.attribution.ownership import owner_of
from exporter.agent.recording.codec import to_json
from exporter.agent.recording.pseudonyms import OF_THE_BOARD, Pseudonyms
from exporter.agent.sources.pods.podtable import indexed
from exporter.model import (
    CgroupCharge,
    CgroupIdentity,
    CgroupMemory,
    ClaimedDevice,
    ClaimRef,
    Container,
    ContainerKey,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Grant,
    GroupKey,
    NodeFacts,
    OfferedDevice,
    Pod,
    PodSlot,
    PodTable,
    Reading,
    SourceStatus,
    Unattributed,
    Unit,
)
from tests.agent.allocations.cases import CASES, node_of, pod_of, pods_of, rules_of

KEY = b"k" * 32
GPU = "GPU-3f2b1c4d-0000-4000-8000-00000000abcd"
MIG = "MIG-3f2b1c4d-0000-4000-8000-00000000abcd"
UID = "11111111-2222-4333-8444-555555555555"
CID = "ab" * 32
POD = Pod(
    uid=UID,
    namespace="secret-ns",
    name="secret-pod",
    phase="Running",
    qos="Burstable",
    owner_kind="Deployment",
    owner_name="secret-owner",
    static_hash="cd" * 16,
    containers=(
        Container(
            "secret-c",
            container_ids=(CID,),
            limits={
                "vke.volcengine.com/mgpu-core": "40",
                "vke.volcengine.com/mgpu-memory": "1024",
                "secret.example/thing": "1",
            },
            environment={"NVIDIA_GPU_MEMORY_LIMIT": "secret-text"},
        ),
    ),
    annotations={
        "vke.volcengine.com/gpu-index-container-secret-c": "0",
        "vke.volcengine.com/mgpu-compute-policy": "fixed-share",
        "secret.example/key": "secret-value",
        "hami.io/vgpu-devices-allocated": f"{GPU},secret-type,1024,30:;",
    },
    labels={"app": "secret-app", "secret.example/team": "secret", "app.kubernetes.io/name": "s"},
)


@pytest.fixture
def names() -> Pseudonyms:
    return Pseudonyms(KEY)


@pytest.mark.parametrize(
    "text",
    ["chat", "kube-system", "a" * 253, "日本", "job\udcff", "GPU-0", "0", "0x", UID + "x", "x/y"],
)
def test_a_name_becomes_a_word(names: Pseudonyms, text: str) -> None:
    assert re.fullmatch(r"x[0-9a-f]{10}", names.name(text))


@pytest.mark.parametrize(
    "text", [UID, GPU.upper(), CID, "cd" * 16, GPU, MIG, f"MIG-{GPU}/7/0", f"MIG-{GPU}"]
)
def test_an_id_becomes_another_id_of_the_same_form(names: Pseudonyms, text: str) -> None:
    made = names.name(text)

    assert made != text
    assert re.sub("[0-9a-f]", "0", made[-32:]) == re.sub("[0-9a-f]", "0", text[-32:].lower())
    assert made[:4] == text[:4] or "-" not in text[:4]


def test_an_id_is_the_same_wherever_it_stands(names: Pseudonyms) -> None:
    bare = names.name(UID)

    assert names.name(f"GPU-{UID}") == f"GPU-{bare}"
    assert names.name(UID.replace("-", "")) == bare.replace("-", "")


@given(st.lists(st.text(min_size=1), unique=True, min_size=2))
def test_names_have_pseudonyms_of_their_own_under_each_key(texts: list[str]) -> None:
    ours, theirs = Pseudonyms(KEY), Pseudonyms(b"other")

    assert len({ours.name(text) for text in texts}) == len(texts)
    assert [ours.name(text) for text in texts] != [theirs.name(text) for text in texts]
    assert [ours.name(text) for text in texts] == [Pseudonyms(KEY).name(text) for text in texts]


def said(value: object) -> str:
    return json.dumps(to_json(value)).lower()


def test_nothing_of_a_pods_names_is_left(names: Pseudonyms) -> None:
    made = names.table(indexed({UID: POD}, 3))

    text = said(made)
    assert not [word for word in ("secret", UID, CID, "cd" * 16, GPU.lower()) if word in text]
    assert made.version == 3
    [pod] = made.pods.values()
    assert len(pod.containers[0].limits) == 2
    assert (pod.phase, pod.qos, pod.owner_kind) == ("Running", "Burstable", "Deployment")
    assert set(pod.labels) == {"app", "app.kubernetes.io/name"}


def test_labels_of_a_sharing_system_stay_and_lose_their_names(names: Pseudonyms) -> None:
    labels = {"runai-gpu-group/secret-g": "secret-g", "runai-gpu-group": "secret-g"}

    made = names.pod(replace(POD, labels=labels, namespace="kai-resource-reservation"))

    group = names.name("secret-g")
    assert made.labels == {f"runai-gpu-group/{group}": group, "runai-gpu-group": group}
    assert made.namespace == "kai-resource-reservation"


def test_nothing_of_the_names_in_grants_and_claims_is_left(names: Pseudonyms) -> None:
    offered = OfferedDevice({"uuid": GPU, "secret": "secret", "type": "gpu"}, {"memory": "1Gi"})
    strange = OfferedDevice({"uuid": GPU, "type": "secret", "pciBusID": "secret"}, {"cores": "s3"})
    consumed = {"secret": "1", "gpu.nvidia.com/memory": "1Gi", "cores": "secret"}
    sharing = {"strategy": "secret", "memory": "1Gi"}
    facts = NodeFacts(
        annotations={"secret": "secret"},
        grants={UID: (Grant("secret-c", "nvidia.com/gpu", (f"{GPU}::3", "secret-id")),)},
        claims={
            ("secret-ns", "secret-claim"): (
                ClaimedDevice(
                    *("secret-r/secret-s", "gpu.nvidia.com", "secret-pool", "gpu-0", UID),
                    consumed=consumed,
                    sharing=sharing,
                ),
                ClaimedDevice("secret-r", "secret.example.com", "secret-pool", "secret-nic"),
            )
        },
        offered={
            ("gpu.nvidia.com", "secret-pool", "gpu-0"): offered,
            ("secret.example.com", "secret-pool", "secret-nic"): strange,
        },
    )

    made = names.node(facts)

    text = said(made)
    assert not [word for word in ("secret", UID, GPU.lower()) if word in text]
    [grant] = made.grants[names.name(UID)]
    assert grant.device_ids[0] == f"{names.name(GPU)}::3"
    assert len(made.offered) == 2
    first, _ = made.claims[names.name("secret-ns"), names.name("secret-claim")]
    assert first.consumed["memory"] == first.sharing["memory"] == "1Gi"


def test_a_nodes_annotations_keep_what_sharing_systems_read_of_them(names: Pseudonyms) -> None:
    facts = NodeFacts(
        annotations={
            "hami.io/node-nvidia-register": f"{GPU},10,32768,100,secret-model,0,true:",
            "secret.example/key": "secret",
        },
        card_policies={0: "fixed-share", 1: "secret"},
    )
    made = names.node(facts)

    registered = f"{names.name(GPU)},10,32768,100,{names.name('secret-model')},0,true:"
    assert made.annotations == {"hami.io/node-nvidia-register": registered}
    assert made.card_policies == {0: "fixed-share", 1: names.name("secret")}


@pytest.mark.parametrize(
    "place",
    ["nvidia0", "nvidia0/gi3/vgpu1", "card0-1", "amdgpu_xcp_30", "0000:19:00.0"],
)
def test_places_of_devices_stay(names: Pseudonyms, place: str) -> None:
    grants = {UID: (Grant("c", "nvidia.com/gpu", (place,)),)}
    [grant] = names.node(NodeFacts(grants=grants)).grants[names.name(UID)]
    assert grant.device_ids == (place,)


def test_a_process_still_finds_its_container(names: Pseudonyms) -> None:
    table = names.table(indexed({UID: POD}))
    [pod] = table.pods.values()
    mine = ContainerKey(pod.namespace, pod.name, pod.containers[0].name)

    for identity in (
        CgroupIdentity(UID, CID, "containerd"),
        CgroupIdentity("ef" * 16, None, enclosing=(PodSlot(UID, CID),)),
        CgroupIdentity("cd" * 16, "0" * 64),
    ):
        owner = owner_of(names.identity(identity), table)
        assert owner in {mine, mine._replace(container="")}


def test_a_group_keeps_its_kind(names: Pseudonyms) -> None:
    docker = owner_of(names.identity(CgroupIdentity(None, CID, "docker")), PodTable())

    assert docker == GroupKey("docker", names.name(CID))
    assert names.identity(Unattributed.EXITED) is Unattributed.EXITED
    assert names.identity(CgroupIdentity()) == CgroupIdentity()


def test_jobs_and_charges_keep_their_kind_and_lose_their_names(names: Pseudonyms) -> None:
    job = CgroupIdentity(UID, CID, "containerd", job=Unit("pbs", "secret-job"))
    own = CgroupIdentity(unit=Unit("secretsched", "secret-job", uid=1000))
    charges = tuple(CgroupCharge(one, CgroupMemory(5, None, 7, "kernel")) for one in (job, own))
    memory = DeviceMemory(10, 5, None, None, charges=charges)
    reading = DeviceReading(Device(GPU, 0, "nvidia"), memory=memory)
    made = names.reading(Reading(SourceStatus("nvml", up=True), (reading,)))
    (device,) = made.devices
    assert device.memory
    first, second = device.memory.charges
    assert (first.memory, second.memory) == (charges[0].memory, charges[1].memory)
    assert first.identity == names.identity(job)
    assert first.identity.job == Unit("pbs", names.name("secret-job"))
    assert not re.search(f"secret|{UID}|{CID}|1000", json.dumps(to_json(made)))
    assert (names.kind("slurm"), names.kind("pod")) == ("slurm", "pod")
    assert second.identity.unit
    assert second.identity.unit.kind == names.kind("secretsched") != "secretsched"


def test_a_reading_keeps_its_figures_and_loses_its_words(names: Pseudonyms) -> None:
    device = Device(GPU, 3, "nvidia", "NVIDIA H100", parent_uuid="GPU-7", memory_bytes=5)
    lost = DeviceReading(device, DeviceState.LOST, detail="secret detail")
    reading = Reading(SourceStatus("nvml", up=False, detail="/secret/path"), (lost,))

    made = names.reading(reading)

    assert "secret" not in said(made)
    [read] = made.devices
    assert read.state is DeviceState.LOST
    assert read.device == replace(device, uuid=names.name(GPU), parent_uuid=names.name("GPU-7"))


def test_every_case_has_the_same_allocation(names: Pseudonyms) -> None:
    assert len(CASES) > 100
    for system, case in CASES:
        rules = rules_of(case)
        pod, node = pod_of(case["pod"], rules), node_of(case, rules)
        real = decode(pod, node)

        known = rules.tied(names.node(node), map(names.pod, pods_of(case, rules)))
        made = decode(names.pod(pod), known)

        expected = tuple(
            replace(
                one,
                pod_uid=names.name(one.pod_uid),
                container=names.name(one.container),
                device=names.name(one.device) if one.device else None,
                among=None if one.among is None else tuple(map(names.name, one.among)),
            )
            for one in real.allocations
        )
        assert made.allocations == expected, (system, case["case"])
        assert len(made.problems) == len(real.problems), (system, case["case"])


def test_every_resource_of_a_scheme_is_kept(names: Pseudonyms) -> None:
    limits = dict.fromkeys((name for scheme in SCHEMES for name in scheme.resources), "1")

    pod = names.pod(Pod("u", "n", "p", containers=(Container("c", limits=limits),)))

    assert pod.containers[0].limits == limits


@given(st.text())
def test_no_annotation_is_too_strange(value: str) -> None:
    annotations = {f"tke.cloud.tencent.com/qgpu-pgpu-{value}": value}

    made = Pseudonyms(KEY).pod(Pod("u", "n", "p", annotations=annotations))

    assert len(made.annotations) == 1


def test_nothing_that_is_on_no_list_is_left(names: Pseudonyms) -> None:
    keys = ("nvidia.com/gpu.{}", "nvidia.com/mig-{}", "baidu.com/{}", "mig.das.com/{}", "{}")
    of_secrets = dict.fromkeys((key.format("secret") for key in keys), "secret")
    labels = {
        **of_secrets,
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED-secret",
        "cloud.google.com/gke-accelerator": "secret",
        "app.kubernetes.io/secret": "1",
    }
    limits = {**dict.fromkeys(of_secrets, "1"), "nvidia.com/mig-1g.10gb": "1"}
    claims = (ClaimRef("secret", "secret", "deviceclass.resource.kubernetes.io/secret"),)
    pod = replace(
        POD,
        owner_kind="SecretJob",
        containers=(Container("c", limits=limits, claims=claims),),
        labels=labels,
    )
    grants = {UID: tuple(Grant("secret", key, ("secret",)) for key in limits)}

    made = names.pod(pod)
    node = names.node(NodeFacts(labels=labels, allocatable=limits, grants=grants))

    assert "secret" not in said(made).lower() + said(node).lower()
    assert made.containers[0].limits["nvidia.com/mig-1g.10gb"] == "1"
    product = node.labels["nvidia.com/gpu.product"]
    assert product.startswith("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED-x")


@dataclass(frozen=True, slots=True)
class _WithSerial(Device):
    """A device with a text that nobody has thought of yet."""

    serial: str = ""


def test_a_text_of_a_device_is_disguised_unless_it_is_listed() -> None:
    texts = {each.name: f"Eve-{each.name}" for each in fields(_WithSerial) if each.type == "str"}
    texts |= {each.name: f"Eve-{each.name}" for each in fields(_WithSerial) if each.type is str}
    device = _WithSerial(**{"index": 0, **texts})  # type: ignore[arg-type]
    reading = Reading(SourceStatus("nvml", up=True), (DeviceReading(device),))

    [made] = Pseudonyms(KEY).reading(reading).devices

    kept = {name for name, text in texts.items() if getattr(made.device, name) == text}
    assert kept == OF_THE_BOARD
