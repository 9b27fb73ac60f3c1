"""The command ``check --url``: what a running exporter misses, by its own word and rights."""

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from exporter.answers.reading.accessflags import far_feed
from exporter.answers.reading.feeds.nodedocument import facts_of_document
from exporter.answers.reading.feeds.remote import RemoteFeed
from exporter.answers.reading.untrusted import Json, flag, inner, items, number, text
from exporter.console.output import say, warn
from exporter.httpclient import NoAnswerError
from exporter.model import DeviceState
from exporter.shown.marks import device_marks
from exporter.shown.printable import clean, printable
from exporter.shown.reasonwords import UNMEASURED
from exporter.shown.words import plural

# As a node's own ``check`` ends, and 2 for an exporter that does not answer.
_OK, _PROBLEM, _NOTHING = 0, 1, 2
_SUBJECT = 20


class Finding(NamedTuple):
    """One result: ``verdict`` is ok, note or problem; ``remedy`` is what to do."""

    room: str
    verdict: str
    subject: str
    found: str
    remedy: str = ""


def findings_of(document: Json) -> Iterator[Finding]:
    """What the answer to ``/api/v1/snapshot`` says of sources, GPUs and containers."""
    head = inner(document, "snapshot")
    age_s = number(head, "age_seconds") or 0.0
    if flag(head, "stale"):
        remedy = "its log says why; most often a driver call hangs"
        yield Finding("exporter", "problem", "figures", f"{age_s:.0f} s old", remedy)
    else:
        yield Finding("exporter", "ok", "figures", f"{age_s:.1f} s old")
    for source in items(document, "sources"):
        name, up = text(source, "name"), flag(source, "up")
        found = text(source, "detail") or ("up" if up else "down")
        verdict = "ok" if up else "problem"
        yield Finding("sources", verdict, name, found, text(source, "what_to_do"))
    facts = facts_of_document(document)
    unix_ns = round((number(head, "timestamp_seconds") or 0.0) * 1e9)
    for device in facts.devices:
        name = f"GPU {device.device.number}"
        marks = [mark for mark in device_marks(device, unix_ns) if mark.is_severe]
        if marks:
            yield Finding("gpus", "problem", name, str(marks[0].kind), marks[0].detail)
        elif device.state is not DeviceState.UP:
            why = device.unmeasured.get("device")
            words = UNMEASURED[why] if why else ""
            yield Finding("gpus", "problem", name, str(device.state), words)
        else:
            yield Finding("gpus", "ok", name, device.device.model or "is read")
    blind = Counter(
        held.unmeasured["core"]
        for held in facts.holdings
        if not held.ended and "core" in held.unmeasured
    )
    for reason, count in sorted(blind.items()):
        found = f"the core of {count} is not known: {reason}"
        yield Finding("containers", "note", "containers, groups", found, UNMEASURED[reason])
    if facts.holdings and not blind:
        count = len({held.owner for held in facts.holdings if not held.ended})
        yield Finding("containers", "ok", "containers, groups", f"{count}, all measured")


def check_exporter(arguments: Namespace) -> int:
    """Print the report; the exit status is 0, 1 if there is a problem, 2 if nothing answers."""
    try:
        feed = far_feed(arguments)
        assert isinstance(feed, RemoteFeed)  # noqa: S101 - it is asked with --url
        found = list(findings_of(feed.document))
    except NoAnswerError as error:
        warn(f"{arguments.program} check: {clean(str(error), longest=None)}")
        return _NOTHING
    problems = sum(one.verdict == "problem" for one in found)
    if arguments.format == "json":
        whole = {"ok": not problems, "findings": [one._asdict() for one in found]}
        say(json.dumps(whole, indent=2) + "\n")
        return _PROBLEM if problems else _OK
    lines: list[str] = []
    for room in dict.fromkeys(one.room for one in found):
        lines.append(room)
        for one in (each for each in found if each.room == room):
            subject = f"{printable(one.subject):<{_SUBJECT}}"
            lines.append(f"  {one.verdict:<8} {subject} {printable(one.found)}")
            lines += [f"{'':<11}→ {printable(one.remedy)}"] if one.remedy else []
    notes = sum(one.verdict == "note" for one in found)
    lines.append(f"{plural(problems or 'no', 'problem')}, {plural(notes or 'no', 'note')}")
    say("".join(f"{line}\n" for line in lines))
    return _PROBLEM if problems else _OK
