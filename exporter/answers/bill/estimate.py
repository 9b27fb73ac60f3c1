"""A bill at once, from what rules recorded: by namespace and model, without pods and cards.

It reads ``namespace:mgpu_billed_gpus:rate5m`` of rules/mgpu-recording.yaml, which is asked of a few
series a node in place of each counter.
"""

from collections import defaultdict

from exporter.answers.bill.bill import Bill, BillRow, Period, Unpriced
from exporter.answers.bill.money import HOUR_MS, Prices, cost_of
from exporter.answers.bill.parts import NOBODY, Part, Payer
from exporter.answers.reading.queryapi import Labels, Prometheus
from exporter.answers.reading.ranges import days_of
from exporter.answers.reading.who import CardFacts
from exporter.httpclient import NoAnswerError

RECORDED = "namespace:mgpu_billed_gpus:rate5m"
EVERY_S = 120  # it is looked at so often, however often it is recorded
_BY = "model, namespace, exported_namespace, kind, part"
# All other labels mark a target; which of them marks its cluster, each store says differently.
_OF_REPLICAS = "prometheus, prometheus_replica, replica, rule_replica, thanos_ruler_replica"


def estimated(
    prometheus: Prometheus, prices: Prices, method: str, since_s: int, until_s: int
) -> tuple[Bill, dict[Period, float]]:
    """The estimate of a range, a row for each day, payer, model and part; what of it is recorded.

    Raises:
        NoAnswerError: Prometheus does not answer, or nothing is recorded.
        Unpriced: there are cards without a price.

    """
    rows: list[BillRow] = []
    unpriced: set[str] = set()
    recorded_s: dict[Period, float] = {}
    for day in (Period(*day) for day in days_of(since_s, until_s)):
        found, recorded_s[day] = _hours(prometheus, method, day)
        for (payer, model, part), hours in sorted(found.items()):
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
    return bill, recorded_s


def _hours(
    prometheus: Prometheus, method: str, day: Period
) -> tuple[dict[tuple[Payer, str, Part], float], float]:
    """The GPU hours of a day, and for how many seconds of it the rules recorded anything."""
    selector = prometheus.selector([RECORDED], method=method)
    # A second less: to some versions both ends of a range belong to it. Two jobs that scrape
    # one exporter are still two; replicas of a Prometheus are one.
    steps = f"[{day.until_s - day.since_s - 1}s:{EVERY_S}s]"
    looks = f"max without ({_OF_REPLICAS}) (sum_over_time({selector}{steps}))"
    hours = f"sum by ({_BY}) ({looks}) * {EVERY_S} / 3600"
    found: dict[tuple[Payer, str, Part], float] = defaultdict(float)
    for one in prometheus.at(hours, day.until_s):
        found[_row(one.labels)] += one.values[-1]
    times = prometheus.at(f"count_over_time(count({selector}){steps})", day.until_s)
    return found, sum(one.values[-1] for one in times) * EVERY_S


def _row(labels: Labels) -> tuple[Payer, str, Part]:
    """Who pays, the card's model, and the part."""
    # Where a Prometheus does not honour a page's labels, ``namespace`` is that of the exporter's
    # pod.
    namespace = labels.get("exported_namespace") or labels.get("namespace", "")
    kind = labels.get("kind", "")
    part = Part(labels.get("part", Part.UNOBSERVED))
    payer = Payer(namespace) if namespace else Payer("", kind) if kind else NOBODY
    return payer, labels.get("model", ""), part
