"""Which sources tell what groups are called, by the settings."""

from exporter.groups.containers import NONE, Containers
from exporter.groups.owners import Owners
from exporter.groups.source import GroupSource


def open_groups(
    sockets: tuple[str, ...], passwd: str, proc_root: str, *, accounts: bool
) -> tuple[GroupSource, ...]:
    """Make the sources; none is started. "none" among the sockets is none of them."""
    owners = Owners(passwd, proc_root, accounts=accounts)
    return (owners,) if NONE in sockets else (owners, Containers(sockets))
