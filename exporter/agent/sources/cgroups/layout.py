"""What a cgroup path says of the processes in it. Pure: no files, no errors.

A path is read component by component, from the root down, because every rule is about a directory
and its parent; ``descend`` is that one step, and a walk of the file system takes the same one.

The shapes come from the kubelet (``pkg/kubelet/cm``: ``kubepods[/qos]/pod<uid>``, or the same as
nested systemd slices), containerd (``internal/cri/server/helpers.go``, getCgroupsPath), CRI-O
(``internal/config/cgmgr``), docker, podman and kata.

Off Kubernetes a path names a unit: a Slurm job, a systemd unit, a user or a machine, or the job of
another batch system (``exporter.agent.sources.cgroups.batchpatterns``). Their shapes
come from Slurm (``doc/html/cgroups.shtml`` and ``cgroup_v2.shtml``), systemd
(``CGROUP_DELEGATION``, ``systemd.slice(5)``), liblxc (``src/lxc/cgroups``), libvirt
(``docs/cgroups.rst``) and systemd-nspawn. Whatever a user, a job or a machine makes inside of its
own directory stays its own: names there are chosen by tenants.

The directories of a node show which kinds of groups it can have (``kinds_of``). A counter that
begins at its first use loses that use to ``rate()``, so the counters of a kind begin at 0 before.
All kinds on every node would be some sixty series a device, most of them for nothing.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from exporter.agent.sources.cgroups.batchpatterns import NO_SITE, GroupPatterns, Named, Open
from exporter.model import SYSTEMS, USERS, CgroupIdentity, PodSlot, Unit

CONTAINER = "container"  # of an unknown runtime
SYSTEMD = frozenset({"systemd", "user"})  # with systemd, whoever logs in has a slice
BARE = frozenset({"host"})  # without systemd, a process may be in no unit at all

_SERVICES = (  # programs whose unit is there before their first group is
    ("slurm", re.compile(r"slurmd(?:@.+)?\.service|(?:.+_)?slurmstepd\.scope")),
    ("docker", re.compile(r"docker\.service|snap\.docker\.dockerd\.service")),
    ("podman", re.compile(r"podman(?:-.+)?\.service")),
    ("libvirt", re.compile(r"(?:libvirt|virtqemu|virtlxc)d\.service")),
    ("lxc", re.compile(r"(?:lxc(?:fs)?|lxd|incus|snap\.lxd\.daemon)\.service")),
    ("qemu", re.compile(r"(?:pvedaemon|qmeventd)\.service")),
)


def kind_of(identity: CgroupIdentity) -> str:
    """The kind of the group that a directory is, if no pod of that name is known; "" if of none."""
    if identity.pod_uid:
        return "pod"
    if identity.container_id:
        return identity.runtime or CONTAINER
    return identity.unit.kind if identity.unit and identity.unit.name else ""


def kinds_of(
    identities: Iterable[CgroupIdentity], patterns: GroupPatterns = NO_SITE
) -> frozenset[str]:
    """The kinds that a node with these directories has or can have.

    Those of its directories, those of the services that run there, those that the site describes,
    and those that systemd makes, or where there is no systemd, those of bare processes.
    """
    distinct = set(identities)
    kinds = {kind_of(identity) for identity in distinct} - {""}
    units = [one.unit.name for one in distinct if one.unit and one.unit.kind == "systemd"]
    kinds |= {kind for kind, shape in _SERVICES for name in units if shape.fullmatch(name)}
    kinds |= patterns.kinds(units)
    return frozenset(kinds | (BARE if kinds.isdisjoint(SYSTEMD) else SYSTEMD))


LONGEST_NAME = 128
DIGITS = 16

_SLURM_ROOT = re.compile(r"slurm(_[\w.-]+)?")  # cgroup v1; with the node where slurmds are several
_SLURM_SCOPE = re.compile(r"(?:.+_)?slurmstepd\.scope")
_SLURM_UID = re.compile(r"uid_([0-9]{1,10})", re.ASCII)
# A number, or from Slurm 26.05 on a SLUID; both have their steps directly below.
_JOB = re.compile(r"job_([0-9]{1,10})|(s[0-9A-Z]{13})", re.ASCII)
_STEP = re.compile(r"step_([0-9a-z_+]{1,32})", re.ASCII)
_USER_SLICE = re.compile(r"user-([0-9]{1,10})\.slice|([0-9]{1,10})\.user", re.ASCII)
_LIBVIRT = re.compile(r"machine-qemu-[0-9]+-(.+)\.scope|(?:qemu-[0-9]+-)?(.+)\.libvirt-qemu")
_LIBVIRT_LXC = re.compile(r"machine-lxc-[0-9]+-(.+)\.scope|(?:lxc-[0-9]+-)?(.+)\.libvirt-lxc")
_QEMU = re.compile(r"([0-9]{1,10})\.scope", re.ASCII)  # Proxmox's, in ``qemu.slice``
_NSPAWN = re.compile(r"systemd-nspawn@(.+)\.service|machine-(.+)\.scope")
_LXC = re.compile(r"lxc|lxc\.payload(?:\.(.+))?")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_DIGEST = re.compile(r"~[0-9a-f]{16}\Z")
_TOP = frozenset({"", ".."})
_LXC_ROOT = Unit("lxc", "")
_SLURM = Unit("slurm", "")
_OPEN_INSIDE = SYSTEMD - {"user"} | BARE
_OF_PEOPLE = frozenset({"user", "lxc", "nspawn", "libvirt", "qemu"})  # who may run containers in it


def is_own_inside(unit: Unit) -> bool:
    """Whether its subtree is its own, whatever the directories there are called."""
    return unit.kind not in _OPEN_INSIDE


def is_job(unit: Unit | None) -> bool:
    """Whether a batch system made it: all that is below its directory is one job's."""
    return unit is not None and bool(unit.name) and unit.kind not in _OPEN_INSIDE | _OF_PEOPLE


def below(unit: Unit | None, parent: str, name: str) -> Unit | None:
    """The unit of a directory, by that of the directory above and both names."""
    if unit is not None and is_own_inside(unit):
        return _inside(unit, name)
    if unit is not None and unit.name == parent and _SLURM_SCOPE.fullmatch(parent):
        job = _JOB.fullmatch(name)
        return Unit("slurm", job[1] or job[2]) if job else unit
    # A site may keep its containers in a slice: in no unit, root alone makes directories there.
    in_slice = unit is None and parent.endswith(".slice")
    lxc = _lxc(name, in_place=parent in _TOP or in_slice)
    if lxc is not None or unit is not None:
        return lxc or unit
    if parent in _TOP and _SLURM_ROOT.fullmatch(name):
        return _SLURM
    return _machine(parent, name) or _user(parent, name) or _service(parent, name)


def _unescaped(name: str) -> str:
    """A name as it was before systemd made a unit's of it."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name)


def readable(name: str) -> str:
    """A directory's name as a label: of bounded length, and text, which a file name need not be."""
    plain = name[:LONGEST_NAME].encode(errors="replace").decode()
    return "".join(c if c.isprintable() else "?" for c in plain)


def _distinct(name: str) -> str:
    """As readable, and no other name's: what is cut or changed has a digest of all of it behind."""
    plain = readable(name)
    if plain == name and not _DIGEST.search(name):
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:DIGITS]
    return f"{plain[: LONGEST_NAME - DIGITS - 1]}~{digest}"


def _inside(unit: Unit, name: str) -> Unit:
    if unit.kind == "slurm":
        return _in_slurm(unit, name)
    return Unit("lxc", _distinct(name)) if unit == _LXC_ROOT else unit


def _in_slurm(unit: Unit, name: str) -> Unit:
    """``uid_U/job_J/step_S`` one by one; on cgroup v2 the job is there already."""
    if not unit.name:
        if (uid := _SLURM_UID.fullmatch(name)) and unit.uid is None:
            return unit._replace(uid=int(uid[1]))
        job = _JOB.fullmatch(name) if unit.uid is not None else None
        return unit._replace(name=job[1] or job[2]) if job else unit
    if not unit.step and (step := _STEP.fullmatch(name)):
        return unit._replace(step=step[1])
    return unit


def _lxc(name: str, *, in_place: bool) -> Unit | None:
    match = _LXC.fullmatch(name)
    if match is None or not (name.startswith("lxc.payload") or in_place):
        return None
    return Unit("lxc", _distinct(match[1])) if match[1] else _LXC_ROOT


def _machine(parent: str, name: str) -> Unit | None:
    if parent == "qemu.slice":
        return Unit("qemu", match[1]) if (match := _QEMU.fullmatch(name)) else None
    if parent not in {"machine", "machine.slice"}:
        return None
    plain = _unescaped(name)
    for kind, shape in (("libvirt", _LIBVIRT), ("lxc", _LIBVIRT_LXC), ("nspawn", _NSPAWN)):
        if match := shape.fullmatch(plain):
            return Unit(kind, _distinct(match[1] or match[2]))
    return None


def _user(parent: str, name: str) -> Unit | None:
    match = _USER_SLICE.fullmatch(name) if parent in {"user", "user.slice"} else None
    return Unit("user", uid := match[1] or match[2], uid=int(uid)) if match else None


def _service(parent: str, name: str) -> Unit | None:
    """A unit in nothing but slices; in a directory of another kind the name means nothing."""
    of_systemd = name.endswith((".service", ".scope"))
    in_slices = parent in _TOP or parent.endswith(".slice")
    return Unit("systemd", _distinct(name)) if of_systemd and in_slices else None


HOST = CgroupIdentity()
UNKNOWN = "cgroup"  # the kind of groups whose paths no rule knows
_NAMES = 2  # of a path that no rule knows: below, who is in it may make directories


def unknown_unit(paths: Iterable[str]) -> Unit | None:
    """The unit of a process in a cgroup that no rule knows: its path's first names.

    None if all paths are the root's. Of several, as in cgroup v1, the deepest counts.
    """
    whole = (path.strip().removesuffix(" (deleted)") for path in paths)
    split = [[name for name in path.split("/") if name not in _TOP] for path in whole]
    names = max(split, key=len, default=[])
    return Unit(UNKNOWN, _distinct("/".join(names[:_NAMES]))) if names else None


LONGEST_PATH = 4096  # PATH_MAX: the kernel prints no longer one
LONGEST_FILE = 64 * 1024  # /proc/PID/cgroup has at most a line for each of some 30 hierarchies

_UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"  # 32: static pod's hash
_POD_UID = re.compile(_UID)
_ID_DIGITS = 64
_CONTAINER_ID = re.compile(rf"[0-9a-f]{{{_ID_DIGITS}}}")

_RUNTIME_BY_PREFIX = {
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "crio",
    "docker": "docker",
    "libpod": "podman",
    "libpod-payload": "podman",
}
_RUNTIME_BY_PARENT = {"k8s.io": "containerd", "docker": "docker"}
_RANKS = {"": 0, "systemd": 1}  # units by their kinds; all others 2
_QOS = {"": "guaranteed", "burstable": "burstable", "besteffort": "besteffort"}


class PathState(NamedTuple):
    """A directory on the way down: its own name and what the path so far says.

    ``is_pod``: the directory is a pod's own, so that its children are the pod's containers.
    ``patterns`` may begin in the directory as ``beginning`` says, and ``opened`` go on there.
    ``inner`` is the unit of a directory inside of a container, by the path from there on.
    """

    identity: CgroupIdentity
    name: str
    is_pod: bool = False
    patterns: GroupPatterns = NO_SITE
    beginning: str = ""
    opened: Open = ()
    inner: Unit | None = None


def root_of(patterns: GroupPatterns = NO_SITE) -> PathState:
    """The root of a hierarchy."""
    return PathState(HOST, "", patterns=patterns, beginning=SYSTEMS)


def parse_path(path: str, patterns: GroupPatterns = NO_SITE) -> CgroupIdentity:
    """Identity of the processes in a cgroup, by its path below the root of the hierarchy.

    Accepts what ``/proc/PID/cgroup`` prints: leading ``/..`` of a reader in a cgroup namespace of
    its own, a trailing `` (deleted)``. Any text is accepted; what says nothing is a host process.
    """
    return _parse(path, patterns) if len(path) <= LONGEST_PATH else HOST


@lru_cache(maxsize=1024)  # the processes of a container share one path
def _parse(path: str, patterns: GroupPatterns) -> CgroupIdentity:
    place = root_of(patterns)
    for name in path.strip().removesuffix(" (deleted)").split("/"):
        if name:
            place = descend(place, name)
    return place.identity


@lru_cache(maxsize=256)  # likewise; few, for they may be long
def cgroup_paths(text: str) -> tuple[str, ...]:
    """The distinct paths of a ``/proc/PID/cgroup``, in its order; cgroups(7), ``id:names:path``."""
    if len(text) > LONGEST_FILE:
        # A line that is cut off would be another cgroup's path.
        text = text[:LONGEST_FILE].rpartition("\n")[0]
    # A path may hold colons itself: the leaf that runc makes of "<slice>:cri-containerd:<id>".
    fields = (line.split(":", 2) for line in text.split("\n"))
    return tuple(dict.fromkeys(field[2] for field in fields if len(field) == 3))  # noqa: PLR2004 - id, names, path


@lru_cache(maxsize=256)
def best_identity(paths: tuple[str, ...], patterns: GroupPatterns = NO_SITE) -> CgroupIdentity:
    """The identity of the most specific path.

    In this order: a job, a pod with a container, a container, a pod, a unit.

    The lines of one process may differ: on hybrid nodes the ``0::`` line can name the runtime's
    own service, and with mixed cgroup drivers some controllers stay at the root.
    """
    return max((parse_path(path, patterns) for path in paths), key=_rank, default=HOST)


def _rank(identity: CgroupIdentity) -> tuple[bool, bool, bool, int]:
    """Batch systems have directories in some controllers of cgroup v1, systemd in all of them."""
    kind = identity.unit.kind if identity.unit and identity.unit.name else ""
    return (
        is_job(identity.unit),
        identity.container_id is not None,
        identity.pod_uid is not None,
        _RANKS.get(kind, 2),
    )


def descend(place: PathState, name: str) -> PathState:
    """One directory further down.

    The deepest pod directory wins: it is a cluster's node inside a container (kind, minikube), and
    the pods around it are kept as ``enclosing``. The container is the directory directly below the
    pod's; whatever it makes inside (``/container``, ``/init.scope``, ``/docker/<id>``) is its own.
    A job has all that is below its directory, containers too. In the directory of a user or of a
    machine nothing is a pod, or anybody could pass for one.
    """
    identity = place.identity
    unit = identity.unit
    if "pod" in name and not (unit is not None and is_own_inside(unit)):
        pod = _pod(place, name)
        if pod is not None:
            return pod
    is_in_job = unit is not None and (unit.kind == "slurm" or is_job(unit))
    may_hold = place.is_pod or (identity.pod_uid is None and not is_in_job)
    if may_hold and identity.container_id is None:
        container = _container(place.name, name, in_pod=place.is_pod)
        if container is not None:
            identity = _of_container(identity, *container)
    if identity is not place.identity:
        # The container's own directory: inside, paths begin again.
        return PathState(identity, "", patterns=place.patterns, beginning=SYSTEMS)
    if identity.container_id is not None or identity.pod_uid is not None:
        return _inside_container(place, name)
    if is_in_job:
        if (found := below(unit, place.name, name)) != unit:
            identity = CgroupIdentity(unit=found)
        return PathState(identity, name, patterns=place.patterns)
    opened, named = place.patterns.further(place.opened, place.beginning, name)
    found = _of_pattern(named, unit) if named else below(unit, place.name, name)
    if found != unit:
        identity = CgroupIdentity(unit=found)
    beginning = "" if named else _beginning(place, identity, name)
    return PathState(identity, name, False, place.patterns, beginning, opened)


def _beginning_of_system(place: PathState, name: str) -> str:
    """In no unit, root alone makes slices."""
    is_top = name in _TOP and bool(place.beginning)
    return SYSTEMS if is_top or name.endswith(".slice") else ""


def _inside_container(place: PathState, name: str) -> PathState:
    """A directory of a container: its own, but a batch system in it has jobs as on a machine.

    So is a pod's directory beside its containers': a slurmd in a pod makes its scope there.
    """
    identity, inner = place.identity, place.inner
    if is_job(inner):
        return place
    if identity.pod_uid is None and identity.unit is None and identity.nested is None:
        own = _container(place.name, name)
        identity = identity._replace(nested=own[0]) if own else identity
    opened, named = place.patterns.further(place.opened, place.beginning, name)
    parent = "" if place.is_pod else place.name  # paths begin again in a pod's directory, too
    inner = _of_pattern(named, None) if named else below(inner, parent, name)
    if inner is not None and is_job(inner):
        identity = identity._replace(job=inner)
        return PathState(identity, name, patterns=place.patterns, inner=inner)
    beginning = _beginning_of_system(place, name) if inner is None else ""
    return PathState(identity, name, False, place.patterns, beginning, opened, inner)


def _of_pattern(named: Named, unit: Unit | None) -> Unit:
    """A job of a batch system. Of one that a user runs, the user is in its name."""
    within = f"{unit.name}/" if named.is_users and unit else ""
    return Unit(named.kind, within + _distinct(_unescaped(named.group)))


def _beginning(place: PathState, identity: CgroupIdentity, name: str) -> str:
    """Where patterns may begin below a directory: in slices only, as systemd makes them."""
    if identity == HOST:
        return _beginning_of_system(place, name)
    if identity.unit is None or identity.unit.kind != "user":
        return ""
    is_manager = name == f"user@{identity.unit.name}.service" and _USER_SLICE.fullmatch(place.name)
    is_slice = place.beginning == USERS and name.endswith(".slice")
    return USERS if is_manager or is_slice else ""


def _of_container(
    identity: CgroupIdentity, container_id: str, runtime: str | None
) -> CgroupIdentity:
    """A container outside pods, with the user or machine whose directory it is in.

    They may make directories of any name there: an id alone does not show whose a container is.
    """
    unit = identity.unit if identity.unit and is_own_inside(identity.unit) else None
    pod_uid, qos, enclosing = identity.pod_uid, identity.qos, identity.enclosing
    return CgroupIdentity(pod_uid, container_id, runtime, qos, enclosing, unit)


def _pod(place: PathState, name: str) -> PathState | None:
    """The place of a pod directory, or of a leaf ``<pod slice>:<prefix>:<id>``; None if neither.

    containerd asks for the latter when the kubelet uses the systemd driver; runc without it takes
    the request for the name of a directory.
    """
    slice_, colon, _ = name.partition(":")
    stem = slice_.removesuffix(".slice")
    above, _, uid = stem.rpartition("pod")
    if not _POD_UID.fullmatch(uid) or above[-1:] not in {"", "-"}:
        return None
    if stem == slice_:
        if above or colon:
            return None
    elif "kubepods" not in above.split("-"):
        return None
    outer = place.identity
    enclosing = outer.enclosing
    if outer.pod_uid is not None:
        enclosing = (PodSlot(outer.pod_uid, outer.container_id), *enclosing)
    qos = _slice_qos(above[:-1]) if above else _directory_qos(place.name)
    container_id, runtime = (_container("", name) if colon else None) or (None, None)
    identity = CgroupIdentity(uid.replace("_", "-"), container_id, runtime, qos, enclosing)
    return PathState(identity, name, not colon, place.patterns, SYSTEMS)


def _slice_qos(above: str) -> str | None:
    return _QOS.get(above.rpartition("kubepods")[2].removeprefix("-"))


def _directory_qos(parent: str) -> str | None:
    return _QOS.get("" if parent == "kubepods" else parent or "unknown")


def _container(parent: str, name: str, *, in_pod: bool = False) -> tuple[str, str | None] | None:
    """Id and runtime of a container's directory; None for any other.

    Many units carry a container's id without being it: ``crio-conmon-<id>.scope`` is its monitor,
    ``…<id>-rootfs.mount`` its mount, ``kata_<id>`` the sandbox of all a pod's containers.
    """
    slice_, colon, leaf = name.partition(".slice:")
    whole = leaf.replace(":", "-") if slice_ and colon else name
    stem = whole.removesuffix(".scope")
    prefix, dash, container_id = stem.rpartition("-")
    if len(container_id) != _ID_DIGITS or not _CONTAINER_ID.fullmatch(container_id):
        return None
    unit, runtime = stem != whole, _RUNTIME_BY_PREFIX.get(prefix)
    if parent == "kata_overhead":
        return None
    # Systemd names the kind of each directory that it makes in a slice. A runtime that makes its
    # own in a pod's slice does not. CRI-O's is then the sandbox (captured on OpenShift).
    of_runtime = in_pod and runtime is not None and prefix != "crio"
    if parent.endswith(".slice") and not (unit or colon or of_runtime):
        return None
    if runtime is not None:
        return container_id, runtime
    if not prefix:  # of podman's that is a pod: its containers lie below
        is_pod = parent == "libpod_parent"
        return None if is_pod or dash else (container_id, _RUNTIME_BY_PARENT.get(parent))
    parts = prefix.split("-")
    is_other = "conmon" in parts or "kata" in parts
    return (container_id, None) if unit and not is_other else None
