"""Settings: groups off Kubernetes."""

from dataclasses import dataclass
from typing import Annotated

from exporter.settings.setting import Setting
from exporter.settings.values import PATH, SOCKET, SWITCH, choice, many


@dataclass(frozen=True, kw_only=True)
class Groups:
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
