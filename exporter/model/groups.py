"""What groups are called: names for people, beside the keys that counters stand under."""

from dataclasses import dataclass
from typing import NamedTuple

from exporter.model.processes import CgroupIdentity


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What is known of a group; "" is not known.

    ``name``: what people call it. ``user``: whose it is. ``account``: what Slurm charges.
    """

    name: str = ""
    user: str = ""
    account: str = ""
    slurm_job: str = ""
    slurm_step: str = ""


class GroupMember(NamedTuple):
    """One process of a group, by which the group can be looked up."""

    pid: int
    identity: CgroupIdentity
