"""Owners whose part of a device's core cannot be told from the others' parts, and since when."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from exporter.model import DeviceUsage, Owner, Unmeasured


class _Doubt(NamedTuple):
    reason: Unmeasured
    began_mono_ns: int
    last_mono_ns: int


class Doubts:
    """Those of one device: a value, which a window with news makes another of.

    Where the driver tells nothing of an owner, doubt holds at once, and until the averages hold
    nothing of that time: they would take it for idleness. None stands for the device itself, where
    it is told by its owners. Where the driver names one process of many at a time (MPS), it takes
    as long without being named as the averages go back: an owner who is named now and then is
    measured. A window in which nobody was busy raises no such doubt and settles none.
    """

    __slots__ = ("_doubts", "_newest_mono_ns")

    def __init__(
        self,
        doubts: Mapping[Owner | None, _Doubt] = MappingProxyType({}),
        newest_mono_ns: int = 0,
    ) -> None:
        self._doubts = doubts
        self._newest_mono_ns = newest_mono_ns

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._doubts)

    def __iter__(self) -> Iterator[Owner | None]:
        """The owners in doubt, or nearly so."""
        return iter(self._doubts)

    def __contains__(self, owner: Owner | None) -> bool:
        """Whether the owner is in doubt, or nearly so."""
        return owner in self._doubts

    def then(self, usage: DeviceUsage, mono_ns: int) -> "Doubts":
        """Those after one window."""
        before = self._doubts
        if not (before or usage.unmeasured or usage.is_lower_bound):  # as nearly always
            return self
        if usage.unmeasured is None:
            return Doubts({o: d._replace(last_mono_ns=mono_ns) for o, d in before.items()}, mono_ns)
        reasons: dict[Owner | None, Unmeasured] = dict(usage.unmeasured.items())
        if usage.is_lower_bound:
            reasons[None] = Unmeasured.READ_FAILED
        doubts = {
            owner: _Doubt(
                reason, before[owner].began_mono_ns if owner in before else mono_ns, mono_ns
            )
            for owner, reason in reasons.items()
        }
        for owner, doubt in before.items():
            if doubt.reason != Unmeasured.MPS or not usage.total.busy.core:
                doubts.setdefault(owner, doubt)
        return Doubts(doubts, mono_ns)

    def lately(self, mono_ns: int) -> "Doubts":
        """Without what no window raised that is the newest, or ended after the given moment.

        It is not for this to say when one about an MPS client is settled.
        """
        kept = {
            owner: doubt
            for owner, doubt in self._doubts.items()
            if doubt.last_mono_ns > mono_ns
            or doubt.last_mono_ns == self._newest_mono_ns
            or doubt.reason == Unmeasured.MPS
        }
        return Doubts(kept, self._newest_mono_ns)

    def reason(self, owner: Owner, since_mono_ns: int) -> Unmeasured | None:
        """Why the owner's part is not known, on average since then; None if it is."""
        doubt = self._doubts.get(owner)
        if doubt is None or doubt.reason != Unmeasured.MPS:
            return doubt.reason if doubt else None
        holds = doubt.began_mono_ns <= since_mono_ns < doubt.last_mono_ns
        return doubt.reason if holds else None
