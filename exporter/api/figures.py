"""Rows as JSON objects: the values of a row by the names of the metric table, in base units.

What the reasons mean, in a sentence each; docs/troubleshooting.md says what to do.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from exporter.metrics.families import FAMILIES, Family
from exporter.model import Labelled, Number, Row, Unattributed, Unmeasured

Json = dict[str, Any]

FLAGS = frozenset({"up", "simulated", "placement_mismatch"})  # 0 and 1 mean false and true
ONE = frozenset({"info", "build_info", "config_info", "method_info"})  # one set of labels at most
LISTED = frozenset({"unmeasured", "allocation_info"})  # nothing but labels, of several


class Figures:
    """Turns the rows of each level into objects."""

    def __init__(self, families: Sequence[Family] = FAMILIES) -> None:
        self._levels: dict[str, list[Family]] = {}
        for family in families:
            self._levels.setdefault(family.level, []).append(family)

    def of(self, level: str, row: Row) -> Json:
        """What is known of the row, in the order of the table."""
        made: Json = {}
        for family in self._levels.get(level, ()):
            value = row.values.get(family.name)
            if isinstance(value, Mapping):
                made |= _labelled(family, value)
            elif value is not None:
                made |= _plain(family, value)
        return made


def is_ended(row: Row, beside: Collection[str] = ()) -> bool:
    """Whether the owner has gone, and nothing but its counters is shown for a while.

    ``beside`` are the families that go on with the counters.
    """
    return all(name.endswith("_total") or name in beside for name in row.values)


def _plain(family: Family, value: Number) -> Json:
    number = in_base_units(value, family.divisor)
    if number is None:
        return {}
    return {family.name: bool(number) if family.name in FLAGS else number}


def _labelled(family: Family, value: Labelled) -> Json:
    labels: Iterator[Json] = (dict(zip(family.labels, key, strict=True)) for key in value)
    if family.name in ONE:
        one = _said(next(iter(labels), {}))
        return {family.name: one} if one else {}
    if family.name in LISTED:
        listed = [_said(each) for each in labels]
    else:
        numbers = (in_base_units(number, family.divisor) for number in value.values())
        pairs = zip(labels, numbers, strict=True)
        listed = [{**own, "value": number} for own, number in pairs if number is not None]
    return {family.name: listed} if listed else {}


def _said(labels: Mapping[str, str]) -> Json:
    return {name: value for name, value in labels.items() if value}


def in_base_units(number: Number, divisor: int) -> Number | None:
    """None for what JSON cannot say."""
    if divisor == 1 and isinstance(number, int):
        return number
    real = number / divisor
    return real if isfinite(real) else None


UNMEASURED: Mapping[Unmeasured, str] = {
    Unmeasured.NOT_SUPPORTED: "The driver does not tell this of this device.",
    Unmeasured.NO_PERMISSION: "The driver refuses it to this process; run as root.",
    Unmeasured.DRIVER_TOO_OLD: "The driver's library lacks the function; upgrade the driver.",
    Unmeasured.GPU_LOST: "The device has fallen off the bus, or needs a reset; look for Xid in the "
    "kernel's log.",
    Unmeasured.DRIVER_STUCK: "A call for this device has not come back; most often the driver must "
    "be reset.",
    Unmeasured.RELEASED: "The exporter was told to let go of the driver; SIGUSR2 takes it up.",
    Unmeasured.READ_FAILED: "A read failed; the log has the error. It is tried again each cycle.",
    Unmeasured.MIG: "Under MIG this cannot be told apart; read the instances.",
    Unmeasured.PARTITIONED: "The board is partitioned: read its partitions, whose energy is the "
    "board's.",
    Unmeasured.MPS: "A client of MPS that no sample has named while the device was busy.",
    Unmeasured.NEVER_IDLE: "What the board uses idle is not known before it was idle for 5 s.",
    Unmeasured.ASLEEP: "The board sleeps, and is not woken to be asked.",
    Unmeasured.REJECTED_SAMPLES: "The driver's rows cannot be true, so none of them is believed.",
    Unmeasured.NOT_NAMED: "The device has been busy for some time, and the driver names no process "
    "that works.",
    Unmeasured.NO_HOSTPID: "The exporter does not see the node's processes; set hostPID: true.",
    Unmeasured.NO_CGROUPS: "There is no cgroup file system where it is looked for; mount the "
    "node's /sys/fs/cgroup.",
    Unmeasured.CONTAINER_PENDING: "The pod's status does not name its container's id yet; that "
    "takes a second or two.",
    Unmeasured.POD_UNKNOWN: "The pod's name is not known, so its limits are not either.",
    Unmeasured.PLACEMENT: "Its sharing system does not say on which device its share is, and none "
    "of its processes was seen yet.",
}

UNATTRIBUTED: Mapping[Unattributed, str] = {
    Unattributed.HOST_PROCESS: "Processes of the host, in no container.",
    Unattributed.UNKNOWN_CGROUP: "Processes whose cgroup could not be read.",
    Unattributed.EXITED: "Processes that had ended before their container could be found.",
    Unattributed.NO_PID: "In use, and the driver names no process for it.",
    Unattributed.IDLE: "Energy that the board would have used without work.",
    Unattributed.UNOBSERVED: "The driver had dropped the samples before they were read.",
    Unattributed.OVERLAP: "Memory that processes share, and the driver counts with each of them.",
    Unattributed.MIG: "An instance that several containers share.",
    Unattributed.PARTITIONED: "The energy of all partitions of a board together.",
    Unattributed.MPS: "Credited to the MPS server, which works for all its clients.",
}


def words() -> dict[str, dict[str, str]]:
    """Both lists, by the codes that stand in documents."""
    return {
        "unmeasured": {str(reason): text for reason, text in UNMEASURED.items()},
        "unattributed": {str(reason): text for reason, text in UNATTRIBUTED.items()},
    }
