"""XIDs: the error numbers that NVIDIA's driver reports for a GPU.

Source: NVIDIA's catalogue (docs.nvidia.com/deploy/xid-errors). The kernel log has the details.
"""

import logging
from collections.abc import Mapping

from exporter.model import Clock, XidCount
from exporter.model.alerts import what_to_do

logger = logging.getLogger(__name__)

FALLEN_OFF = 79

ACTED_ON = (31, 43, 45, 48, 63, 64, 74, FALLEN_OFF, 92, 94, 95, 119)
"""XIDs that need action. Their series begin at 0: one that begins at 1 shows no increase."""

MAX_OTHERS = 20  # further numbers of one device; the rest are counted together
OTHER = "other"


def log_first(uuid: str, xid: int) -> None:
    """Logs the first report of an XID of a device."""
    meaning = what_to_do(xid) or "NVIDIA's catalogue of XIDs has its meaning"
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
