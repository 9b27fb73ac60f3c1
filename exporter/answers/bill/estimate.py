"""A bill at once, from what rules recorded: by namespace and model, without pods and cards.

It reads ``namespace:mgpu_billed_gpus:rate5m`` of rules/mgpu-recording.yaml, which is asked of a few
series a node in place of each counter.
"""

from collections import defaultdict

from exporter.answers.bill.bill import Bill, BillRow, Period, Unpriced
from exporter.answers.bill.money import HOUR_MS, Prices, cost_of
from exporter.answers.bill.parts import NOBODY, Part, Payer
from exporter.answers.reading.queryapi import Grid, Labels, Prometheus
from exporter.answers.reading.ranges import DAY_S, days_of
from exporter.answers.reading.who import CardFacts
from exporter.httpclient import NoAnswerError

RECORDED = "namespace:mgpu_billed_gpus:rate5m"
_EVERY_S = 120  # it is looked at so often, however often it is recorded
_BY = "model, namespace, exported_namespace, kind, part"
_PLACE = "cluster, job, instance"


def estimated(
    prometheus: Prometheus, prices: Prices, method: str, since_s: int, until_s: int
) -> tuple[Bill, list[Period]]:
    """The estimate of a range, a row for each day, payer, model and part; and the days without any.

    Raises:
        NoAnswerError: Prometheus does not answer, or nothing is recorded.
        Unpriced: there are cards without a price.

    """
    rows: list[BillRow] = []
    unpriced: set[str] = set()
    days = [Period(*day) for day in days_of(since_s, until_s)]
    found = _hours(prometheus, method, days)
    for day in days:
        for (payer, model, part), hours in sorted(found[day].items()):
            milliseconds = round(hours * HOUR_MS)
            priced = prices.of(model, {})
            if priced is None:
                unpriced.add(model)
            elif milliseconds:
                cost = cost_of(milliseconds, priced.hourly)
                card = CardFacts("", "", model, {})
                rows.append(BillRow(card, day, payer, part, milliseconds, cost, priced.hourly))
    if unpriced:
        raise Unpriced(sorted(unpriced))
    if not rows:
        raise NoAnswerError(
            f"{prometheus.address} has no {RECORDED} in this range: an estimate reads what "
            "rules/mgpu-recording.yaml records; without --estimate the counters themselves are read"
        )
    bill = Bill(since_s, until_s, method, prices.currency, tuple(rows))
    return bill, [day for day in days if not found[day]]


def _hours(
    prometheus: Prometheus, method: str, days: list[Period]
) -> dict[Period, dict[tuple[Payer, str, Part], float]]:
    """The GPU hours of each day. Whole days are one question."""
    selector = prometheus.selector([RECORDED], method=method)
    found: dict[Period, dict[tuple[Payer, str, Part], float]]
    found = {day: defaultdict(float) for day in days}

    def asked(seconds: int) -> str:
        # A second less: to some versions both ends of a range belong to it. Two jobs that scrape
        # one exporter are still two; replicas of a Prometheus are one.
        looks = f"sum_over_time({selector}[{seconds - 1}s:{_EVERY_S}s])"
        return f"sum by ({_BY}) (max by ({_PLACE}, {_BY}) ({looks})) * {_EVERY_S} / 3600"

    whole = [day for day in days if day.until_s - day.since_s == DAY_S]
    for day in days:
        if day not in whole:
            for one in prometheus.at(asked(day.until_s - day.since_s), day.until_s):
                found[day][_row(one.labels)] += one.values[-1]
    if whole:
        by_end = {float(day.until_s): day for day in whole}
        grid = Grid(whole[0].until_s, whole[-1].until_s, DAY_S)
        for one in prometheus.over(asked(DAY_S), grid):
            for at_s, hours in one.samples:
                found[by_end[at_s]][_row(one.labels)] += hours
    return found


def _row(labels: Labels) -> tuple[Payer, str, Part]:
    """Who pays, the card's model, and the part."""
    namespace = labels.get("exported_namespace") or labels.get("namespace", "")
    kind = labels.get("kind", "")
    part = Part(labels.get("part", Part.UNOBSERVED))
    payer = Payer(namespace) if namespace else Payer("", kind) if kind else NOBODY
    return payer, labels.get("model", ""), part
