"""What to do about a source that is down, in words; docs/troubleshooting.md says more."""

from exporter.model import SourceStatus, Unmeasured

_DRIVER = (
    "The driver's library was not found, the kernel module is not loaded, or every device hangs. "
    "In a container, the driver's libraries and device files must be mounted (NVIDIA container "
    "toolkit, or --nvml.library). It is looked for again and again; no restart is needed."
)
_AMD = (
    "No amdgpu or KFD module is loaded, the host's sysfs is not where --path.sysfs says, or every "
    "board hangs: see the kernel log for amdgpu. It is looked for again and again; no restart is "
    "needed."
)
_AMD_SMI = (
    "AMD's library was asked for (--amd.smi) and cannot be used. No figure needs it: mount the "
    "host's /opt/rocm/lib and give the container /dev/kfd and /dev/dri/renderD*, or set "
    "--amd.smi=off."
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
    "amdsmi": _AMD_SMI,
    "cgroups": _CGROUPS,
    "pods_api": _API,
    "simulated": "The scenario's driver was let go of (SIGUSR2); SIGUSR2 takes it up again.",
}
_BY_REASON = {
    Unmeasured.RELEASED: "The exporter was told to let go of the driver. SIGUSR2 takes it up "
    "again.",
    Unmeasured.NO_HOSTPID: "Set hostPID: true in the exporter's pod.",
    Unmeasured.NO_CGROUPS: "Mount the node's /sys/fs/cgroup read-only, or set --path.cgroup.",
}
_OTHERWISE = "See the exporter's log; it is asked again in each cycle."


def what_to_do(source: SourceStatus) -> str:
    """What helps a source that is down; "" for one that is up."""
    if source.up:
        return ""
    by_reason = _BY_REASON.get(source.reason) if source.reason else None
    return by_reason or _BY_NAME.get(source.name, _OTHERWISE)
