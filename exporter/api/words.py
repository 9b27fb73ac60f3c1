"""What the reasons mean, in a sentence each; docs/troubleshooting.md says what to do."""

from collections.abc import Mapping

from exporter.model import Unattributed, Unmeasured

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
