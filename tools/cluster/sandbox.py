"""The namespaces that the cluster lives in, and the cgroups that outlive them.

Mounts, network, processes, host name and IPC are the cluster's own: no port, mount or process of
the machine is touched, and everything ends with the first process. Cgroups cannot be had that way
(cgroup v1 has no way to hand down controllers); they are all below one directory, removed after
(``turn.py``).
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

NODE = "mgpu-node"
NODE_IP = "10.91.0.1"  # the node's own
SERVICE_IP = "10.96.0.1"  # of the service "kubernetes"; there is no kube-proxy
CGROUP = "mgpu-cluster"
_STATE = "MGPU_CLUSTER_STATE"

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
# Folders that the node's programs write to, wherever their own are: kubelet, CNI plugins, shims.
_OWN_FOLDERS = ("/var/lib", "/var/log", "/run")
_PATIENCE_S = 30


def run_inside(command: list[str], state: Path) -> int:
    """Run a command as the first process of new namespaces; its exit status.

    What it leaves behind is killed with it, and all of it with this process.
    """
    own = ["--mount", "--net", "--pid", "--uts", "--ipc"]
    unshare = ["unshare", *own, "--fork", "--mount-proc", "--kill-child", "--propagation=private"]
    child = subprocess.Popen(
        [
            "setpriv",
            "--pdeathsig=KILL",
            *unshare,
            sys.executable,
            "-m",
            __name__,
            *command,
        ],
        env={**os.environ, **_environment(state)},
    )
    return _wait(child)


def state_inside() -> Path:
    """The folder of this run's files.

    Raises:
        SystemExit: this is not the first process of the cluster's namespaces.

    """
    if os.getpid() != 1 or _STATE not in os.environ:
        sys.exit("not in the cluster's own namespaces: run `make cluster-test`")
    return Path(os.environ[_STATE])


def _environment(state: Path) -> dict[str, str]:
    """Tells programs where to write what they would write somewhere else on the machine."""
    folders = {"TMPDIR": "tmp", "KUBECACHEDIR": "kubectl", "HELM_CACHE_HOME": "helm"}
    own = {variable: str(state / name) for variable, name in folders.items()}
    return {**own, _STATE: str(state), "PYTHONDONTWRITEBYTECODE": "1"}


def _settle(state: Path) -> None:
    """Make this process's namespaces a node: network, host name, folders, cgroups."""
    _make_folders(state)
    hosts = state / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{NODE_IP} {NODE}\n")
    _do(f"mount --bind {hosts} /etc/hosts")
    _do(f"hostname {NODE}")
    _do("ip link set lo up")
    for address in (NODE_IP, SERVICE_IP):
        _do(f"ip address add {address}/32 dev lo")
    _make_cgroups()


def remove_cgroups() -> None:
    """Remove the cluster's cgroups in all hierarchies, with whoever is still in them."""
    deadline = time.monotonic() + _PATIENCE_S
    while (tops := _tops()) and time.monotonic() < deadline:
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                _remove(Path(folder))
        time.sleep(0.1)  # the kernel takes its time with the last processes


def _tops() -> list[Path]:
    found = [_CGROUPS / CGROUP, *_CGROUPS.glob(f"*/{CGROUP}")]
    return [path for path in found if path.is_dir() and not path.parent.is_symlink()]


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it has gone, or not everybody in it
        for pid in (folder / "cgroup.procs").read_text().split():
            if pid != "0":  # 0: of a namespace that is not ours
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        folder.rmdir()


def _make_folders(state: Path) -> None:
    """Hide the machine's folders that are written to; all others can only be read from now on.

    So what is not thought of here fails, and leaves nothing on the machine. Hidden are folders that
    every machine has: were one of them removed outside, its mount in here would go with it
    (mount_namespaces(7)), and what is in it would be written on the machine.
    """
    _do("mount --make-rshared /")
    _do(f"mount --bind {state} {state}")
    (state / "tmp").mkdir()
    for place in _OWN_FOLDERS:
        held = state / place.strip("/")
        held.mkdir(parents=True)
        _do(f"mount --bind {held} {place}")
    _do("mount -o remount,bind,ro /")
    for name, value in _TUNABLES.items():
        held = state / "tunable" / name
        held.parent.mkdir(parents=True, exist_ok=True)
        held.write_text(f"{value}\n")
        _do(f"mount --bind {held} /proc/sys/{name}")


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
    """The status of a child. It gets a terminal's Ctrl-C itself; a request to end is handed on."""
    signals = (signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, lambda *_: _end(child)) for number in signals}
    try:
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                return child.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Let the first process in the namespaces end in order."""
    for pid in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split():
        os.kill(int(pid), signal.SIGTERM)


def _do(command: str) -> None:
    subprocess.run(command.split(), check=True)


if __name__ == "__main__":
    # Before the command is there: a folder that is written to cannot be made read-only.
    _settle(state_inside())
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - the command that run_inside was given
