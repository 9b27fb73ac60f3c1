"""XIDs: the error numbers that NVIDIA's driver reports for a GPU.

Source: NVIDIA's catalogue (docs.nvidia.com/deploy/xid-errors). The kernel log has the details.
"""

import logging
from collections.abc import Mapping

from exporter.model import Clock, XidCount

logger = logging.getLogger(__name__)

FALLEN_OFF = 79

ACTED_ON: Mapping[int, str] = {
    31: "memory page fault: most often an application's bug",
    43: "GPU stopped processing for an application, which was ended; the GPU goes on",
    45: "channels were torn down: the other applications that an error took along",
    48: "double-bit ECC error: drain the node, reset the GPU",
    63: "row remapping or page retirement recorded: reset the GPU when idle",
    64: "row remapping or page retirement failed: replace the GPU if it comes back",
    74: "NVLink error: check the link, reset the GPU",
    FALLEN_OFF: "GPU has fallen off the bus: restart the node, check power and seat",
    92: "high rate of single-bit ECC errors: run the field diagnosis",
    94: "contained ECC error: restart the application, reset the GPU when idle",
    95: "uncontained ECC error: drain the node, reset the GPU",
    119: "GPU's firmware does not answer: reset the GPU or restart the node",
}
"""XIDs that need action. Their series begin at 0: one that begins at 1 shows no increase."""

MAX_OTHERS = 20  # further numbers of one device; the rest are counted together
OTHER = "other"


def log_first(uuid: str, xid: int) -> None:
    """Logs the first report of an XID of a device."""
    meaning = ACTED_ON.get(xid, "see NVIDIA's catalogue of XIDs")
    logger.warning("device %s reports XID %d: %s; see the kernel log", uuid, xid, meaning)


class XidCounts:
    """The XIDs of one device since the start of the exporter."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Mapping[str, XidCount] = {str(xid): XidCount() for xid in ACTED_ON}

    def add(self, xid: int) -> bool:
        """Counts one report, now; returns whether it is the first of its number."""
        label = str(xid)
        if label not in self._counts and len(self._counts) >= len(ACTED_ON) + MAX_OTHERS:
            label = OTHER
        events = self._counts.get(label, XidCount()).events
        self._counts = {**self._counts, label: XidCount(events + 1, self._clock.time_ns())}
        return events == 0

    def snapshot(self) -> Mapping[str, XidCount]:
        """Count and last time by XID: the same object until the next report."""
        return self._counts
