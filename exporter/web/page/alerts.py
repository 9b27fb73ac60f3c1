"""The alert rules whose conditions hold, each with whether it is pending or fires. Pure."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from exporter.model import HeldCondition, Snapshot
from exporter.model.alerts import STUCK_S
from exporter.rows.alerts import MOST_HELD, NOT_HERE, RULES, AlertRule
from exporter.web.page.entries import Json
from exporter.web.page.html import Html, h, many

RUNBOOKS = "https://github.com/mgpu-exporter/mgpu-exporter/blob/main/docs/runbooks"
NAMED = 5  # what a rule holds for
MINUTE_S = 60
STUCK = next(rule for rule in RULES if rule.name == "MgpuExporterStuck")


class Holding(NamedTuple):
    """A rule that holds: what for, and for how long in seconds, the longest of them."""

    rule: AlertRule
    subjects: list[str]
    for_s: float

    @property
    def fires(self) -> bool:
        """Whether the condition has held for as long as the rule asks for."""
        return self.for_s >= self.rule.wait * MINUTE_S


def visible(
    snapshot: Snapshot, namespaces: Collection[str] | None = None
) -> Sequence[HeldCondition]:
    """The conditions that a client may see who sees these namespaces; None: all of the node."""
    if namespaces is None:
        return snapshot.held
    return [c for c in snapshot.held if c.namespace is None or c.namespace in namespaces]


def holding(document: Json, held: Sequence[HeldCondition], at_mono_ns: int) -> list[Holding]:
    """The rules that hold. ``at_mono_ns`` is the moment of the document's snapshot.

    Of a stale snapshot nothing is known but its age.
    """
    age_s = document["snapshot"]["age_seconds"]
    if age_s > STUCK_S:
        return [Holding(STUCK, ["this exporter"], age_s - STUCK_S)]
    if document["snapshot"]["stale"]:
        return []
    found = []
    for rule in RULES:
        own = [each for each in held if each.rule == rule.name]
        if own:
            since = min(each.since_mono_ns for each in own)
            subjects = [each.subject for each in own]
            found.append(Holding(rule, subjects, (at_mono_ns - since) / 1e9 + age_s))
    return found


def alerts(document: Json, held: Sequence[HeldCondition], at_mono_ns: int) -> Html | None:
    """The rules that hold, as a list that opens; None if none does."""
    rules = holding(document, held, at_mono_ns)
    if not rules:
        return None
    firing = sum(each.fires for each in rules)
    count = h("span", {"class": "count"}, f"{firing} firing, {len(rules) - firing} pending")
    note = (
        "Evaluated here each ten seconds, for pods each minute, with the shipped thresholds and "
        "times; the chart may have changed those of Prometheus. Times count from this exporter's "
        f"start at the earliest, and at most {MOST_HELD} conditions are followed. Not evaluated "
        f"here, because they need rates or other machines: {', '.join(NOT_HERE)}."
    )
    is_bad = any(each.rule.severity == "critical" for each in rules)
    return h(
        "details",
        {"class": "alerts", "data-k": "alerts", "open": is_bad},
        h("summary", None, h("h2", None, "Alert rules", count), _severities(rules)),
        h("ul", None, [_rule(each) for each in rules]),
        h("p", {"class": "quiet"}, note),
    )


def _severities(rules: Sequence[Holding]) -> list[Html]:
    counts = dict.fromkeys((each.rule.severity for each in rules), 0)
    for each in rules:
        counts[each.rule.severity] += 1
    return [h("span", {"class": f"tag {name}"}, f"{n} {name}") for name, n in counts.items()]


def _state(each: Holding) -> str:
    minutes = int(each.for_s / MINUTE_S)
    if each.fires:
        return f"Firing for {minutes - each.rule.wait} min."
    return f"Pending, for {minutes} of {each.rule.wait} min."


def _rule(each: Holding) -> Html:
    rule, names = each.rule, each.subjects
    more = f" and {many(len(names) - NAMED, 'other')}" if len(names) > NAMED else ""
    link = {"href": f"{RUNBOOKS}/{rule.name}.md", "rel": "noreferrer"}
    listed = [
        (None if not n else ", ", h("bdi", None, name)) for n, name in enumerate(names[:NAMED])
    ]
    return h(
        "li",
        {"data-k": rule.name},
        h("span", {"class": f"tag {rule.severity}"}, rule.severity),
        h("a", link, rule.name),
        h("b", None, _state(each)),
        h("span", {"class": "quiet"}, rule.summary),
        h("span", {"class": "whom"}, listed, more),
    )
