"""Settings of measuring, of the settings file and the log, and of the served metrics."""

from dataclasses import dataclass

from exporter.inputs.valuekinds import duration
from exporter.inputs.values import SWITCH, TEXT, choice, count, many, matching, setting
from exporter.metrics.families import FAMILIES, OFF_BY_DEFAULT, OPTIONAL_GROUPS, OWN_LEVEL
from exporter.metrics.profiles import PROFILES, left_out

MPS_HOST = matching(
    r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?|[A-Za-z0-9:_.@\\-]{1,120}\.service",
    "a namespace, or a unit of systemd such as nvidia-mps.service",
)


@dataclass(frozen=True, kw_only=True)
class MeasuringSettings:
    """Measuring and accounting."""

    __slots__ = ()

    collection_interval_ns: int = setting(
        "collection.interval",
        duration("100ms", "5s"),
        "1s",
        "Time from one collection cycle to the next.",
        live=True,
    )
    collection_samples_interval_ns: int = setting(
        "collection.samples-interval",
        duration("100ms", "60s"),
        "5s",
        "Time from one reading of samples and energy to the next; 2s at most while somebody looks.",
        "At most a third of the ring or of collection.window; collection.interval, if only that "
        "is given.",
        live=True,
    )
    collection_window_ns: int = setting(
        "collection.window",
        duration("1s", "10m"),
        "15s",
        "Time over which the _ratio and _gpus gauges are averaged.",
        "The counters do not depend on it.",
        live=True,
    )
    collection_processes_interval_ns: int = setting(
        "collection.processes-interval",
        duration("1s", "60s"),
        "5s",
        "Time from one list of a device's processes and their memory to the next.",
        "A list locks the driver for all its users.",
        live=True,
    )
    collection_sensors_interval_ns: int = setting(
        "collection.sensors-interval",
        duration("1s", "60s"),
        "5s",
        "Time from one reading of power, temperature and clocks to the next.",
        live=True,
    )
    collection_mps_servers: tuple[str, ...] = setting(
        "collection.mps-servers",
        many(MPS_HOST),
        "gpu-operator,nvidia-gpu-operator,nvidia-device-plugin,nvidia-dra-driver-gpu,"
        "kube-system,nvidia-mps.service",
        "Namespaces and systemd units whose MPS servers work for others, as root's do: their "
        "use is that of the only owner of clients, or unattributed.",
        "A tenant who may run programs there could hide his use.",
        live=True,
    )
    energy_idle: str = setting(
        "energy.idle",
        choice("unattributed", "equal", "allocation"),
        "unattributed",
        "Who is charged for the energy that a board uses without work: nobody; equally the owners "
        "that hold memory on it; or the owners of allocations, by their share of its core.",
        "What is not allocated stays unattributed.",
    )
    ledger_retention_ns: int = setting(
        "ledger.retention",
        duration("0s", "24h"),
        "5m",
        "How long a container's counters are served after it ended: longer than a scrape interval.",
        live=True,
    )


@dataclass(frozen=True, kw_only=True)
class GeneralSettings:
    """The settings file and the log."""

    __slots__ = ()

    config_file: str = setting(
        "config.file",
        TEXT,
        "",
        "YAML file with settings, by the names of the flags (docs/rules.md).",
    )
    log_level: str = setting(
        "log.level",
        choice("debug", "info", "warning", "error"),
        "info",
        "Lowest level that is logged.",
        live=True,
    )
    log_format: str = setting(
        "log.format",
        choice("logfmt", "json"),
        "logfmt",
        "Format of the log lines.",
        "Commands other than serve write plain messages for logfmt.",
        live=True,
    )


_FAMILIES = tuple(family.full_name for family in FAMILIES if family.level != OWN_LEVEL)


_CHOICE = choice(
    *(*OPTIONAL_GROUPS, *_FAMILIES),
    allowed=f"a group ({', '.join(OPTIONAL_GROUPS)}) or the name of a family such as "
    "mgpu_container_processes",
)


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    """What is served."""

    __slots__ = ()

    @property
    def metrics_left_out(self) -> frozenset[str]:
        """Full names of the families that are not served."""
        return left_out(self.metrics_profile, self.metrics_enable, self.metrics_disable)

    @property
    def documents_left_out(self) -> frozenset[str]:
        """As ``metrics_left_out`` for JSON, which costs no Prometheus its series."""
        wanted = (*self.metrics_enable, *OFF_BY_DEFAULT)
        return left_out(self.metrics_profile, wanted, self.metrics_disable)

    metrics_profile: str = setting(
        "metrics.profile",
        choice(*PROFILES, allowed="minimal or full (standard is gone: full has all of it)"),
        "full",
        "Which families are served: minimal (who uses how much, what was allocated, energy) or "
        "full.",
        "What it leaves out costs no driver call (docs/scaling.md).",
        live=True,
    )
    metrics_enable: tuple[str, ...] = setting(
        "metrics.enable",
        many(_CHOICE),
        "",
        "Groups and single families to serve beside those of metrics.profile.",
        live=True,
    )
    metrics_disable: tuple[str, ...] = setting(
        "metrics.disable",
        many(_CHOICE),
        "",
        "Groups and single families to leave out.",
        "A group that is off costs no driver call.",
        live=True,
    )
    metrics_created: bool = setting(
        "metrics.created",
        SWITCH,
        "false",
        "Serve the start time of each counter, so that nothing is lost at its first scrape.",
        "Only for a Prometheus that takes start times (docs/metrics.md).",
        live=True,
    )
    metrics_max_series_per_family: int = setting(
        "metrics.max-series-per-family",
        count(1, 1_000_000),
        "10000",
        "Most series that one family may have.",
        "Others are left out and counted in mgpu_exporter_dropped_series_total.",
        live=True,
    )
    metrics_pod_uid: tuple[str, ...] = setting(
        "metrics.pod-uid",
        many(choice("pod_uid", "uid")),
        "",
        "Labels that hold the pod's UID on series of --compat=dcgm.",
        "Every pod that is created again has new series then.",
        rare=True,
        live=True,
    )
    compat: tuple[str, ...] = setting(
        "compat",
        many(
            choice(
                *("dcgm", "dcgm-4.9", "opencost"),
                *("hami", "hami-legacy", "elastic-gpu", "gpu-manager"),
            )
        ),
        "",
        "Other exporters whose names, labels and units are served as well.",
        "See docs/compatibility.md.",
        live=True,
    )
