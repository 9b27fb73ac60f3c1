"""Settings of this node and its GPUs, and of groups outside Kubernetes."""

from dataclasses import dataclass

from exporter.agent.settings.sitegroups import PATTERNS
from exporter.inputs.values import (
    OPTIONAL_PATH,
    PATH,
    SOCKET,
    SWITCH,
    TEXT,
    choice,
    count,
    many,
    setting,
)
from exporter.model import GroupPattern

GPU_SOURCES = ("auto", "nvml", "amd", "drm", "simulated")


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """This node and its GPUs."""

    __slots__ = ()

    path_cgroup: str = setting(
        "path.cgroup",
        OPTIONAL_PATH,
        "",
        "Root of the cgroup file system; if not set, fs/cgroup below --path.sysfs.",
        "In a container the host's is mounted elsewhere.",
    )
    path_procfs: str = setting("path.procfs", PATH, "/proc", "Root of the host's proc file system.")
    path_sysfs: str = setting("path.sysfs", PATH, "/sys", "Root of the host's sys file system.")
    path_logs: str = setting(
        "path.logs",
        PATH,
        "/var/log",
        "Folder of the host's log folders pods and containers.",
        "The names are read, never the logs.",
    )
    gpus_source: tuple[str, ...] = setting(
        "gpus.source",
        many(choice(*GPU_SOURCES)),
        "auto",
        "How GPUs are read; auto uses every real source that is found.",
    )
    nvml_library: str = setting(
        "nvml.library",
        TEXT,
        "",
        "Path of libnvidia-ml.so.1; if not set, it is searched where container toolkits put it.",
    )
    nvml_released: bool = setting(
        "nvml.released",
        SWITCH,
        "false",
        "Start with the driver released.",
        "SIGUSR2 opens it.",
    )
    drm_wake: bool = setting(
        "drm.wake",
        SWITCH,
        "false",
        "Whether reading may wake Intel's and AMD's devices and keep them awake.",
        live=True,
    )
    simulate: str = setting(
        "simulate",
        TEXT,
        "",
        "Simulate a whole node: a shipped scenario's name, or a file (docs/scenarios.md).",
    )
    simulate_start: int = setting(
        "simulate.start",
        count(0, 9_999_999_999),
        "0",
        "Unix time in seconds at which the scenario begins, at most an hour ago; 0 is now.",
        "Two exporters with the same scenario and start simulate the same node.",
        rare=True,
    )


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """Groups: containers, jobs, units and users outside Kubernetes."""

    __slots__ = ()

    groups_sockets: tuple[str, ...] = setting(
        "groups.sockets",
        many(SOCKET),
        "auto",
        "Sockets of Docker and Podman that are asked for containers' names; auto: the usual ones, "
        "also users' own, if it has access.",
        "Docker's socket gives full control of the machine.",
    )
    groups_slurm: str = setting(
        "groups.slurm",
        choice("job", "step"),
        "job",
        "Whether a group is a Slurm job as a whole or each of its steps.",
        "Steps make more series.",
    )
    groups_slurm_account: bool = setting(
        "groups.slurm-account",
        SWITCH,
        "false",
        "Show a Slurm job's account, from SLURM_JOB_ACCOUNT of its process.",
        "Users can write anything there. Needs CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE.",
    )
    groups_patterns: tuple[GroupPattern, ...] = setting(
        "groups.patterns",
        PATTERNS,
        "",
        "Cgroup paths of further batch systems, by which each job is a group.",
        "They go before the shipped ones.",
    )
    path_passwd: str = setting(
        "path.passwd",
        PATH,
        "/etc/passwd",
        "File with the names of the host's users, in the form of passwd(5).",
        "For users of a directory server, write the file with getent passwd.",
    )
