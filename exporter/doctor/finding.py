"""What an examination finds."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How it is. A note is worth knowing and stops nothing that was asked for."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    ``remedy`` is what to do, ``privilege`` what a pod must be given for it, in the terms of its
    manifest: hostPID, a hostPath, a rule of a ClusterRole. Both "" where there is nothing to do.
    """

    subject: str
    verdict: Verdict
    found: str
    remedy: str = ""
    privilege: str = ""


def ok(subject: str, found: str) -> Finding:
    """It is as it should be."""
    return Finding(subject, Verdict.OK, found)


def note(subject: str, found: str, remedy: str = "", privilege: str = "") -> Finding:
    """Something is not there that was not asked for, or may be as wanted."""
    return Finding(subject, Verdict.NOTE, found, remedy, privilege)


def problem(subject: str, found: str, remedy: str, privilege: str = "") -> Finding:
    """Something that was asked for does not work."""
    return Finding(subject, Verdict.PROBLEM, found, remedy, privilege)
