"""What a descriptor of a process is: a client of a DRM device, or nothing of this matter.

Whoever has a descriptor may serve the file system behind it himself (FUSE), or it may be that of a
server that is gone (NFS): then a stat(2) of it never returns. So ``fdinfo`` is read first, which is
the kernel's own text. Only a DRM device says ``drm-driver`` there, and a device lies on no such
file system. A device that says nothing is asked if its mount is of the machine's memory.
"""

import errno
import os
import re
import stat
from typing import NamedTuple

from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.gpus.drm.fdinfo import LONGEST, is_old_form

DRM_MAJOR = 226
BEGINS = b"pos:"  # fdinfo of any file
_NODE = re.compile(r"/dev/dri/(?:card|renderD)([0-9]{1,4})(?: \(deleted\))?", re.ASCII)
_DEVICES = "/dev/"
_DRIVER = re.compile(rb"^drm-driver:[ \t]*([\w.-]{1,32})", re.MULTILINE)
_CLIENT = re.compile(rb"^drm-client-id:[ \t]*([0-9]{1,20})[ \t]*$", re.MULTILINE)
_MOUNT = re.compile(rb"^mnt_id:[ \t]*([0-9]{1,10})", re.MULTILINE)
_MOUNTS = 256 * 1024  # bytes that are read of a process's mounts
IN_MEMORY = {b"devtmpfs", b"tmpfs", b"ramfs", b"rootfs"}


class Opened(NamedTuple):
    """A descriptor of a DRM device. ``client``: the id of its client, None if it says none.

    ``driver``: as it calls itself, "" if it says nothing. ``is_old``: it has a form of fdinfo that
    is older than the ids of clients.
    """

    minor: int
    driver: str = ""
    client: int | None = None
    is_old: bool = False


def target_of(name: str, folder: int) -> str:
    """Where a descriptor of an open folder ``fd`` leads, if that may be a device; else "".

    Raises:
        OSError: that is not known now.

    """
    reply = door.link(name, folder)
    match reply:
        case Whole(target) | Cut(target):
            return target if target.startswith(_DEVICES) and name.isdecimal() else ""
        case Absent():
            return ""
        case Refused() | Failed():
            raise OSError(reply.code, os.strerror(reply.code))


def opened(root: str, pid: int, name: str, folder: int, target: str) -> Opened | None:
    """The DRM device that a descriptor is of; None if it is of none, or closed by now.

    Raises:
        OSError: that is not known now.

    """
    named = _NODE.fullmatch(target)
    number = int(named[1]) if named else None
    reply = door.read(f"{root}/{pid}/fdinfo/{name}", LONGEST)
    match reply:
        case Whole(text) | Cut(text):
            if not text.startswith(BEGINS):
                raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))
            driver, client = _DRIVER.search(text), _CLIENT.search(text)
            is_old = is_old_form(text)
            if driver is None and not is_old and not (named and _is_in_memory(root, pid, text)):
                return None
            minor = _minor(name, folder, number)
            if minor is None:
                return None
            return Opened(
                minor,
                driver[1].decode() if driver else "",
                int(client[1]) if client else None,
                is_old,
            )
        case Absent():
            # Of a live process both are there or neither. A copy of /proc may have one of them, and
            # its links lead into no tenant's mounts.
            is_copy = isinstance(door.about(f"{root}/{pid}/mountinfo"), Absent)
            minor = _minor(name, folder, number) if is_copy else None
            return None if minor is None else Opened(minor)
        case Refused() | Failed():
            raise OSError(reply.code, os.strerror(reply.code))


def _minor(name: str, folder: int, number: int | None) -> int | None:
    """The minor number of a DRM device; ``number``: by its name, for a link that leads nowhere."""
    match door.about(name, folder):
        case Whole(node) | Cut(node):
            # A container may have the device under another name: its number is the same everywhere.
            is_drm = stat.S_ISCHR(node.st_mode) and os.major(node.st_rdev) == DRM_MAJOR
            return os.minor(node.st_rdev) if is_drm else None
        case Absent() | Refused() | Failed():  # a copy of /proc
            return number


def _is_in_memory(root: str, pid: int, text: bytes) -> bool:
    """Whether the mount that a descriptor is of is certain to answer: the machine's own memory."""
    mount = _MOUNT.search(text)
    match door.read(f"{root}/{pid}/mountinfo", _MOUNTS):
        case Whole(mounts) | Cut(mounts):
            lines = mounts.split(b"\n")
            own = (line for line in lines if mount and line.startswith(mount[1] + b" "))
            kind = next(own, b"").partition(b" - ")[2].split(b" ")[0]
            return kind in IN_MEMORY
        case Absent():  # a copy of /proc, or it has ended
            return True
        case Refused() | Failed():
            return False
