"""Names of pods and containers as the kubelet and the runtimes write them into cgroup paths."""

import uuid

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
