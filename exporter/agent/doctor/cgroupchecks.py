"""Checks of the cgroup file system and of ``/proc``."""

from collections.abc import Iterator
from pathlib import Path

from exporter.agent.collector.wiring import cgroup_root
from exporter.agent.doctor.evidence import CheckResult, ProbeResults, note, ok, problem
from exporter.agent.doctor.privileges import CGROUPS, HOST_PID
from exporter.agent.sources import door
from exporter.agent.sources.cgroups.cgrouptree import Hierarchy, find_hierarchy
from exporter.agent.sources.cgroups.walk import walk
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.proc import PidNamespaces, pid_namespaces
from exporter.model import Unmeasured
from exporter.shown.words import plural, some_of

MOST_DESCRIPTORS = 4096  # of a process
# Of the driver, of Tegra's (nvhost, nvgpu, nvmap), of DRM, and of WSL (dxg).
GPU_FILES = ("/dev/nvidia", "/dev/nvhost", "/dev/nvgpu", "/dev/nvmap", "/dev/dri/", "/dev/dxg")
_NO_CONTAINERS = (
    "on a machine without a container runtime that is as expected; in a pod only the pod's own "
    "cgroup namespace is visible: mount the node's /sys/fs/cgroup"
)


def cgroups(evidence: ProbeResults) -> Iterator[CheckResult]:
    """Hierarchy, driver, runtimes, and the node's processes."""
    if evidence.settings.simulate:
        return
    root = cgroup_root(evidence.settings)
    remedy = "mount the node's /sys/fs/cgroup into the pod, or set --path.cgroup"
    found = find_hierarchy(root)
    if not isinstance(found, Whole | Cut):
        yield problem("hierarchy", f"{root}: {door.why(found)}", remedy, CGROUPS)
    elif found.value is None:
        yield problem("hierarchy", f"{root} holds no cgroup hierarchy", remedy, CGROUPS)
    else:
        yield ok("hierarchy", f"cgroup {found.value.version}, walked in {found.value.root}")
        yield from _containers(found.value)
    yield _host_pid(evidence)
    if bystanders := sorted(_without_a_gpu(evidence)):
        yield note(
            "the driver's PIDs",
            "no file of a GPU is open in " + some_of([f"process {pid}" for pid in bystanders]),
            "NVIDIA's driver may number those of another PID namespace, so that bystanders have "
            "their use: run the exporter on the machine itself, or in a pod with hostPID",
        )


def _without_a_gpu(evidence: ProbeResults) -> Iterator[int]:
    """The processes that NVIDIA's driver lists, and that have no GPU open.

    Each client of the driver has. One whose descriptors cannot be read is none of these.
    """
    procfs = evidence.settings.path_procfs
    of_nvidia = [
        device.memory.processes or ()
        for reading in evidence.readings
        for device in reading.devices
        if device.device.vendor == "nvidia" and device.memory is not None
    ]
    for pid in {process.pid for processes in of_nvidia for process in processes}:
        match door.names(f"{procfs}/{pid}/fd", MOST_DESCRIPTORS):
            # Only a whole list proves that no GPU is open: one that was cut may lack just that
            # file.
            case Whole(descriptors) if descriptors:
                links = [door.link(f"{procfs}/{pid}/fd/{each}") for each in descriptors]
                known = [link.value for link in links if isinstance(link, Whole)]
                if known and not any(each.startswith(GPU_FILES) for each in known):
                    yield pid
            case Whole() | Cut() | Absent() | Refused() | Failed():
                pass


def _containers(hierarchy: Hierarchy) -> Iterator[CheckResult]:
    """Containers found by one walk, and the cgroup driver by the kubelet's directory names."""
    walked = walk(hierarchy.root)
    # A node that is itself a container (kind) has the kubelet's directories some levels deeper.
    patterns = (f"{'*/' * above}kubepods*" for above in range(6))
    kubelets = [p for each in patterns for p in Path(hierarchy.root).glob(each) if p.is_dir()]
    drivers = {"systemd" if path.suffix == ".slice" else "cgroupfs" for path in kubelets}
    pods = {one.pod_uid for one in walked.identities if one.pod_uid}
    found = [identity for identity in walked.by_container.values() if identity.pod_uid]
    outside = {o.container_id for o in walked.identities if o.container_id and not o.pod_uid}
    if drivers:
        yield ok("cgroup driver", " and ".join(sorted(drivers)))
    runtimes = sorted({identity.runtime or "unnamed" for identity in walked.by_container.values()})
    words = (
        f"{plural(len(pods), 'pod')} with {plural(len(found), 'container')}, "
        f"{plural(len(outside), 'container')} outside of pods"
    )
    if walked.by_container or pods:
        of = f" ({', '.join(runtimes)})" if runtimes else ""
        yield ok("containers", words + of)
    else:
        yield note("containers", "no pod and no container", _NO_CONTAINERS, CGROUPS)
    unreadable = walked.skipped.get("unreadable", 0)
    if unreadable:
        remedy = "read them as root, or give the pod the node's /sys/fs/cgroup"
        yield problem("directories", f"{unreadable} cannot be read", remedy, CGROUPS)


def _host_pid(evidence: ProbeResults) -> CheckResult:
    procfs = evidence.settings.path_procfs
    status = next(s for s in evidence.sources if s.name == "cgroups")
    if status.reason is Unmeasured.NO_HOSTPID:
        found = "only this container's own processes are visible"
        remedy = "without it no usage can be attributed to a container"
        return problem("host's processes", found, f"set {HOST_PID} in the pod; {remedy}", HOST_PID)
    namespaces = pid_namespaces(procfs)
    known = namespaces.value if isinstance(namespaces, Whole) else PidNamespaces()
    if known.depth > 1:
        found = f"{procfs} is the node's, this process is in a PID namespace of its own"
        remedy = "identities are found; the end of a process is noticed later than with it"
        return note("host's processes", found, f"set {HOST_PID}; {remedy}", HOST_PID)
    if status.up and known.is_nested:
        return note(
            "host's processes",
            "this PID namespace is not the machine's first one",
            "correct if the node is itself a container (kind); else set hostPID",
            HOST_PID,
        )
    if not status.up:
        return problem("host's processes", status.detail or "not known", "see the log", HOST_PID)
    return ok("host's processes", "this process is in the machine's own PID namespace")
