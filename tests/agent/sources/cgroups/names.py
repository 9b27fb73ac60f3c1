"""Names of pods and containers as the kubelet and the runtimes write them into cgroup paths."""

import uuid

from exporter.agent.sources.cgroups.walk import Walk

RUNTIME_PREFIX = {"containerd": "cri-containerd", "crio": "crio", "docker": "docker"}


def new_uid() -> str:
    """A pod uid that no other test uses."""
    return str(uuid.uuid4())


def new_container_id() -> str:
    """A 64-hex container id that no other test uses."""
    return uuid.uuid4().hex + uuid.uuid4().hex


def pod_path(driver: str, uid: str, qos: str = "burstable") -> str:
    """A pod's cgroup, relative to the hierarchy; ``driver`` is systemd or cgroupfs."""
    if driver == "cgroupfs":
        middle = "" if qos == "guaranteed" else f"{qos}/"
        return f"kubepods/{middle}pod{uid}"
    name = "kubepods" if qos == "guaranteed" else f"kubepods-{qos}"
    above = "kubepods.slice" if qos == "guaranteed" else f"kubepods.slice/{name}.slice"
    return f"{above}/{name}-pod{uid.replace('-', '_')}.slice"


def container_path(
    driver: str,
    uid: str,
    container_id: str,
    qos: str = "burstable",
    runtime: str = "containerd",
) -> str:
    """A container's cgroup, relative to the hierarchy."""
    pod = pod_path(driver, uid, qos)
    if driver == "systemd":
        return f"{pod}/{RUNTIME_PREFIX[runtime]}-{container_id}.scope"
    return f"{pod}/crio-{container_id}" if runtime == "crio" else f"{pod}/{container_id}"


def pods(walked: Walk) -> dict[str, dict[str, set[int]]]:
    """The processes of each container of each pod; under "" those in the pod's own directory."""
    found: dict[str, dict[str, set[int]]] = {}
    for one in walked.identities:
        if one.pod_uid:
            containers = found.setdefault(one.pod_uid, {})
            if one.container_id:
                containers.setdefault(one.container_id, set())
    for pid, one in walked.by_pid.items():
        if one.pod_uid:
            found[one.pod_uid].setdefault(one.container_id or "", set()).add(pid)
    return found
