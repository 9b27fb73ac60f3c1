"""Advice on what to ask for: by tables of what was seen, and never below what was used."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.prometheus.advice import Advice, Point, Reason, Resource, Seen, Verdict, advise

GIB = 1 << 30
STEP_S, WEEK = 300, 2016


def points(*values: float, card: float | None = None) -> list[Point]:
    """A week of these values in turn, the newest last."""
    return [
        Point((WEEK - step - 1) * STEP_S, values[step % len(values)], card) for step in range(WEEK)
    ]


CORE = Seen(
    resource=Resource.CORE,
    allocated=0.5,
    points=points(0.2),
    present=WEEK,
    step_s=STEP_S,
    life_s=WEEK * STEP_S,
    longest_s=WEEK * STEP_S,
    whole=1.0,
)
MEMORY = replace(
    CORE,
    resource=Resource.MEMORY,
    allocated=16.0 * GIB,
    points=points(3.0 * GIB, 4.0 * GIB),
    whole=22.0 * GIB,
)
POOL = replace(MEMORY, points=points(14.4 * GIB))
YOUNG = replace(CORE, present=36, life_s=3 * 3600, longest_s=3 * 3600, points=points(0.2)[-36:])


@pytest.mark.parametrize(
    ("seen", "verdict", "reason", "recommended"),
    [
        (CORE, Verdict.LOWER, None, 0.23),
        (replace(CORE, points=points(*[0.01] * 9, 0.4)), Verdict.KEEP, None, 0.5),
        (replace(CORE, points=points(0.46)), Verdict.RAISE, None, 0.53),
        (replace(CORE, points=points(0.0)), Verdict.LOWER, None, 0.01),
        (replace(CORE, points=points(0.48)), Verdict.AT_LEAST, Reason.AT_LIMIT, 0.56),
        (replace(CORE, points=points(1.0), allocated=1.0), Verdict.AT_LEAST, Reason.AT_LIMIT, 1.0),
        (replace(CORE, points=points(0.2, card=1.0)), Verdict.AT_LEAST, Reason.FULL_CARD, 0.5),
        (replace(CORE, allocated=None), Verdict.REFUSED, Reason.NOT_PROMISED, None),
        (replace(CORE, present=2500), Verdict.REFUSED, Reason.UNMEASURED, None),
        (replace(CORE, points=[]), Verdict.REFUSED, Reason.UNMEASURED, None),
        (YOUNG, Verdict.REFUSED, Reason.TOO_EARLY, None),
        (replace(CORE, longest_s=900), Verdict.REFUSED, Reason.SHORT_LIVED, None),
        (
            replace(CORE, life_s=900, longest_s=900, ended=True),
            Verdict.REFUSED,
            Reason.SHORT_LIVED,
            None,
        ),
        (replace(CORE, life_s=900, longest_s=900), Verdict.REFUSED, Reason.TOO_EARLY, None),
        (MEMORY, Verdict.LOWER, None, 4711 << 20),
        (replace(MEMORY, allocated=5.0 * GIB), Verdict.KEEP, None, 5 * GIB),
        (replace(MEMORY, allocated=4.3 * GIB), Verdict.RAISE, None, 4711 << 20),
        (replace(MEMORY, allocated=4.1 * GIB), Verdict.AT_LEAST, Reason.AT_LIMIT, 4711 << 20),
        (replace(MEMORY, allocated=None), Verdict.AT_LEAST, Reason.NOT_PROMISED, 4711 << 20),
        (POOL, Verdict.REFUSED, Reason.PREALLOCATED, None),
        (replace(POOL, pool_used=0.25), Verdict.REFUSED, Reason.PREALLOCATED, None),
        (replace(POOL, pool_used=0.97), Verdict.AT_LEAST, Reason.AT_LIMIT, 16958 << 20),
        (replace(POOL, pool_used=0.25, pool_bytes=8.0 * GIB), Verdict.LOWER, None, 9892 << 20),
        (
            replace(POOL, allocated=None, points=points(19.0 * GIB)),
            Verdict.REFUSED,
            Reason.PREALLOCATED,
            None,
        ),
    ],
)
def test_what_is_advised(
    seen: Seen, verdict: Verdict, reason: Reason | None, recommended: float | None
) -> None:
    made = advise(seen)
    assert (made.verdict, made.reason, made.recommended) == (
        verdict,
        reason,
        recommended if recommended is None else pytest.approx(recommended),
    )


def test_confidence_is_that_of_the_vertical_pod_autoscaler() -> None:
    assert advise(CORE).confidence == pytest.approx(7)
    assert advise(replace(CORE, points=points(0.2)[-288:])).confidence == pytest.approx(1)


def test_what_was_used_lately_counts_more() -> None:
    grown = [Point(point.age_s, 0.4 if point.age_s < 86_400 else 0.1) for point in points(0.1)]
    assert advise(replace(CORE, points=grown)).typical == pytest.approx(0.4)


AMOUNTS = st.floats(0, 1, allow_subnormal=False)


def _used(made: Advice) -> tuple[float, float]:
    assert made.typical is not None
    assert made.peak is not None
    return made.typical, made.peak


@given(
    st.lists(AMOUNTS, min_size=1, max_size=50),
    st.floats(0.01, 1),
    st.floats(1, 90),
    st.sampled_from(Resource),
)
def test_advice_is_never_below_what_was_seen_and_a_lower_bound_never_lowers(
    used: list[float], allocated: float, days: float, resource: Resource
) -> None:
    unit = 0.01 if resource is Resource.CORE else 1 << 20
    scale = 1.0 if resource is Resource.CORE else 16.0 * GIB
    seen = Seen(
        resource=resource,
        allocated=allocated * scale,
        points=[Point(at * STEP_S, value * scale) for at, value in enumerate(used)],
        present=len(used),
        step_s=STEP_S,
        life_s=days * 86_400,
        longest_s=days * 86_400,
        whole=scale,
    )
    made = advise(seen)
    typical, peak = _used(made)
    assert typical <= peak
    assert (made.recommended is None) == (made.verdict is Verdict.REFUSED)
    if made.recommended is None:
        assert made.reason is not None
        return
    needed = peak if resource is Resource.MEMORY else typical
    assert made.recommended >= min(needed, scale) - 1e-6
    if made.verdict in {Verdict.AT_LEAST, Verdict.RAISE, Verdict.KEEP}:
        assert made.recommended >= allocated * scale - 1e-6
    else:
        assert made.recommended < allocated * scale
        assert made.recommended / unit == pytest.approx(round(made.recommended / unit))
