"""Which unit off Kubernetes a cgroup path names: Slurm jobs, systemd units, users, machines. Pure.

The shapes come from Slurm (``doc/html/cgroups.shtml`` and ``cgroup_v2.shtml``), systemd
(``CGROUP_DELEGATION``, ``systemd.slice(5)``), liblxc (``src/lxc/cgroups``), libvirt
(``docs/cgroups.rst``) and systemd-nspawn. Whatever a user, a job or a machine makes inside of its
own directory stays its own: names there are chosen by tenants.
"""

import re
from hashlib import sha256

from exporter.model import Unit

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
_NSPAWN = re.compile(r"systemd-nspawn@(.+)\.service|machine-(.+)\.scope")
_LXC = re.compile(r"lxc|lxc\.payload(?:\.(.+))?")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_DIGEST = re.compile(r"~[0-9a-f]{16}\Z")
_TOP = frozenset({"", ".."})
_LXC_ROOT = Unit("lxc", "")
_SLURM = Unit("slurm", "")
OWN_INSIDE = frozenset({"slurm", "user", "lxc", "nspawn", "libvirt"})
"""Kinds whose subtree is their own, whatever its directories are called."""


def below(unit: Unit | None, parent: str, name: str) -> Unit | None:
    """The unit of a directory, by that of the directory above and both names."""
    if unit is not None and unit.kind in OWN_INSIDE:
        return _inside(unit, name)
    if unit is not None and unit.name == parent and _SLURM_SCOPE.fullmatch(parent):
        job = _JOB.fullmatch(name)
        return Unit("slurm", job[1] or job[2]) if job else unit
    lxc = _lxc(parent, name)
    if lxc is not None or unit is not None:
        return lxc or unit
    if parent in _TOP and _SLURM_ROOT.fullmatch(name):
        return _SLURM
    return _machine(parent, name) or _user(parent, name) or _service(parent, name)


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


def _lxc(parent: str, name: str) -> Unit | None:
    match = _LXC.fullmatch(name)
    if match is None or not (name.startswith("lxc.payload") or parent in _TOP):
        return None
    return Unit("lxc", _distinct(match[1])) if match[1] else _LXC_ROOT


def _machine(parent: str, name: str) -> Unit | None:
    if parent not in {"machine", "machine.slice"}:
        return None
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name)
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
