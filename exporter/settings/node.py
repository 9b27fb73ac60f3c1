"""Settings: this node and its GPUs.

Settings: groups off Kubernetes.
"""

from dataclasses import dataclass
from typing import Annotated

from exporter.settings.values import (
    OPTIONAL_PATH,
    PATH,
    SOCKET,
    SWITCH,
    TEXT,
    Setting,
    choice,
    count,
    many,
)

GPU_SOURCES = ("auto", "nvml", "amd", "drm", "simulated")


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """This node and its GPUs."""

    __slots__ = ()

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
            many(choice(*GPU_SOURCES)),
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
    drm_wake: Annotated[
        bool,
        Setting(
            "drm.wake",
            SWITCH,
            "false",
            "Whether Intel's and AMD's devices may be woken, and kept awake, by being read.",
            "Intel's xe has to be awake to tell, and AMD's boards to tell of power and clocks. "
            "Without this they are let sleep: what they did just before is told when they wake.",
            live=True,
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


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """Groups: containers, jobs, units and users off Kubernetes."""

    __slots__ = ()

    groups_sockets: Annotated[
        tuple[str, ...],
        Setting(
            "groups.sockets",
            many(SOCKET),
            "auto",
            "Sockets of Docker and Podman that are asked for containers' names; auto takes the "
            "usual ones of the machine, and of each user who runs containers, as far as the "
            "exporter may use them.",
            "Who may use Docker's socket may do anything on the machine: give it to the exporter "
            "only where names are worth that. Without them containers stand under their ids.",
        ),
    ]
    groups_slurm: Annotated[
        str,
        Setting(
            "groups.slurm",
            choice("job", "step"),
            "job",
            "Whether a group is a Slurm job as a whole or each of its steps.",
            "A job's counters are what is charged for; steps make more series.",
        ),
    ]
    groups_slurm_account: Annotated[
        bool,
        Setting(
            "groups.slurm-account",
            SWITCH,
            "false",
            "Show a Slurm job's account, by SLURM_JOB_ACCOUNT of its process.",
            "It takes the right to read other users' processes (CAP_DAC_READ_SEARCH, "
            "CAP_SYS_PTRACE), and a user can write anything there; sacct knows the account of "
            "each job for certain.",
        ),
    ]
    path_passwd: Annotated[
        str,
        Setting(
            "path.passwd",
            PATH,
            "/etc/passwd",
            "File with the names of the host's users, in the form of passwd(5).",
            "In a container the host's is mounted elsewhere. Where users come from a directory "
            "server, have getent passwd write a file.",
        ),
    ]
