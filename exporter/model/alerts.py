"""What the shipped alert rules say of XIDs and thresholds: for rules/, and for marks.

The XIDs are NVIDIA's, by what its catalogue has one do at once. Source:
docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, column "Immediate Action", for A100,
H100, B100 and GB200, as of 2026. What is not listed here is a program's (RESTART_APP), or asks for
nothing (IGNORE); it raises MgpuXidError. The most frequent of those have their words here too.
"""

from collections.abc import Mapping
from typing import NamedTuple

OVER_SHARE = 1.1  # times the share of the core that was allocated
OVER_MEMORY = 1.005  # times the allocated memory, or what there is: rounds to 101 %
NEAR_LIMIT = 0.95  # share of the allocated memory that a pod holds
OVERCOMMITTED = 1.001  # core of a device that is allocated
XID_S = 900  # since an XID

HARDWARE, WATCH, PROGRAM = "MgpuXidHardware", "MgpuXidWarning", "MgpuXidError"
IGNORED = ""


class Xid(NamedTuple):
    """Some XIDs of one kind: what happened, what NVIDIA has one do at once, the alert."""

    codes: tuple[int, ...]
    what: str
    action: str
    alert: str


_RESET, _NONE, _RESTART = "reset the GPU", "none", "restart that program"
_SUPPORT = "none; if it stays, ask NVIDIA's support"
_LINK = "by the register values in the kernel's line, from nothing to a reset"

XIDS: tuple[Xid, ...] = (
    Xid((46,), "the GPU stopped answering", _RESET, HARDWARE),
    Xid((48,), "a double-bit memory error", "reset the GPU; drain first with 63 or 64", HARDWARE),
    Xid((62,), "its power management unit stopped", _RESET, HARDWARE),
    Xid((64,), "a bad row of memory could not be recorded", _RESET, HARDWARE),
    Xid((79,), "it has fallen off the bus", "restart the node", HARDWARE),
    Xid((95,), "a memory error that was not contained: any program may be hit", _RESET, HARDWARE),
    Xid((109, 158), "a timeout that it does not recover from", _RESET, HARDWARE),
    Xid((110,), "a security fault", _RESET, HARDWARE),
    Xid((119, 120), "its system processor (GSP) hangs or failed", _RESET, HARDWARE),
    Xid((136, 155), "NVLink could not be trained, or failed", _RESET, HARDWARE),
    Xid((140,), "a memory error that could not be recovered", _RESET, HARDWARE),
    Xid((143,), "it could not be initialised", _RESET, HARDWARE),
    Xid((151,), "keys could not be changed (confidential computing)", "restart the VM", HARDWARE),
    Xid((156,), "a part of it is to be retired", _RESET, HARDWARE),
    Xid((54,), "auxiliary power is missing: it runs slowly", "check cables and power", WATCH),
    Xid((74,), "an error of NVLink (to Hopper)", _LINK, WATCH),
    Xid((78,), "a vGPU could not start", "update driver or firmware", WATCH),
    Xid((92,), "many single-bit errors, which it corrects", _SUPPORT, WATCH),
    Xid((93,), "its InfoROM was written too often", _NONE, WATCH),
    Xid((94,), "a memory error, contained in one program", _RESTART, WATCH),
    Xid((121,), "an error of the link to the CPU (C2C)", _SUPPORT, WATCH),
    Xid((137,), "a program's or NVLink's access was refused", _NONE, WATCH),
    Xid((141,), "a fault of the fast path", _SUPPORT, WATCH),
    Xid((142,), "an error of the encoder", "ask NVIDIA's support", WATCH),
    Xid((144, 145, 146, 147, 148, 149, 150), "an error of NVLink (Blackwell)", _LINK, WATCH),
    Xid((157,), "a part could not be retired", _SUPPORT, WATCH),
    Xid((160, 161), "a channel of memory was retired, or could not be", _NONE, WATCH),
    Xid((168, 171, 172), "less memory, or what came before 94 and 95", "not stated", WATCH),
    Xid((13,), "a program's own error", _RESTART, PROGRAM),
    Xid((31,), "a program used memory that is not its own", _RESTART, PROGRAM),
    Xid((43,), "a program was stopped for its error; the GPU goes on", _RESTART, PROGRAM),
    Xid((45,), "a program was stopped, most often after another's XID", _RESTART, PROGRAM),
    Xid((63,), "a bad row of memory was recorded: MgpuRowRemapping says so", _NONE, IGNORED),
    Xid((106, 107), "a test message", _NONE, IGNORED),
    Xid((154,), "the recovery action changed: MgpuGpuRecoveryAction says so", _NONE, IGNORED),
)


LOST: Mapping[str, str] = {
    "nvidia": "reset the GPU",
    "amd": "look for amdgpu in the kernel's log",
    "intel": "look for i915 or xe in the kernel's log",
}
"""What to do first for a lost device whose driver reported no hardware fault, by vendor."""

STILL_LOST = "if it stays lost, restart the node"
LAST_RESORT = "switch the node off and on; if the GPU is lost again, have the board exchanged"


def lost(vendor: str, last: int | None) -> str:
    """A lost device in words, and what to do. ``last`` is its last XID of ``HARDWARE``, if any."""
    if last is not None:
        return f"XID {last}: {what_to_do(last)}"
    action = f"{LOST[vendor]}; {STILL_LOST}" if vendor in LOST else "restart the node"
    return f"it has fallen off the bus, or needs a reset. To do: {action}"


def what_to_do(number: int) -> str:
    """An XID in words: what happened, and what to do. "" if it is not listed."""
    found = (xid for xid in XIDS if number in xid.codes)
    return next((f"{xid.what}. To do: {xid.action}" for xid in found), "")


def codes(alert: str) -> list[int]:
    """The XIDs of an alert."""
    return sorted(code for xid in XIDS if xid.alert == alert for code in xid.codes)
