"""Runs ``mgpu-exporter check`` as a process, and makes evidence for single examinations."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from exporter.agent.doctor import CheckResult, ProbeResults
from exporter.agent.doctor.evidence import ClockReading
from exporter.agent.settings import Settings, load
from tests.e2e.programs import OWN_NODE


class Report(NamedTuple):
    """What the command said."""

    status: int
    findings: list[dict[str, str]]

    def of(self, room: str, subject: str) -> dict[str, str]:
        """The one finding about this."""
        [found] = [f for f in self.findings if (f["room"], f["subject"]) == (room, subject)]
        return found

    def problems(self) -> list[tuple[str, str]]:
        """Rooms and subjects of all problems."""
        return [(f["room"], f["subject"]) for f in self.findings if f["verdict"] == "problem"]


def check(*flags: str, environment: Mapping[str, str] | None = None, wrap: str = "") -> Report:
    """Run it; ``wrap`` is a command that is put before it."""
    done = subprocess.run(
        [*wrap.split(), sys.executable, "-m", "exporter", "check", "--format=json", *flags],
        env={**os.environ, **OWN_NODE, **(environment or {})},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == b"", done.stderr.decode()
    whole = json.loads(done.stdout)
    assert done.returncode == (0 if whole["ok"] else 1)
    return Report(done.returncode, whole["findings"])


def settings(**flags: str) -> Settings:
    """Settings by the names of their fields."""
    given = {name.replace("__", "-").replace("_", "."): [text] for name, text in flags.items()}
    return load(given, {})


def evidence(given: Settings, **more: object) -> ProbeResults:
    """Nothing but the settings and a steady clock, and what else is given."""
    now = ClockReading(time.monotonic_ns(), time.time_ns())
    return replace(ProbeResults(given, now, now), **more)  # type: ignore[arg-type] # its fields


def by_subject(findings: Iterable[CheckResult]) -> dict[str, CheckResult]:
    """The findings, each of another subject."""
    listed = list(findings)
    found = {finding.subject: finding for finding in listed}
    assert len(found) == len(listed), listed
    return found
