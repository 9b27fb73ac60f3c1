"""Runs all checks in order, and writes the report as text or JSON."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import NamedTuple

from exporter import __version__
from exporter.agent.attribution.ownership import owner_of
from exporter.agent.doctor.allocationchecks import allocations
from exporter.agent.doctor.cgroupchecks import cgroups
from exporter.agent.doctor.evidence import (
    CheckResult,
    CheckVerdict,
    ProbeResults,
    note,
    ok,
    problem,
)
from exporter.agent.doctor.exporterchecks import clock, exporter
from exporter.agent.doctor.gpuchecks import gpus
from exporter.agent.doctor.groupchecks import groups
from exporter.agent.doctor.limitchecks import limits
from exporter.agent.doctor.podchecks import node, pods
from exporter.model import ContainerKey, GroupKey, Owner, Unattributed
from exporter.shown.printable import printable
from exporter.shown.words import plural

logger = logging.getLogger(__name__)

_KINDS = {
    "container": "of named containers",
    "pod": "of pods whose names are not known",
    "group": "of containers outside of pods",
    "unit": "of jobs, units, machines and users outside of pods",
    "host": "of the host, in no unit",
    "lost": "without a known owner",
}


def together(evidence: ProbeResults) -> Iterator[CheckResult]:
    """Counts the processes on GPUs by the kind of their owner."""
    if not evidence.identities:
        yield note("processes on GPUs", "there are none now; run check again while one works")
        return
    owners = {pid: owner_of(found, evidence.table) for pid, found in evidence.identities.items()}
    kinds = Counter(_kind(owner) for owner in owners.values())
    words = ", ".join(f"{kinds[kind]} {_KINDS[kind]}" for kind in _KINDS if kinds[kind])
    if kinds["lost"] or kinds["pod"]:
        remedy = "see cgroups for those without an owner, pods for those without a name"
        yield note("processes on GPUs", words, remedy)
    else:
        yield ok("processes on GPUs", words)


def _kind(owner: Owner) -> str:
    if isinstance(owner, ContainerKey):
        return "container"
    if isinstance(owner, GroupKey):
        units = {"slurm", "systemd", "user", "lxc", "nspawn", "libvirt", "qemu", "host", "cgroup"}
        return "pod" if owner.kind == "pod" else "unit" if owner.kind in units else "group"
    return "host" if owner is Unattributed.HOST_PROCESS else "lost"


class ReportEntry(NamedTuple):
    """A result and the room that it is about."""

    room: str
    finding: CheckResult


EXAMINATIONS: dict[str, Callable[[ProbeResults], Iterator[CheckResult]]] = {
    "exporter": exporter,
    "cgroups": cgroups,
    "gpus": gpus,
    "limits": limits,
    "pods": pods,
    "node": node,
    "allocations": allocations,
    "groups": groups,
    "clock": clock,
    # The last one: it counts by owner what the checks before it explain.
    "together": together,
}


def examine(evidence: ProbeResults) -> Iterator[ReportEntry]:
    """All results. A check that fails itself is reported as a problem."""
    for room, look in EXAMINATIONS.items():
        try:
            for finding in look(evidence):
                yield ReportEntry(room, finding)
        except Exception as error:
            logger.debug("examining %s failed", room, exc_info=True)
            remedy = "report it, with the output of --log.level=debug"
            yield ReportEntry(room, problem("examination", f"failed: {error!r}"[:300], remedy))


_COLOURS = {
    CheckVerdict.OK: "\x1b[32m",
    CheckVerdict.NOTE: "\x1b[33m",
    CheckVerdict.PROBLEM: "\x1b[1;31m",
}
_END = "\x1b[0m"
_SUBJECT, _VERDICT = 20, 9
_LEAST_WIDTH = 60


def as_text(examined: Sequence[ReportEntry], width: int, *, coloured: bool) -> str:
    """The report as text: the results by room, then their counts."""
    lines: list[str] = []
    room = ""
    for one in examined:
        if one.room != room:
            room = one.room
            lines += ["", room] if lines else [room]
        lines += _lines(one.finding, max(width, _LEAST_WIDTH), coloured=coloured)
    counts = Counter(one.finding.verdict for one in examined)
    problems, notes = counts[CheckVerdict.PROBLEM], counts[CheckVerdict.NOTE]
    summed = f"{plural(problems or 'no', 'problem')}, {plural(notes or 'no', 'note')}"
    return "\n".join([*lines, "", summed, ""])


def _lines(finding: CheckResult, width: int, *, coloured: bool) -> list[str]:
    word = str(finding.verdict)
    shown = f"{_COLOURS[finding.verdict]}{word}{_END}" if coloured else word
    subject = f"{printable(finding.subject):<{_SUBJECT}} "
    indent = " " * (2 + _VERDICT)
    found = wrap(printable(finding.found), width - len(indent + subject)) or [""]
    lines = [f"  {shown}{' ' * (_VERDICT - len(word))}{subject}{found[0]}"]
    lines += [indent + " " * len(subject) + more for more in found[1:]]
    for more in (finding.remedy, finding.privilege and f"needs {finding.privilege}"):
        first, later = f"{indent}→ ", f"{indent}  "
        lines += wrap(printable(more), width, initial_indent=first, subsequent_indent=later)
    return lines


def as_json(examined: Sequence[ReportEntry]) -> str:
    """The report as one JSON object: version, whether there is no problem, and the results."""
    findings = [{"room": one.room, **asdict(one.finding)} for one in examined]
    whole = {
        "version": __version__,
        "ok": all(one.finding.verdict is not CheckVerdict.PROBLEM for one in examined),
        "findings": findings,
    }
    return json.dumps(whole, indent=2) + "\n"
