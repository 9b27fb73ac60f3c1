"""Settings of the cluster: pods, and what they were allocated."""

from dataclasses import dataclass

from exporter.agent.settings.schemes import RESOURCE, SCHEME_NAME, SCHEMES
from exporter.inputs.valuekinds import Form, ValueKind, duration
from exporter.inputs.values import (
    KEY,
    OPTIONAL_PATH,
    ORIGIN,
    SOCKET,
    SWITCH,
    TEXT,
    choice,
    count,
    many,
    matching,
    pairs,
    setting,
)
from exporter.model import SchemeDescription

NAMESPACE = matching(
    r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "a namespace of small letters, digits and -"
)
RESOURCE_NAMES = (  # of HAMi's device configuration, pkg/device/nvidia, NvidiaConfig
    "resourceCountName",
    "resourceMemoryName",
    "resourceMemoryPercentageName",
    "resourceCoreName",
    "resourcePriorityName",
)
FACTOR_NAME = "memoryFactor"
_FACTOR = count(1, 1 << 20)
_PAIRS = pairs(
    choice(*RESOURCE_NAMES, FACTOR_NAME),
    matching(".{1,400}", "a resource or a number"),
    f"KEY=RESOURCE, where KEY is one of {', '.join(RESOURCE_NAMES)}, or {FACTOR_NAME}=NUMBER",
)


def _read(text: str) -> tuple[tuple[str, str], ...]:
    found = _PAIRS.read(text)
    # Pairs have one kind of value for all keys. What its own key takes is narrower.
    for key, value in found:
        (_FACTOR if key == FACTOR_NAME else RESOURCE).read(value)
    return found


_FORMS = {**dict.fromkeys(RESOURCE_NAMES, RESOURCE.form), FACTOR_NAME: _FACTOR.form}
HAMI = ValueKind(_read, _PAIRS.allowed, many=True, pairs=True, form=Form("keys", (_FORMS,)))


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The cluster: pods, and what they were allocated."""

    __slots__ = ()

    pods_source: str = setting(
        "pods.source",
        choice("auto", "api", "kubelet", "files", "none"),
        "auto",
        "Where pods are read from: the API server, this node's kubelet, or the names of log "
        "files; auto uses the first of them that is up.",
        "See docs/pods.md.",
    )
    pods_labels: tuple[str, ...] = setting(
        "pods.labels",
        many(KEY),
        "",
        "Pod labels to show on mgpu_pod_info, with kube-state-metrics' names.",
        "At most 64 of a pod.",
        live=True,
    )
    pods_annotations: tuple[str, ...] = setting(
        "pods.annotations",
        many(KEY),
        "",
        "Pod annotations to show on mgpu_pod_info, like --pods.labels.",
        "They can be long or secret.",
        live=True,
    )
    pods_list_spread_ns: int = setting(
        "pods.list-spread",
        duration("0s", "5m"),
        "1s",
        "Longest random delay of a list of pods, at the start and if the watch loses its position.",
        "See docs/scaling.md.",
        rare=True,
    )
    pods_claims: str = setting(
        "pods.claims",
        choice("auto", "off"),
        "auto",
        "Whether the API server is asked for the devices of ResourceClaims (DRA); auto asks if "
        "a pod of this node has one.",
        "Needs resourceclaims get, resourceslices list.",
    )
    kubelet_pod_resources_socket: str = setting(
        "kubelet.pod-resources-socket",
        SOCKET,
        "auto",
        "Socket of the kubelet's PodResources, which lists the devices of each container; auto "
        "uses /var/lib/kubelet/pod-resources/kubelet.sock if its folder exists.",
        "Needs the extra `podresources`.",
    )
    kubeconfig: str = setting(
        "kubeconfig", TEXT, "", "kubeconfig file; if not set, the in-cluster configuration."
    )
    kubelet_address: str = setting(
        "kubelet.address",
        ORIGIN,
        "",
        "Address of this node's kubelet; if not set, https on port 10250 of $NODE_IP, else of "
        "127.0.0.1.",
        "On the read-only port (http, 10255) any pod with the host's network may answer.",
    )
    kubelet_ca_file: str = setting(
        "kubelet.ca-file",
        OPTIONAL_PATH,
        "",
        "CA of the kubelet's certificate; if not set, the cluster's.",
        "Most kubelets sign their own certificate.",
    )
    kubelet_insecure_tls: bool = setting(
        "kubelet.insecure-tls",
        SWITCH,
        "false",
        "Accept any certificate of the kubelet.",
        "The ServiceAccount's token then goes to any server at that address.",
    )
    node_name: str = setting(
        "node.name",
        TEXT,
        "",
        "Name of this node in the cluster; if not set, $NODE_NAME, else the host name.",
        "Only this node's pods are requested.",
    )
    allocations_schemes: tuple[SchemeDescription, ...] = setting(
        "allocations.schemes",
        SCHEMES,
        "",
        "Your own sharing systems, described by their resources and annotations.",
        "They go before the shipped ones.",
        live=True,
    )
    allocations_index_basis: tuple[tuple[str, str], ...] = setting(
        "allocations.index-basis",
        pairs(
            SCHEME_NAME,
            choice("nvml_index", "minor", "pci"),
            "SCHEME=BASIS, where BASIS is one of nvml_index, minor, pci",
        ),
        "",
        "What a sharing system's card numbers mean on this node, if not its default.",
        "A wrong one shows as mgpu_container_placement_mismatch.",
        live=True,
    )
    allocations_hami: tuple[tuple[str, str], ...] = setting(
        "allocations.hami",
        HAMI,
        "",
        "HAMi's resource names and memory factor, if its device configuration (`nvidia:`) "
        "changes them; by the keys used there.",
        live=True,
    )
    allocations_volcano_memory_factor: int = setting(
        "allocations.volcano-memory-factor",
        count(0, 1 << 20),
        "0",
        "The memory factor of Volcano's device plugins (`gpuMemoryFactor`), in MiB; 0: by what "
        "the node says.",
        "Only where the exporter may not read its node, or its cards differ.",
        rare=True,
        live=True,
    )
    allocations_kai_namespaces: tuple[str, ...] = setting(
        "allocations.kai-namespaces",
        many(NAMESPACE),
        "",
        "Namespaces of the pods by which KAI or Run:ai reserve GPUs; if not set, they are "
        "found by the pods' names.",
        "A tenant of two namespaces can then pose as the scheduler.",
        live=True,
    )
