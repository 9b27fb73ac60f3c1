from typing import Any

import pytest

from exporter.agent.allocations import registry
from exporter.agent.allocations.terms import Reason
from exporter.agent.sources.pods.decode import (
    CONFIG_HASH,
    CONFIG_MIRROR,
    MAX_ANNOTATIONS,
    MAX_CONTAINERS,
    UNREADABLE,
    KeyPrefixes,
    PodError,
    decode_node,
    decode_pod,
)
from exporter.model import Device, NodeFacts
from tests.agent.sources.pods.documents import Document, container_id, node_document, pod_document

CORE = "vke.volcengine.com/mgpu-core"


def test_the_fields_that_name_a_pod_are_kept() -> None:
    pod, dropped = decode_pod(pod_document("train", namespace="ml", uid="u-1", phase="Pending"))
    assert (pod.uid, pod.namespace, pod.name) == ("u-1", "ml", "train")
    assert (pod.phase, pod.qos, pod.deleted) == ("Pending", "Burstable", False)
    assert not dropped


def test_container_ids_lose_their_runtime_and_the_id_before_the_restart_comes_second() -> None:
    document = pod_document("p", containers={"main": container_id("new")})
    document["status"]["containerStatuses"][0]["lastState"] = {
        "terminated": {"containerID": f"cri-o://{container_id('old')}"}
    }
    (container,) = decode_pod(document).pod.containers
    assert container.container_ids == (container_id("new"), container_id("old"))
    status = document["status"]["containerStatuses"][0]  # of one in a loop of crashes
    status["lastState"] = {"terminated": {"containerID": status["containerID"]}}
    (container,) = decode_pod(document).pod.containers
    assert container.container_ids == (container_id("new"),)
    del document["status"]["containerStatuses"]
    (container,) = decode_pod(document).pod.containers
    assert container.container_ids == ()


def test_the_owner_is_the_controller_and_what_made_it() -> None:
    document = pod_document("p", labels={"pod-template-hash": "7d4b9"})
    owners = [
        {"kind": "Other", "name": "not-in-charge"},
        {"kind": "ReplicaSet", "name": "web-7d4b9", "controller": True},
    ]
    for references, expected in ((owners, ("Deployment", "web")), ([], ("", ""))):
        document["metadata"]["ownerReferences"] = references
        pod = decode_pod(document).pod
        assert (pod.owner_kind, pod.owner_name) == expected


def test_all_kinds_of_containers_are_joined_with_their_own_status_list() -> None:
    document = pod_document("p", containers={"main": container_id("main")})
    document["spec"]["initContainers"] = [
        {"name": "setup"},
        {"name": "proxy", "restartPolicy": "Always"},
    ]
    document["spec"]["ephemeralContainers"] = [{"name": "debugger"}]
    for key, names in (
        ("initContainerStatuses", ["proxy", "setup"]),
        ("ephemeralContainerStatuses", ["debugger"]),
    ):
        document["status"][key] = [
            {"name": name, "containerID": f"docker://{container_id(name)}"} for name in names
        ]
    containers = decode_pod(document).pod.containers
    assert [(each.name, each.kind) for each in containers] == [
        ("setup", "init"),
        ("proxy", "sidecar"),
        ("main", "app"),
        ("debugger", "ephemeral"),
    ]
    assert all(each.container_ids == (container_id(each.name),) for each in containers)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"limits": {"cpu": "1", "memory": "1Gi", CORE: "30"}}, {CORE: "30"}),
        ({"requests": {CORE: "30", "hugepages-2Mi": "4Mi"}}, {CORE: "30"}),
        ({"limits": {CORE: "40"}, "requests": {CORE: "30", "a/b": "1"}}, {CORE: "40", "a/b": "1"}),
        ({"limits": {CORE: 30}}, {CORE: "30"}),
        ({"limits": {CORE: True, "a/b": None, "c/d": [1]}}, {}),
        ({"limits": ["x"], "requests": 7}, {}),
        (None, {}),
    ],
)
def test_limits_are_the_extended_resources(resources: Any, expected: dict[str, str]) -> None:
    document = pod_document("p")
    document["spec"]["containers"][0]["resources"] = resources
    assert decode_pod(document).pod.containers[0].limits == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({CONFIG_HASH: "a" * 32, CONFIG_MIRROR: "a" * 32}, "a" * 32),
        ({CONFIG_HASH: "a" * 32, CONFIG_MIRROR: "b" * 32}, "b" * 32),
        ({CONFIG_HASH: "a" * 32}, "a" * 32),
        ({}, ""),
    ],
)
def test_a_static_pod_has_the_hash_of_its_manifest(
    annotations: dict[str, str], expected: str
) -> None:
    assert decode_pod(pod_document("p", annotations=annotations)).pod.static_hash == expected


def test_only_annotations_and_labels_of_the_given_prefixes_are_kept() -> None:
    document = pod_document(
        "p",
        annotations={"hami.io/vgpu": "x", "hami.io.evil": "y", "other/hami.io/": "z"},
        labels={"app": "a", "runai-gpu-group/g": "g", "tier": "t"},
    )
    pod = decode_pod(document, KeyPrefixes(("hami.io/",), ("app", "runai-gpu-group"))).pod
    assert pod.annotations == {"hami.io/vgpu": "x"}
    assert pod.labels == {"app": "a", "runai-gpu-group/g": "g"}
    assert decode_pod(document).pod.annotations == decode_pod(document).pod.labels == {}


@pytest.mark.parametrize("value", ["x" * (MAX_ANNOTATIONS + 1), "\ud800", 7.5, None, ["a"]])
def test_an_unusable_annotation_is_known_to_be_there_and_counted(value: Any) -> None:
    document = pod_document("p", annotations={"a/long": value, "a/good": "", "b/long": value})
    pod, dropped = decode_pod(document, KeyPrefixes(("a/",)))
    assert pod.annotations == {"a/long": UNREADABLE, "a/good": ""}
    assert dropped == {"annotation_unusable": 1}


def test_all_annotations_of_a_pod_together_are_bounded_and_the_longest_are_lost() -> None:
    texts = {f"a/{n}": "x" * (MAX_ANNOTATIONS // 8) for n in range(20)}
    document = pod_document("p", annotations={**texts, "a/placement": "0,1"})
    pod, dropped = decode_pod(document, KeyPrefixes(("a/",)))
    assert pod.annotations["a/placement"] == "0,1"
    assert sum(map(len, pod.annotations.values())) <= MAX_ANNOTATIONS + len(texts)
    assert dropped == {"annotation_unusable": 13}


def test_an_unreadable_annotation_of_a_sharing_system_makes_no_pod_of_another() -> None:
    document = pod_document("p", annotations={"hami.io/vgpu-devices-allocated": "x" * 100_000})
    (container,) = document["spec"]["containers"]
    container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    pod = decode_pod(document, KeyPrefixes(("hami.io/",))).pod
    cards = (Device("GPU-0", 0, "nvidia", memory_bytes=1 << 30),)
    register = {"hami.io/node-nvidia-register": "GPU-0,10,1024,100,V,0,true:"}
    found = registry.decode(pod, NodeFacts(devices=cards, annotations=register))
    assert {(a.scheme, a.device, a.core) for a in found.allocations} == {("hami", None, None)}
    assert [(p.scheme, p.reason) for p in found.problems] == [("hami", Reason.BAD_ANNOTATION)]


def test_containers_beyond_the_limit_and_without_a_name_of_their_own_are_dropped_and_counted() -> (
    None
):
    document = pod_document("p", containers={f"c{n}": None for n in range(MAX_CONTAINERS + 3)})
    document["spec"]["containers"][:0] = [{"name": "c0"}, {"name": ""}, {}, "text", None]
    pod, dropped = decode_pod(document)
    assert len(pod.containers) == MAX_CONTAINERS
    assert dropped == {"container_over_limit": 3, "container_unusable": 3}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("uid", None),
        ("name", ""),
        ("namespace", 7),
        ("name", "n" * 254),
        ("name", "\ud800"),
    ],
)
def test_a_pod_that_cannot_be_named_is_refused(field: str, value: Any) -> None:
    document = pod_document("p")
    document["metadata"][field] = value
    with pytest.raises(PodError, match=rf"metadata\.{field} is missing or unusable"):
        decode_pod(document)


def test_what_is_unhealthy_is_still_offered() -> None:
    document = node_document("n", {}, {"nvidia.com/gpu": "8", "example.com/old": "1", "cpu": "7"})
    document["status"]["capacity"] = {"nvidia.com/gpu": "12", "example.com/old": "0", "cpu": "8"}
    offered = {"nvidia.com/gpu": "12", "example.com/old": "1", "cpu": "7"}
    assert decode_node(document).allocatable == offered


def test_a_node_gives_its_labels_allocatable_and_the_annotations_that_are_asked_for() -> None:
    document = node_document("n", {"gpu": "yes"}, {"nvidia.com/gpu": "8"})
    document["metadata"]["annotations"] = {
        "hami.io/node-nvidia-register": "GPU-0,10,32768,100,NVIDIA-V100,0,true:",
        "hami.io/node-handshake": "Requesting_2025",
        "hami.io/node-nvidia-register-old": "x" * 70_000,
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    facts = decode_node(document, KeyPrefixes(node_annotations=("hami.io/node-nvidia-register",)))

    assert (facts.labels, facts.allocatable) == ({"gpu": "yes"}, {"nvidia.com/gpu": "8"})
    assert decode_node(["no node"]).labels == {}
    assert facts.annotations == {
        "hami.io/node-nvidia-register": "GPU-0,10,32768,100,NVIDIA-V100,0,true:",
        "hami.io/node-nvidia-register-old": UNREADABLE,
    }
    assert decode_node(document).annotations == {}


LIMITED = {
    "name": "CUDA_DEVICE_MEMORY_LIMIT",
    "valueFrom": {"configMapKeyRef": {"name": "c", "key": "CUDA_DEVICE_MEMORY_LIMIT"}},
}
PRELOAD = {"name": "hook", "mountPath": "/etc/ld.so.preload"}
HOST = {"name": "hook", "hostPath": {"path": "/usr/local/vgpu/ld.so.preload"}}


@pytest.mark.parametrize(
    ("env", "mounts", "volumes", "expected"),
    [
        ([LIMITED], [PRELOAD], [HOST], True),
        ([{"name": LIMITED["name"], "value": "1m"}], [PRELOAD], [HOST], False),
        ([LIMITED], [], [HOST], False),
        ([LIMITED], [PRELOAD], [{"name": "hook", "emptyDir": {}}], False),
        ("x", [None], {"name": "hook"}, False),
        ([LIMITED], [{"mountPath": "/etc/ld.so.preload"}], [{"hostPath": {}}], False),
    ],
)
def test_memory_hook_is_a_limit_of_a_config_map_and_a_library_of_the_host(
    env: Any, mounts: Any, volumes: Any, *, expected: bool
) -> None:
    document = pod_document("p")
    document["spec"]["volumes"] = volumes
    document["spec"]["containers"] = [{"name": "a", "env": env, "volumeMounts": mounts}]
    assert [c.memory_hook for c in decode_pod(document).pod.containers] == [expected]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ([{"name": "CUDA_DISABLE_CONTROL", "value": "true"}], True),
        ([{"name": "CUDA_DISABLE_CONTROL", "value": "yes"}], False),
        ([{"name": "CUDA_DISABLE_CONTROL", "value": ["true"]}], False),
        ([{"name": "OTHER", "value": "true"}, None, "x"], False),
        ({"name": "CUDA_DISABLE_CONTROL"}, False),
    ],
)
def test_a_container_may_ask_not_to_be_controlled(env: Any, *, expected: bool) -> None:
    document = pod_document("p")
    document["spec"]["containers"] = [{"name": "a", "env": env}]
    assert [c.uncontrolled for c in decode_pod(document).pod.containers] == [expected]


LIMIT_MEMORY, REQUEST_MEMORY = "NVIDIA_GPU_MEMORY_LIMIT", "NVIDIA_GPU_MEMORY_REQUEST"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (
            [{"name": REQUEST_MEMORY, "value": "1"}, {"name": LIMIT_MEMORY, "value": "2"}],
            {REQUEST_MEMORY: "1", LIMIT_MEMORY: "2"},
        ),
        (
            [{"name": LIMIT_MEMORY, "value": "1"}, {"name": LIMIT_MEMORY, "value": "2"}],
            {LIMIT_MEMORY: "2"},
        ),
        ([{"name": LIMIT_MEMORY, "valueFrom": {"configMapKeyRef": {"name": "c"}}}], {}),
        (
            [
                {"name": LIMIT_MEMORY, "value": "1"},
                {"name": LIMIT_MEMORY, "valueFrom": {"secretKeyRef": {"name": "s"}}},
            ],
            {},
        ),
        ([{"name": f"{LIMIT_MEMORY}S", "value": "1"}, {"name": "PASSWORD", "value": "x"}], {}),
        ([{"name": LIMIT_MEMORY, "value": "1" * 254}], {}),
        ([{"name": [LIMIT_MEMORY], "value": "1"}, None, "x"], {}),
        ({"name": LIMIT_MEMORY, "value": "1"}, {}),
    ],
)
def test_of_the_environment_only_the_literal_memory_limits_are_kept(
    env: Any, expected: dict[str, str]
) -> None:
    document = pod_document("p")
    document["spec"]["containers"] = [{"name": "a", "env": env}]
    assert [c.environment for c in decode_pod(document).pod.containers] == [expected]


def said_of(*health: tuple[str, str]) -> Document:
    """What the kubelet says of a container's devices."""
    devices = [{"resourceID": device, "health": is_so} for device, is_so in health]
    return {"allocatedResourcesStatus": [{"name": "claim:gpu", "resources": devices}]}


BAD, GOOD = ("k8s.gpu.nvidia.com/claim=c-gpu-0", "Unhealthy"), ("GPU-1", "Healthy")


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([said_of(BAD, GOOD)], (1, [BAD[0]])),
        ([said_of(BAD), said_of(BAD, ("GPU-2", "Unhealthy"))], (2, [BAD[0], "GPU-2"])),
        ([said_of(GOOD, ("GPU-2", "Unknown"))], (0, [])),
        ([{}, {"allocatedResourcesStatus": "x"}, said_of()], (None, [])),
        ([said_of(*((f"{n}", "Unhealthy") for n in range(99)))], (99, [f"{n}" for n in range(64)])),
    ],
    ids=["one", "two, of which two containers have one", "none", "nothing is said", "many"],
)
def test_unhealthy_devices_are_counted_once(states: Any, expected: tuple[Any, Any]) -> None:
    document = pod_document("p")
    document["status"]["containerStatuses"] = states
    pod = decode_pod(document).pod
    assert (pod.unhealthy_devices, [*pod.unhealthy]) == expected
