"""Marks a test as the replay of one public report, with the verdict of its first try.

A test, or one set of its parameters, is one report: ``@report(...)`` or ``pytest.param(...,
marks=report(...))``. All arguments are literals, since ``docs/pages/field.py`` reads them from the
source. The test asserts what is right, whatever was seen at first. A fault that is not mended yet
is ``xfail(strict=True)`` beside it. An ``unknown`` one has an input too, and asserts what is known.
"""

from typing import Literal

import pytest

Group = Literal["kubernetes", "nvidia", "vendors", "batch", "runtimes", "series", "configuration"]
Verdict = Literal["right", "wrong", "unknown"]


def report(
    *,
    source: str,
    seen: str,
    first: Verdict,
    group: Group,
    kind: str = "",
    settled: str = "",
) -> pytest.MarkDecorator:
    """The mark of a replayed report.

    ``source`` names project and number, ``seen`` says in one sentence of our own what was seen
    there. ``first`` is how this exporter did at the first try, before any fix: a wrong one has a
    ``kind`` of fault, and of an unknown one ``settled`` says what would settle it.
    """
    return pytest.mark.report(
        source=source, seen=seen, first=first, group=group, kind=kind, settled=settled
    )
