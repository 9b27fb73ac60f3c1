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

    Where the driver tells nothing of an owner, doubt holds at once. Where it names one process of
    many at a time (MPS), it takes as long without being named as the averages go back: an owner
    who is named now and then is measured. A window in which nobody was busy raises no doubt and
    settles none.
    """

    __slots__ = ("_doubts",)

    def __init__(self, doubts: Mapping[Owner, _Doubt] = MappingProxyType({})) -> None:
        self._doubts = doubts

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._doubts)

    def __iter__(self) -> Iterator[Owner]:
        """The owners in doubt, or nearly so."""
        return iter(self._doubts)

    def then(self, usage: DeviceUsage, mono_ns: int) -> "Doubts":
        """Those after one window."""
        before, busy = self._doubts, usage.total.busy.core
        if not before and not usage.unmeasured:  # as nearly always
            return self
        if usage.unmeasured is None:
            return Doubts({o: d._replace(last_mono_ns=mono_ns) for o, d in before.items()})
        doubts = {
            owner: _Doubt(
                reason, before[owner].began_mono_ns if owner in before else mono_ns, mono_ns
            )
            for owner, reason in usage.unmeasured.items()
        }
        for owner, doubt in before.items():
            if doubt.reason == Unmeasured.MPS and not busy:
                doubts.setdefault(owner, doubt)
        return Doubts(doubts)

    def reason(self, owner: Owner, since_mono_ns: int) -> Unmeasured | None:
        """Why the owner's part is not known, on average since then; None if it is."""
        doubt = self._doubts.get(owner)
        if doubt is None or doubt.reason != Unmeasured.MPS:
            return doubt.reason if doubt else None
        holds = doubt.began_mono_ns <= since_mono_ns < doubt.last_mono_ns
        return doubt.reason if holds else None
