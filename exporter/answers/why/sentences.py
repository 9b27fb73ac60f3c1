"""Sentences on one pod: its use, its waiting and who ran instead, what is not known. Pure.

``sentences`` turns a ``Case`` into at most eight of them, one of each topic. Whether its facts are
a node's or a Prometheus's makes no difference.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from exporter.answers.why.case import Case, OnCard
from exporter.model import Unmeasured
from exporter.model.alerts import NEAR_LIMIT, lost
from exporter.shown.marks import FEWER, MAKE_ROOM
from exporter.shown.printable import utc
from exporter.shown.reasonwords import UNMEASURED
from exporter.shown.words import ago, gib, joined, length

NOTEWORTHY = 0.01  # of the time
HELD_DOWN = 0.1  # of the time, as a mark on the page
# The bounds of the alert MgpuContainerStarved: why and the alert must not contradict each other.
PRESSED, FULL, BELOW = 0.5, 0.95, 0.9
IDLE_S = 60
_MAX_NAMES = 3

_HELD_BY = {
    "sw_power_cap": "its power limit",
    "sw_thermal": "heat",
    "hw_thermal": "heat",
    "hw_power_brake": "the power supply",
    "sync_boost": "the slowest board of its group",
}
_REASONS = {str(reason): words for reason, words in UNMEASURED.items()}
_OF_THE_BOARD = {Unmeasured.MIG, Unmeasured.PARTITIONED}  # nobody can read it for a part
_UNNAMED = {Unmeasured.CONTAINER_PENDING, Unmeasured.CONTAINER_UNKNOWN}
_OF_ITS_PART = "Several share this part of the GPU, or the driver does not count by part."


class Topic(StrEnum):
    """What a sentence is about, the most important first."""

    LOST = "lost"
    PLACEMENT = "placement"
    ENDED = "ended"
    USE = "use"
    WAITING = "waiting"
    CLOCKS = "clocks"
    MEMORY = "memory"
    IDLE = "idle"
    CARDS = "cards"
    UNKNOWN = "unknown"


class Sentence(NamedTuple):
    """A sentence. ``urgent`` ones stand before the others."""

    topic: Topic
    text: str
    urgent: bool = False


def sentences(case: Case) -> tuple[Sentence, ...]:
    """The sentences, the most important first."""
    # What is there of a lost card is of the time before: for seconds here, in a store for minutes.
    parts = [
        replace(part, core=None, waiting=None, memory_bytes=None) if _is_lost(part) else part
        for part in _of_whole_pods(case.parts)
    ]
    case = replace(case, parts=tuple(parts))
    found = (
        *_lost(case),
        *_misplaced(case),
        *_ended(case),
        *_use(case),
        *_waiting(case),
        *_clocks(case),
        *_memory(case),
        *_idle(case),
        *_cards(case),
        *_unknown(case),
    )
    # The sort is stable: both kinds keep the order of their topics.
    return tuple(sorted(found, key=lambda one: not one.urgent))


def _of_whole_pods(parts: Sequence[OnCard]) -> tuple[OnCard, ...]:
    """The parts, in which use of no container in particular is of all that it may be of.

    In a sandbox the use of several containers is one. It is compared with the sum of what they were
    promised: it is not true of it that nothing was.
    """
    of_pods = {(one.card.uuid, one.card.node): one for one in parts if not one.container}
    found: list[OnCard] = []
    for part in parts:
        place = part.card.uuid, part.card.node
        of, reasons = of_pods.get(place), _UNNAMED.intersection(part.unmeasured.values())
        if of is None or (part.container and not reasons):
            found.append(part)
        elif part.container:
            limits = (of.memory_limit_bytes, part.memory_limit_bytes)
            of_pods[place] = replace(
                of,
                share=sum(filter(None, (of.share, part.share))) or None,
                memory_limit_bytes=sum(filter(None, limits)) or None,
                scheme=of.scheme or part.scheme,
                unmeasured={**of.unmeasured, "which of its containers it was": min(reasons)},
            )
    return (*of_pods.values(), *found)


def _lost(case: Case) -> Iterator[Sentence]:
    """That a device of it is lost, which explains all that is not known there, and what to do."""
    by_remedy: dict[str, set[str]] = defaultdict(set)
    for part in case.parts:
        if _is_lost(part):
            by_remedy[part.card.lost or lost("", None)].add(part.card.name)
    for remedy, cards in by_remedy.items():
        are, it = ("is", "it") if len(cards) == 1 else ("are", "them")
        said = f"{joined(sorted(cards))} {are} lost, and nothing of {it} is known"
        yield Sentence(Topic.LOST, f"{said}. {remedy[:1].upper()}{remedy[1:]}.", urgent=True)


def _is_lost(part: OnCard) -> bool:
    return bool(part.card.lost) or Unmeasured.GPU_LOST in part.unmeasured.values()


def _misplaced(case: Case) -> Iterator[Sentence]:
    """That it is where it has no allocation, and what it uses there and where it has one."""
    elsewhere = [part for part in case.parts if part.misplaced]
    whose = {part.container for part in elsewhere}
    own = [part for part in case.parts if part.misplaced is False]
    own = [part for part in own if not part.container or part.container in whose or "" in whose]
    if not elsewhere:
        return
    there, here = (sorted({part.card.name for part in parts}) for parts in (elsewhere, own))
    but = f"but was allocated {_joined(here)}" if here else "which it was not allocated"
    used = [
        f"{'an unknown part' if part.core is None else f'{part.core:.0%}'} of {part.card.name}"
        + ("" if part.memory_bytes is None else f" with {gib(part.memory_bytes)} held")
        for part in (*elsewhere, *own)
    ]
    said = f"It runs on {_joined(there)}, {but}: in {case.span} it used {_joined(used)}."
    yield Sentence(Topic.PLACEMENT, said, urgent=True)


def _ended(case: Case) -> Iterator[Sentence]:
    if case.ended_unix_s is not None:
        at = _moment(case.ended_unix_s, case)
        said = f"It has ended, or is not measured any more: it was last seen {at}."
        yield Sentence(Topic.ENDED, said, urgent=True)


def _use(case: Case) -> Iterator[Sentence]:
    known = [part for part in case.parts if part.core is not None]
    if not known:
        return
    within = f"in {case.span}"
    # What it uses on a card that it was not allocated is used of its share, too.
    promised = [part for part in known if part.share or part.misplaced]
    share = sum(part.share or 0.0 for part in promised)
    used = sum(part.core or 0.0 for part in promised)
    of_it = f"{used / share:.0%}" if share else ""
    more = ", beyond which it may use what is free" * any(part.may_borrow for part in promised)
    if len(known) == 1:
        [part] = known
        said = f"It used {part.core:.0%} of {part.card.name} {within}"
        of_share = f"; its share is {share:.0%}{more}, and it used {of_it} of that"
    else:
        total = sum(part.core or 0.0 for part in known)
        least = min(known, key=lambda part: part.core or 0.0)
        said = (
            f"It used {total:.2f} GPUs {within}, least of {_place(least, case)} ({least.core:.0%})"
        )
        of_share = f"; its shares are {share:.2f} GPUs{more}, and it used {of_it} of them"
    if not share:
        schemes = sorted({part.scheme for part in known} - {""})
        by = f" ({', '.join(schemes)})" if schemes else ""
        of_share = f"; no share of the core is promised to it{by}"
    yield Sentence(Topic.USE, f"{said}{of_share}.")


def _waiting(case: Case) -> Iterator[Sentence]:
    known = [part for part in case.parts if part.waiting is not None]
    if not known:
        return
    worst = max(known, key=lambda part: part.waiting or 0.0)
    waiting = worst.waiting or 0.0
    if waiting < NOTEWORTHY:
        # With nobody beside it, that it did not wait says nothing.
        if any(part.card.others for part in known):
            yield Sentence(Topic.WAITING, "It did not wait for others.")
        return
    place = f" on {_place(worst, case)}" if len(case.parts) > 1 else ""
    others = _for_whom(worst.waiting_on, waiting, f"{case.namespace}/{case.pod}")
    within = case.span
    if worst.waiting_s is not None:
        within = f"the {length(worst.waiting_s)} of {within} in which waiting was counted"
    said = f"It may have waited for others up to {waiting:.0%} of {within}{place}{others}."
    starved = _is_starved(worst)
    if starved:
        over = worst.card.over
        # Who ran while it waited, as far as that is recorded; else all who are over their share
        # there. A node and a Prometheus add up in another order: the last digits must not choose a
        # name.
        named = [each for each in worst.waiting_on or over if each in over]
        most = sorted(named, key=lambda each: (-round(over[each], 9), each))[:_MAX_NAMES]
        said += "".join(f" {name} is at {over[name]:.0%} of its share." for name in most)
        said += f" To do: {FEWER if worst.share is None else MAKE_ROOM}."
    yield Sentence(Topic.WAITING, said, urgent=starved)


def _for_whom(waiting_on: Mapping[str, float] | None, waiting: float, pod: str) -> str:
    if waiting_on is None:
        return "; who ran instead is not recorded (--metrics.enable=contention)"
    order = sorted(waiting_on.items(), key=lambda each: (-each[1], each[0]))
    named = [
        ("its own other containers" if name == pod else name, waited)
        for name, waited in order
        if waited >= NOTEWORTHY
    ]
    if not named:
        return "; no name is recorded of who ran instead"
    (first, most), *others = named[:2]
    if not others and most >= waiting * FULL:
        return f", all of it for {first}"
    if most >= waiting / 2:
        return f", most of it for {first}" + "".join(f", then for {name}" for name, _ in others)
    each = ", ".join(f"{waited:.0%} for {name}" for name, waited in named[:2])
    # Who ran may have had no name, or the counters by name may have begun within the range.
    is_mostly_unnamed = sum(waiting_on.values()) < waiting / 2
    return f": {each}" + "; no name is recorded for most of it" * is_mostly_unnamed


def _is_starved(part: OnCard) -> bool:
    """Waiting alone proves nothing: a program that pauses looks the same."""
    is_full = part.card.busy is not None and part.card.busy >= FULL
    if part.share is None:
        return is_full and (part.waiting or 0.0) >= PRESSED
    return is_full and part.core is not None and part.core < part.share * BELOW


def _clocks(case: Case) -> Iterator[Sentence]:
    cards = {part.card.uuid: part.card for part in case.parts}
    by_cause: dict[str, dict[str, float]] = defaultdict(dict)
    for card in cards.values():
        for reason, time in card.throttled.items():
            cause = _HELD_BY.get(reason, reason)
            if time >= HELD_DOWN:
                # Two of its reasons may be one cause, as heat, and hold at once: the longer one
                # counts. As stores make rates, it may be a little above all of the time.
                most = max(time, by_cause[cause].get(card.name, 0.0))
                by_cause[cause][card.name] = min(1.0, most)
    if not by_cause:
        return
    order = sorted(by_cause.items(), key=lambda each: -max(each[1].values()))
    said = " and ".join(
        _joined([f"{name} {time:.0%} of the time" for name, time in sorted(held.items())])
        + f" by {cause}"
        for cause, held in order
    )
    # A board with all its work is at its power limit as a rule: that alone is no alarm.
    unusual = any(cause != _HELD_BY["sw_power_cap"] for cause in by_cause)
    yield Sentence(Topic.CLOCKS, f"Clocks were held down: {said}.", urgent=unusual)


def _memory(case: Case) -> Iterator[Sentence]:
    known = [one for one in case.parts if one.memory_bytes is not None]
    if not known:
        return
    limited = [part for part in known if part.memory_limit_bytes or part.misplaced]
    holds = "It holds" if case.ended_unix_s is None else "It held"
    if not any(part.memory_limit_bytes for part in limited):
        held = gib(sum(part.memory_bytes or 0.0 for part in known))
        yield Sentence(Topic.MEMORY, f"{holds} {held} of memory; no limit is known.")
        return
    fullest, place = max(limited, key=_fullness), ""
    if any(part.misplaced for part in limited):  # what it holds elsewhere is a part of its own too
        fullest = replace(
            fullest,
            memory_bytes=sum(part.memory_bytes or 0.0 for part in limited),
            memory_limit_bytes=sum(part.memory_limit_bytes or 0.0 for part in limited),
        )
    else:
        place = f" on {_place(fullest, case)}"
    ratio = _fullness(fullest)
    near = ratio >= NEAR_LIMIT and case.ended_unix_s is None
    held, limit = gib(fullest.memory_bytes or 0.0), gib(fullest.memory_limit_bytes or 0.0)
    said = f"{holds} {held} of its {limit} of memory{place} ({ratio:.0%})"
    end = ": the next allocation may fail." if near else "."
    yield Sentence(Topic.MEMORY, said + end, urgent=near)


def _fullness(part: OnCard) -> float:
    return (part.memory_bytes or 0.0) / part.memory_limit_bytes if part.memory_limit_bytes else 0.0


def _idle(case: Case) -> Iterator[Sentence]:
    times = [part.last_active_unix_s for part in case.parts if part.last_active_unix_s is not None]
    if times:
        until_s = case.unix_s if case.ended_unix_s is None else case.ended_unix_s
        if until_s - max(times) >= IDLE_S:
            yield Sentence(Topic.IDLE, f"It last ran on a GPU {_moment(max(times), case)}.")
    # Not "is falsy": what is not measured may have run.
    elif case.parts and all(part.core == 0 for part in case.parts):
        yield Sentence(Topic.IDLE, "It has not run on a GPU since counting began.")


def _cards(case: Case) -> Iterator[Sentence]:
    moved = any(part.misplaced for part in case.parts)
    cards = {
        part.card.uuid: part.card
        for part in case.parts
        if not moved or part.misplaced or part.core or part.memory_bytes
    }
    if not cards:
        return
    places = []
    for card in cards.values():
        more = ", ".join(filter(None, (card.model, f"node {card.node}" if card.node else "")))
        places.append(f"{card.name} ({more})" if more else card.name)
    others = [card.others for card in cards.values()]
    known = sorted({name for names in others for name in names or ()})
    if known:
        company = f" with {_joined(known)}"
    elif any(names is None for names in others):
        company = ""
    else:
        company = ", with no other that can be seen"
    is_on = "It is on" if case.ended_unix_s is None else "It was on"
    yield Sentence(Topic.CARDS, f"{is_on} {_joined(places)}{company}.")


def _unknown(case: Case) -> Iterator[Sentence]:
    by_reason: dict[str, set[str]] = defaultdict(set)
    for part in case.parts:
        for quantity, reason in part.unmeasured.items():
            if reason == Unmeasured.GPU_LOST:  # said before all else
                continue
            # These figures exist for a board only. Of a part, the core alone is worth a word.
            if part.card.is_part and reason in _OF_THE_BOARD:
                if quantity == "core":
                    by_reason[_OF_ITS_PART].add(quantity)
                continue
            by_reason[reason].add(quantity.replace("_", " "))
    blind = bool(case.parts) and all(
        part.core is None and not _is_lost(part) for part in case.parts
    )
    if blind and not by_reason:
        by_reason[""].add("core")
    if not by_reason:
        return
    order = sorted(by_reason.items(), key=lambda each: ("core" not in each[1], each[0]))
    said = " ".join(
        f"Not known: {_joined(sorted(what))}. {_REASONS.get(why, why)}" for why, what in order[:2]
    )
    more = len(order) - 2
    rest = f" {more} more reasons are in …_unmeasured." if more > 0 else ""
    yield Sentence(Topic.UNKNOWN, said.strip() + rest, urgent=blind)


def _place(part: OnCard, case: Case) -> str:
    many = len({one.container for one in case.parts}) > 1
    by = f" by {part.container}" if many and part.container else ""
    return f"{part.card.name}{by}"


def _moment(unix_s: float, case: Case) -> str:
    return f"{ago(case.unix_s - unix_s)}, at {utc(unix_s, '%Y-%m-%d %H:%M UTC')}"


def _joined(names: Sequence[str]) -> str:
    return joined(names, _MAX_NAMES)
