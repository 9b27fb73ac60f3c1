"""What time it is in the clock that a driver stamps its samples with.

That clock may be the wall clock, the time since boot, or another one; no driver says which. What is
kept is how far it is ahead of the monotonic clock, which nobody can set. The offset is in doubt
when the wall clock was set, and when the ring shows new stamps where none can be. Two looks at the
whole ring then tell what is new, and the newest of that tells the time.
"""

from typing import NamedTuple

STEP_US = 1_000_000  # the wall clock moved by this much against the monotonic one: it was set
PATIENCE_US = 30_000_000  # unobserved time after which a silent ring is taken at its old clock


class Look(NamedTuple):
    """What one look at all stamps of a ring shows, against the look before it.

    ``newest_us`` is the newest stamp, if it came since then: this is the ring's time now. It is
    None while the ring holds older samples with later stamps, as it does after a step back: the
    driver would count those among the samples since any moment of now.
    """

    is_first: bool  # since stamps were as expected: there is no look before it
    has_fresh: bool
    was_empty: bool  # at the look before: all that the ring holds now is new
    newest_us: int | None


class RingClock:
    """One ring's clock. ``ahead_us``: how far it is ahead of the monotonic clock."""

    def __init__(self) -> None:
        self.ahead_us = 0
        self._wall_us: int | None = None  # the wall clock, ahead of the monotonic one
        self._patience_us = 0  # above 0 while the offset is in doubt
        self._was_just_set = False  # the wall clock; what agrees next may be from before that
        self._seen: frozenset[int] | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether ``ahead_us`` may be wrong."""
        return self._patience_us > 0

    def note_wall(self, wall_us: int) -> None:
        """Take in how far the wall clock is ahead of the monotonic one now."""
        before, self._wall_us = self._wall_us, wall_us
        if before is not None and abs(wall_us - before) > STEP_US:
            self._patience_us = PATIENCE_US
            self._was_just_set = True

    def agrees(self, stamp_us: int, mono_us: int, slack_us: float) -> bool:
        """Whether the newest stamp is where it should be; then the offset is in doubt no more.

        The first such stamp after a step may be of a sample from before it, and ends no doubt. One
        that was seen before tells nothing: time alone has brought it to where it should be.
        """
        off_us = abs(stamp_us - mono_us - self.ahead_us)
        was_seen = self._seen is not None and stamp_us in self._seen
        if self.in_doubt and (was_seen or off_us > STEP_US + slack_us):
            return False
        if not self._was_just_set:
            self._patience_us = 0
        self._was_just_set, self._seen = False, None
        return True

    def look(self, stamps_us: frozenset[int], after_us: int, latest_us: int) -> Look:
        """Compare all stamps with those seen before; new ones should be in the given span."""
        before, self._seen = self._seen, stamps_us
        fresh = frozenset() if before is None else stamps_us - before
        if any(not after_us < stamp_us <= latest_us for stamp_us in fresh):
            self._patience_us = PATIENCE_US
        newest_us = max(stamps_us) if fresh and max(stamps_us) in fresh else None
        return Look(before is None, bool(fresh), before is not None and not before, newest_us)

    def set(self, now_us: int, mono_us: int) -> None:
        """It is this time in the ring's clock now."""
        self.ahead_us = now_us - mono_us
        self._patience_us = 0

    def wait(self, us: int) -> None:
        """So much time went by in doubt, and the ring showed nothing new."""
        self._patience_us = max(self._patience_us - us, 0)
