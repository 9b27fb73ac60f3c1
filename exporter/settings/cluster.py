"""Settings: the cluster: pods, and what they were allotted.

HAMi's own configuration, as far as allotments depend on it.
"""

from dataclasses import dataclass
from typing import Annotated

from exporter.model import SchemeDescription
from exporter.settings.schemes import RESOURCE, SCHEME_NAME, SCHEMES
from exporter.settings.values import (
    KEY,
    OPTIONAL_PATH,
    ORIGIN,
    SOCKET,
    SWITCH,
    TEXT,
    Setting,
    ValueKind,
    choice,
    count,
    duration,
    many,
    matching,
    pairs,
)

RESOURCE_NAMES = (  # of its device configuration, pkg/device/nvidia, NvidiaConfig
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
    for key, value in found:
        (_FACTOR if key == FACTOR_NAME else RESOURCE).read(value)
    return found


HAMI = ValueKind(_read, _PAIRS.allowed, many=True, pairs=True)


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The cluster: pods, and what they were allotted."""

    __slots__ = ()

    pods_source: Annotated[
        str,
        Setting(
            "pods.source",
            choice("auto", "api", "kubelet", "files", "none"),
            "auto",
            "Where pods are learnt of: the API server, this node's kubelet, or the names of log "
            "files. auto takes the first of them that is up, and goes back to a better one.",
            "An outage of the API server then costs no names. Files tell names only, no limits and "
            "no labels. Without names, use is accounted to groups by pod uid.",
        ),
    ]
    pods_labels: Annotated[
        tuple[str, ...],
        Setting(
            "pods.labels",
            many(KEY),
            "",
            "Pod labels to show on mgpu_pod_info, named as kube-state-metrics names them.",
            "None by default: each is one more label on a series. At most 64 of a pod are shown, "
            "the first by name.",
            live=True,
        ),
    ]
    pods_annotations: Annotated[
        tuple[str, ...],
        Setting(
            "pods.annotations",
            many(KEY),
            "",
            "Pod annotations to show on mgpu_pod_info, as --pods.labels.",
            "Annotations can be long and secret: name those that you need. A value of more than "
            "256 characters is cut, and ends in an ellipsis.",
            live=True,
        ),
    ]
    pods_list_spread_ns: Annotated[
        int,
        Setting(
            "pods.list-spread",
            duration("0s", "5m"),
            "1s",
            "For up to how long, at random, a list of pods waits: at the start, and when the watch "
            "has lost its place.",
            "So that a fleet does not list in step after its API server came back. docs/scaling.md "
            "says how much suits how many nodes. Names come from the kubelet or from files "
            "meanwhile, where those are there.",
        ),
    ]
    pods_claims: Annotated[
        str,
        Setting(
            "pods.claims",
            choice("auto", "off"),
            "auto",
            "Whether the API server is asked for the devices of ResourceClaims (DRA); auto does "
            "where a pod of this node refers to one.",
            "It needs a permission of its own: resourceclaims get, resourceslices list.",
        ),
    ]
    kubelet_pod_resources_socket: Annotated[
        str,
        Setting(
            "kubelet.pod-resources-socket",
            SOCKET,
            "auto",
            "Socket of the kubelet's PodResources, which tells the devices of each container; auto "
            "takes /var/lib/kubelet/pod-resources/kubelet.sock if its folder is there.",
            "Needs the package grpcio, the extra `podresources`.",
        ),
    ]
    kubeconfig: Annotated[
        str, Setting("kubeconfig", TEXT, "", "kubeconfig file; in-cluster if not set.")
    ]
    kubelet_address: Annotated[
        str,
        Setting(
            "kubelet.address",
            ORIGIN,
            "",
            "Address of this node's kubelet; https at port 10250 of $NODE_IP, else of 127.0.0.1, "
            "if not set.",
            "A pod with a network of its own reaches its node by the node's address only "
            "(status.hostIP). The read-only port (http, 10255) must be asked for: where the "
            "kubelet leaves it alone, any pod with the host's network may answer there. No token "
            "is sent to it.",
        ),
    ]
    kubelet_ca_file: Annotated[
        str,
        Setting(
            "kubelet.ca-file",
            OPTIONAL_PATH,
            "",
            "Authority of the kubelet's certificate; the cluster's if not set.",
            "Most kubelets sign their own (kubelet.crt in /var/lib/kubelet/pki).",
        ),
    ]
    kubelet_insecure_tls: Annotated[
        bool,
        Setting(
            "kubelet.insecure-tls",
            SWITCH,
            "false",
            "Take any certificate of the kubelet.",
            "The token of the ServiceAccount then goes to whoever answers at that address; "
            "metrics-server has the same switch, for the same self-signed certificates.",
        ),
    ]
    node_name: Annotated[
        str,
        Setting(
            "node.name",
            TEXT,
            "",
            "Name of this node in the cluster; $NODE_NAME, else the host name, if not set.",
            "Only this node's pods are asked for.",
        ),
    ]
    allocations_schemes: Annotated[
        tuple[SchemeDescription, ...],
        Setting(
            "allocations.schemes",
            SCHEMES,
            "",
            "Sharing systems of your own, described by their resources and annotations.",
            "They are read before the shipped ones, and cost no code.",
            live=True,
        ),
    ]
    allocations_index_basis: Annotated[
        tuple[tuple[str, str], ...],
        Setting(
            "allocations.index-basis",
            pairs(
                SCHEME_NAME,
                choice("nvml_index", "minor", "pci"),
                "SCHEME=BASIS, where BASIS is one of nvml_index, minor, pci",
            ),
            "",
            "What a sharing system's card numbers mean on this node, other than is taken.",
            "The three numberings differ on some nodes, and not every system says which it means; "
            "a wrong one shows as mgpu_container_placement_mismatch.",
            live=True,
        ),
    ]
    allocations_hami: Annotated[
        tuple[tuple[str, str], ...],
        Setting(
            "allocations.hami",
            HAMI,
            "",
            "HAMi's resource names and memory factor, where its device configuration (`nvidia:`) "
            "has others than its own; by the keys that it has there.",
            "A pod is HAMi's by its resources; one with HAMi's annotation is found by that too.",
            live=True,
        ),
    ]
