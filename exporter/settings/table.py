"""Every setting once: flag, environment variable and YAML key, kind, default, meaning, why."""

from dataclasses import dataclass, fields
from typing import Annotated, get_type_hints

from exporter.families import OPTIONAL_GROUPS
from exporter.model import SchemeDescription
from exporter.settings.hami import HAMI
from exporter.settings.schemes import SCHEME_NAME, SCHEMES
from exporter.settings.values import (
    ADDRESS,
    KEY,
    OPTIONAL_PATH,
    ORIGIN,
    PATH,
    SOCKET,
    SWITCH,
    TEXT,
    URL_PATH,
    Address,
    Kind,
    choice,
    count,
    duration,
    many,
    pairs,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``name`` is the flag without dashes and the YAML key; ``default`` its text."""

    name: str
    kind: Kind[object]
    default: str
    about: str
    why: str = ""

    @property
    def variable(self) -> str:
        """The environment variable, e.g. ``MGPU_WEB_LISTEN_ADDRESS``."""
        return "MGPU_" + self.name.upper().replace(".", "_").replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force. Durations are nanoseconds; what is not set is "", or () of several."""

    web_listen_address: Annotated[
        tuple[Address, ...],
        Setting("web.listen-address", many(ADDRESS), ":10045", "Addresses to listen on."),
    ]
    web_telemetry_path: Annotated[
        str, Setting("web.telemetry-path", URL_PATH, "/metrics", "Path of the metrics.")
    ]
    web_max_requests: Annotated[
        int,
        Setting(
            "web.max-requests",
            count(1, 10_000),
            "40",
            "Requests served at once; more are answered 503.",
            "Health checks do not count. node_exporter has the same default.",
        ),
    ]
    web_config_file: Annotated[
        str,
        Setting(
            "web.config.file",
            TEXT,
            "",
            "File with TLS, client certificates, users, headers and a rate limit, in "
            "exporter-toolkit's form (docs/security.md).",
            "Read again when it or a certificate that it names has changed.",
        ),
    ]
    web_open_page: Annotated[
        bool,
        Setting(
            "web.open-page",
            SWITCH,
            "false",
            "Serve the live page and its JSON to everybody.",
            "They name every pod on the node and its processes. Without this they are served to "
            "users of --web.config.file, and on loopback addresses and Unix sockets.",
        ),
    ]
    web_enable_lifecycle: Annotated[
        bool,
        Setting(
            "web.enable-lifecycle",
            SWITCH,
            "false",
            "Read the settings file again on POST /-/reload.",
            "Off as in Prometheus: whoever reaches the listener could ask for it.",
        ),
    ]
    config_file: Annotated[
        str,
        Setting(
            "config.file",
            TEXT,
            "",
            "YAML file with settings, by the names of the flags; read at the start.",
            "Flags and environment variables go before it.",
        ),
    ]
    path_cgroup: Annotated[
        str,
        Setting(
            "path.cgroup",
            OPTIONAL_PATH,
            "",
            "Root of the cgroup file system; fs/cgroup below --path.sysfs if not set.",
            "In a container the host's is mounted elsewhere.",
        ),
    ]
    path_procfs: Annotated[
        str, Setting("path.procfs", PATH, "/proc", "Root of the host's proc file system.")
    ]
    path_sysfs: Annotated[
        str, Setting("path.sysfs", PATH, "/sys", "Root of the host's sys file system.")
    ]
    path_logs: Annotated[
        str,
        Setting(
            "path.logs",
            PATH,
            "/var/log",
            "Where the host's pods and containers directories of log files are.",
            "Their names are read, never the logs.",
        ),
    ]
    gpus_source: Annotated[
        tuple[str, ...],
        Setting(
            "gpus.source",
            many(choice("auto", "nvml", "simulated")),
            "auto",
            "How GPUs are read; auto takes every real source that is found.",
            "auto never simulates: a figure that is not measured must be asked for.",
        ),
    ]
    nvml_library: Annotated[
        str,
        Setting(
            "nvml.library",
            TEXT,
            "",
            "Path of libnvidia-ml.so.1; searched where container toolkits put it if not set.",
        ),
    ]
    nvml_shares: Annotated[
        str,
        Setting(
            "nvml.shares",
            choice("auto", "samples", "accounting"),
            "auto",
            "What tells each process's share of a device; auto takes samples.",
            "accounting needs driver 610, accounting mode, and processes that began after it was "
            "switched on; a window that it cannot tell of is shared by samples.",
        ),
    ]
    nvml_enable_accounting: Annotated[
        bool,
        Setting(
            "nvml.enable-accounting",
            SWITCH,
            "false",
            "Switch the driver's accounting mode on, on every device. Needs root.",
            "It changes the driver for everybody, until it is unloaded; so it is asked for.",
        ),
    ]
    nvml_released: Annotated[
        bool,
        Setting(
            "nvml.released",
            SWITCH,
            "false",
            "Start with the driver let go of.",
            "An open driver cannot be unloaded or upgraded. SIGUSR2 lets go of it, or takes it "
            "up again, while the exporter runs.",
        ),
    ]
    simulate: Annotated[
        str,
        Setting(
            "simulate",
            TEXT,
            "",
            "Simulate a whole node: a shipped scenario's name, or a file (docs/scenarios.md).",
            "Devices, processes and pods are then all simulated, and every page says so.",
        ),
    ]
    simulate_start: Annotated[
        int,
        Setting(
            "simulate.start",
            count(0, 9_999_999_999),
            "0",
            "Unix time in seconds at which the scenario begins, at most an hour back; 0 is now.",
            "Two exporters with the same scenario and start simulate the same node.",
        ),
    ]
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
            "Needs the package grpcio: mgpu-exporter[podresources].",
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
    collection_interval_ns: Annotated[
        int,
        Setting(
            "collection.interval",
            duration("100ms", "5s"),
            "1s",
            "Time from one collection cycle to the next.",
            "The driver keeps samples for a few seconds only; what falls out is unobserved.",
        ),
    ]
    collection_window_ns: Annotated[
        int,
        Setting(
            "collection.window",
            duration("1s", "10m"),
            "15s",
            "Time that the _ratio and _gpus gauges are averaged over.",
            "The counters do not depend on it.",
        ),
    ]
    collector_disable: Annotated[
        tuple[str, ...],
        Setting(
            "collector.disable",
            many(choice(*OPTIONAL_GROUPS)),
            "",
            "Groups of device metrics to leave out, with the driver calls that they take.",
            "For a driver or a board that answers one of them slowly. What the accounts need "
            "cannot be left out.",
        ),
    ]
    compat: Annotated[
        tuple[str, ...],
        Setting(
            "compat",
            many(choice("dcgm", "hami", "hami-legacy", "elastic-gpu", "gpu-manager")),
            "",
            "Other exporters whose names, labels and units are served as well.",
            "For dashboards, rules and autoscalers that still ask for them: see compatibility.md.",
        ),
    ]
    energy_idle: Annotated[
        str,
        Setting(
            "energy.idle",
            choice("unattributed", "equal", "allotment"),
            "unattributed",
            "Whom the energy is charged to that a board uses without work: nobody; those who hold "
            "memory on it, in equal parts; or those who were allotted its core, by their share.",
            "What nobody was allotted stays unattributed. The parts always add up to the board's "
            "counter.",
        ),
    ]
    ledger_retention_ns: Annotated[
        int,
        Setting(
            "ledger.retention",
            duration("0s", "24h"),
            "5m",
            "Time that a container's counters are served after it ended.",
            "Longer than a scrape interval, so that its last seconds are scraped.",
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
        ),
    ]
    log_level: Annotated[
        str,
        Setting("log.level", choice("debug", "info", "warning", "error"), "info", "Least level."),
    ]
    log_format: Annotated[
        str, Setting("log.format", choice("logfmt", "json"), "logfmt", "Form of the log lines.")
    ]


def _table() -> dict[str, Setting]:
    hints = get_type_hints(Settings, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in fields(Settings)}


TABLE = _table()
"""Field name → setting, in the order of the documentation."""
