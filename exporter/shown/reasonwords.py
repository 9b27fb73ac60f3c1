"""Why something is not measured or has no owner, and what to do: one sentence each.

docs/troubleshooting.md has advice. Pure.
"""

from collections.abc import Mapping

from exporter.model import SourceStatus, Unattributed, Unmeasured

UNMEASURED: Mapping[Unmeasured, str] = {
    Unmeasured.NOT_SUPPORTED: "The driver does not report this for this device.",
    Unmeasured.NO_PERMISSION: "The driver refuses it to this process; run as root.",
    Unmeasured.DRIVER_TOO_OLD: "The driver's library lacks the function; upgrade the driver.",
    Unmeasured.GPU_LOST: "The device has fallen off the bus, or needs a reset; look for Xid in the "
    "kernel's log.",
    Unmeasured.DRIVER_STUCK: "A call for this device has not come back; most often the driver must "
    "be reset.",
    Unmeasured.RELEASED: "The driver was released on request; SIGUSR2 opens it again.",
    Unmeasured.READ_FAILED: "A read failed; the log has the error. It is tried again each cycle.",
    Unmeasured.MIG: "Under MIG this is only measured for each instance; read the instances.",
    Unmeasured.PARTITIONED: "The board is partitioned: read its partitions, whose energy is the "
    "board's.",
    Unmeasured.MODULE: "The driver counts power and energy of all dies of a module on its first.",
    Unmeasured.MPS: "Clients of several owners share the MPS server, and the driver names "
    "the server alone.",
    Unmeasured.NEVER_IDLE: "The board's idle power is not known until it was idle for 5 s.",
    Unmeasured.ASLEEP: "The board sleeps, and reading it would wake it.",
    Unmeasured.REJECTED_SAMPLES: "The driver's rows are implausible, so all of them are rejected.",
    Unmeasured.NOT_NAMED: "The device has been busy for some time, and the driver names no process "
    "that works.",
    Unmeasured.NO_HOSTPID: "The exporter does not see the node's processes; set hostPID: true.",
    Unmeasured.NO_CGROUPS: "No cgroup file system was found; mount the node's /sys/fs/cgroup.",
    Unmeasured.CONTAINER_PENDING: "The pod's status does not name its container's id yet; that "
    "takes a second or two.",
    Unmeasured.CONTAINER_UNKNOWN: "No status of the pod names the container of its processes, as "
    "in a sandbox (gVisor, Kata): what they use is the pod's.",
    Unmeasured.POD_UNKNOWN: "The pod's name is not known, so its limits are not either.",
    Unmeasured.PLACEMENT: "Its sharing system does not name the device of its share, and none of "
    "its processes was seen yet.",
    Unmeasured.ALLOCATION_PENDING: "What its pod asks for takes long to read; that is not done "
    "yet.",
    Unmeasured.ALLOCATION_OVER_LIMIT: "Its pod, or its namespace, has more allocations than are "
    "kept; the log names the pod.",
}

UNATTRIBUTED: Mapping[Unattributed, str] = {
    Unattributed.HOST_PROCESS: "Processes of the host, in no container.",
    Unattributed.UNKNOWN_CGROUP: "Processes whose cgroup could not be read.",
    Unattributed.EXITED: "Processes that had ended before their container could be found.",
    Unattributed.NO_PID: "Use for which the driver names no process.",
    Unattributed.IDLE: "Energy that the board would have used without work.",
    Unattributed.UNOBSERVED: "Energy of time in which the device was not watched.",
    Unattributed.OVERLAP: "Memory that processes share and the driver counts for each of them.",
    Unattributed.MIG: "An instance that several containers share.",
    Unattributed.PARTITIONED: "The energy of all partitions of a board together.",
    Unattributed.MODULE: "The energy of all dies of a module together.",
    Unattributed.MPS: "Credited to the MPS server, which works for clients of several owners.",
}


def words() -> dict[str, dict[str, str]]:
    """The texts of all reasons, by the codes in documents."""
    return {
        "unmeasured": {str(reason): text for reason, text in UNMEASURED.items()},
        "unattributed": {str(reason): text for reason, text in UNATTRIBUTED.items()},
    }


def process_type(kinds: frozenset[str]) -> str:
    """The type as nvidia-smi shows it: C computes, G draws, C+G both, M+C is a client of MPS."""
    computes = "M+C" if "mps" in kinds else "C" if kinds & {"compute", "mps_server"} else ""
    draws = "G" if "graphics" in kinds else ""
    return "+".join(filter(None, (computes, draws)))


_DRIVER = (
    "The driver's library was not found, the kernel module is not loaded, or every device hangs. "
    "In a container, the driver's libraries and device files must be mounted (NVIDIA container "
    "toolkit, or --nvml.library). The exporter keeps looking for it; no restart is needed."
)
_AMD = (
    "No amdgpu or KFD module is loaded, the host's sysfs is not where --path.sysfs says, or every "
    "board hangs: see the kernel log for amdgpu. The exporter keeps looking for it; no restart is "
    "needed."
)
_CGROUPS = (
    "hostPID: true is missing in the pod, or the node's /sys/fs/cgroup is not mounted. Devices go "
    "on meanwhile; containers, pods and namespaces are withheld."
)
_API = (
    "The API server does not answer, or the ServiceAccount may not get, list and watch pods: give "
    "it the ClusterRole. Names are the last known ones meanwhile, and new pods are groups."
)
_BY_NAME = {
    "nvml": _DRIVER,
    "amd": _AMD,
    "cgroups": _CGROUPS,
    "pods_api": _API,
    "simulated": "The scenario's driver was released by SIGUSR2; another SIGUSR2 opens it again.",
}
_BY_REASON = {
    Unmeasured.RELEASED: "The driver was released on request. SIGUSR2 opens it again.",
    Unmeasured.NO_HOSTPID: "Set hostPID: true in the exporter's pod.",
    Unmeasured.NO_CGROUPS: "Mount the node's /sys/fs/cgroup read-only, or set --path.cgroup.",
}
_OTHERWISE = "See the exporter's log; the source is polled again in each cycle."


def what_to_do(source: SourceStatus) -> str:
    """Advice for a source that is down, as in docs/troubleshooting.md; "" if it is up."""
    if source.up:
        return ""
    by_reason = _BY_REASON.get(source.reason) if source.reason else None
    return by_reason or _BY_NAME.get(source.name, _OTHERWISE)
