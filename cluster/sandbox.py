"""The namespaces that the cluster lives in, and the cgroups that outlive them.

Mounts, network, processes, host name and IPC are the cluster's own: no port, mount or process of
the machine is touched, and everything ends with the first process. Cgroups cannot be had that way
(cgroup v1 has no way to hand down controllers); they are all below one directory, removed after.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

NODE = "mgpu-node"
NODE_IP = "10.91.0.1"  # the node's own
SERVICE_IP = "10.96.0.1"  # of the service "kubernetes"; there is no kube-proxy
CGROUP = "mgpu-cluster"
STATE = "MGPU_CLUSTER_STATE"

_CGROUPS = Path("/sys/fs/cgroup")
# What the kubelet would set for the whole machine (setupKernelTunables); it leaves be what is so.
_TUNABLES = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
# Folders whose place is fixed in the kubelet, containerd's shim and the CNI plugins.
_OWN_FOLDERS = {
    "kubelet": "/var/lib/kubelet",
    "cni": "/var/lib/cni",
    "log": "/var/log",
    "run": "/run",
}


def run_inside(command: list[str], state: Path) -> int:
    """Run a command as the first process of new namespaces; its exit status.

    What it leaves behind is killed with it, and its cgroups are removed.
    """
    made = [Path(place) for place in _OWN_FOLDERS.values() if not Path(place).exists()]
    for place in made:
        place.mkdir(parents=True)
    own = ["--mount", "--net", "--pid", "--uts", "--ipc"]
    unshare = ["unshare", *own, "--fork", "--mount-proc", "--kill-child", "--propagation=private"]
    try:
        child = subprocess.Popen(
            [*unshare, *command],
            env={**os.environ, STATE: str(state), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        return _wait(child)
    finally:
        remove_cgroups()
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()


def settle() -> Path:
    """Make this process's namespaces a node: network, host name, folders. The state's folder.

    Raises:
        RuntimeError: these are the machine's own namespaces.

    """
    if os.getpid() != 1 or STATE not in os.environ:
        sys.exit("not in the cluster's own namespaces: run `make cluster-test`")
    state = Path(os.environ[STATE])
    _do("mount --make-rshared /")
    for name, place in _OWN_FOLDERS.items():
        (state / name).mkdir(exist_ok=True)
        _do(f"mount --bind {state / name} {place}")
    for name, value in _TUNABLES.items():
        (state / "tunable").mkdir(exist_ok=True)
        held = state / "tunable" / name.replace("/", "_")
        held.write_text(f"{value}\n")
        _do(f"mount --bind {held} /proc/sys/{name}")
    hosts = state / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{NODE_IP} {NODE}\n")
    _do(f"mount --bind {hosts} /etc/hosts")
    _do(f"hostname {NODE}")
    _do("ip link set lo up")
    for address in (NODE_IP, SERVICE_IP):
        _do(f"ip address add {address}/32 dev lo")
    _make_cgroups()
    return state


def remove_cgroups() -> None:
    """Remove the cluster's cgroups in all hierarchies, with whoever is still in them."""
    for top in _tops():
        for folder in (*sorted(top.rglob("*/"), reverse=True), top):
            _remove(folder)


def _tops() -> list[Path]:
    found = [_CGROUPS / CGROUP, *_CGROUPS.glob(f"*/{CGROUP}")]
    return [path for path in found if path.is_dir() and not path.parent.is_symlink()]


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + 10
    while folder.is_dir() and time.monotonic() < deadline:
        try:
            for pid in (folder / "cgroup.procs").read_text().split():
                if pid != "0":  # 0: of a namespace that is not ours
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.1)  # the kernel takes its time with the last process


def _make_cgroups() -> None:
    """Make the directory that the kubelet is told to stay below, in every hierarchy."""
    if (_CGROUPS / "cgroup.controllers").exists():
        controllers = (_CGROUPS / "cgroup.controllers").read_text().split()
        hand_down = " ".join(f"+{name}" for name in controllers)
        (_CGROUPS / "cgroup.subtree_control").write_text(hand_down)
        (_CGROUPS / CGROUP).mkdir(exist_ok=True)
        (_CGROUPS / CGROUP / "cgroup.subtree_control").write_text(hand_down)
        return
    for hierarchy in _CGROUPS.iterdir():
        if not hierarchy.is_dir() or hierarchy.is_symlink():
            continue
        top = hierarchy / CGROUP
        top.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # a new cpuset is empty and takes nobody
            if (top / name).exists() and not (top / name).read_text().strip():
                (top / name).write_text((hierarchy / name).read_text())


def _wait(child: subprocess.Popen[bytes]) -> int:
    """The status of a child. It gets a terminal's Ctrl-C itself; if we are to end, it is killed."""
    signals = (signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, lambda *_: child.kill()) for number in signals}
    try:
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                return child.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _do(command: str) -> None:
    subprocess.run(command.split(), check=True)


def clean(state: Path) -> None:
    """Remove the state's folder; nothing is mounted in it any more."""
    shutil.rmtree(state, ignore_errors=True)
