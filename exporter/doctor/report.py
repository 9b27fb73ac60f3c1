"""The report, for people and for programs."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from textwrap import wrap

from exporter import __version__
from exporter.doctor.examine import Examined
from exporter.doctor.finding import Finding, Verdict

_COLOURS = {Verdict.OK: "\x1b[32m", Verdict.NOTE: "\x1b[33m", Verdict.PROBLEM: "\x1b[1;31m"}
_END = "\x1b[0m"
_SUBJECT, _VERDICT = 20, 9
_LEAST_WIDTH = 60


def as_text(examined: Sequence[Examined], width: int, *, coloured: bool) -> str:
    """Room by room, a line or more for each finding, then the sum."""
    lines: list[str] = []
    room = ""
    for one in examined:
        if one.room != room:
            room = one.room
            lines += ["", room] if lines else [room]
        lines += _lines(one.finding, max(width, _LEAST_WIDTH), coloured=coloured)
    return "\n".join([*lines, "", _sum(examined), ""])


def _lines(finding: Finding, width: int, *, coloured: bool) -> list[str]:
    word = str(finding.verdict)
    shown = f"{_COLOURS[finding.verdict]}{word}{_END}" if coloured else word
    subject = f"{printable(finding.subject):<{_SUBJECT}} "
    indent = " " * (2 + _VERDICT)
    told = wrap(printable(finding.found), width - len(indent + subject)) or [""]
    lines = [f"  {shown}{' ' * (_VERDICT - len(word))}{subject}{told[0]}"]
    lines += [indent + " " * len(subject) + more for more in told[1:]]
    for more in (finding.remedy, finding.privilege and f"needs {finding.privilege}"):
        first, later = f"{indent}→ ", f"{indent}  "
        lines += wrap(printable(more), width, initial_indent=first, subsequent_indent=later)
    return lines


def _sum(examined: Sequence[Examined]) -> str:
    counts = Counter(one.finding.verdict for one in examined)
    problems, notes = counts[Verdict.PROBLEM], counts[Verdict.NOTE]
    words = f"{problems or 'no'} problem{'' if problems == 1 else 's'}"
    return f"{words}, {notes or 'no'} note{'' if notes == 1 else 's'}"


def as_json(examined: Sequence[Examined]) -> str:
    """One object: version, whether there is no problem, and the findings in their order."""
    findings = [{"room": one.room, **asdict(one.finding)} for one in examined]
    whole = {
        "version": __version__,
        "ok": all(one.finding.verdict is not Verdict.PROBLEM for one in examined),
        "findings": findings,
    }
    return json.dumps(whole, indent=2) + "\n"


def printable(text: str) -> str:
    """Without anything that a terminal would act on."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
