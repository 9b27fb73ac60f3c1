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
Round = Literal[1, 3]


def report(  # noqa: PLR0913 - each is a column
    *,
    source: str,
    seen: str,
    first: Verdict,
    group: Group,
    kind: str = "",
    settled: str = "",
    round: Round = 1,  # noqa: A002 - as the page calls it
    taught: str = "",
) -> pytest.MarkDecorator:
    """The mark of a replayed report.

    ``source`` names project and number, ``seen`` says in one sentence of our own what was seen
    there. ``first`` is how this exporter did at the first try, before any fix: a wrong one has a
    ``kind`` of fault, and of an unknown one ``settled`` says what would settle it.
    The marks of the first two rounds have no ``round``. ``taught`` is one sentence for the page,
    of the few reports of a round from which most was learned.
    """
    return pytest.mark.report(
        source=source,
        seen=seen,
        first=first,
        group=group,
        kind=kind,
        settled=settled,
        round=round,
        taught=taught,
    )
