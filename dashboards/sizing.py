"""What a workload should ask for, by what rules/mgpu-recording.yaml records of it.

The rules of exporter/answers/prometheus/sizing.py are recorded each half hour, so that the board
asks for verdicts, and not for a week of samples.
"""

from functools import partial

from dashboards.frame import to
from dashboards.panels import BAD, FREE, GOOD, IDLE, LOOK, Panel, Words, stat
from dashboards.tables import Column, colored, table, tinted
from exporter.answers.prometheus.amounts import Resource
from exporter.answers.prometheus.sizing import (
    ADVISED,
    CARDS,
    FREED,
    LATELY,
    LEVEL,
    NOW,
    RECOMMENDED,
    Outcome,
)
from rules.sizing import KNOWN_FOR, OVER, RECORDED, name

SELECTED = '{cluster=~"$cluster",$namespace_label=~"$namespace"}'


def _figure(resource: Resource, figure: str) -> str:
    """What was recorded last of a figure, without the series' name."""
    series, over = (
        (name(resource, figure), KNOWN_FOR) if figure in RECORDED else (LEVEL + CARDS, NOW)
    )
    return f"max without (scheme) (last_over_time({series}{SELECTED}[{over}]))"


def _figures(resource: Resource) -> dict[str, str]:
    """The expressions of a table's columns."""
    formulas = {"recommended": RECOMMENDED, "freed": FREED, "advised": ADVISED}
    written = partial(_figure, resource)
    found = {one: written(one) for one in RECORDED}
    return found | {one: formula.promql(written) for one, formula in formulas.items()}


BY_WORKLOAD = "cluster, $namespace_label, owner_kind, owner_name, $container_label"
NOT_RECORDED = "The recording rules have seen no allocation for half an hour"
_VERDICTS = {
    "lower": IDLE,
    "raise": BAD,
    "keep": GOOD,
    "at_least": LOOK,
    "refused": FREE,
}
ADVICE: Words = {str(one.code): (one.words, _VERDICTS[one.verdict]) for one in Outcome}


def freed(resource: Resource, unit: str) -> Panel:
    """What all lower advice together gives back."""
    found = _figures(resource)
    lately = f"last_over_time({name(resource, 'outcome')}{SELECTED}[{LATELY}])"
    return stat(
        f"{resource.title()} that could be freed",
        f"What all workloads whose advice is to lower their {resource} would give back, in "
        f"{'GPUs' if resource is Resource.CORE else 'bytes of device memory'}.",
        # none is not nothing where all advice is refused
        f"sum({found['freed']}) or 0 * sum({found['advised']})",
        unit,
        nothing="No workload has advice",
        unknown=f"(group({lately}) unless group({found['outcome']}))",  # the rules have stopped
        width=12,
    ).time_from(OVER)


def to_ask_for(resource: Resource, unit: str, of_all: str) -> Panel:
    """A row for each workload: what it has, what it used, what it should ask for."""
    figures = {
        one: f"max by ({BY_WORKLOAD}) ({expr})"  # one name of each label, or rows fall apart
        for one, expr in _figures(resource).items()
    }
    return table(
        f"{resource.title()} to ask for",
        "What the command advise says, by the same rules: amounts are of one card, what could be "
        "freed is of all pods and cards. docs/your-pods.md says what the advice means.",
        {
            "namespace": "Namespace",
            "owner_kind": "Kind",
            "owner_name": "Owner",
            "container": "Container",
        },
        [
            Column("Could be freed", figures["freed"], of_all, tinted(((None, IDLE),))),
            Column("Allocated", figures["allocated"], unit),
            Column("Typical", figures["typical"], unit),
            Column("Peak", figures["peak"], unit),
            Column("Ask for", figures["recommended"], unit),
            Column("Advice", figures["outcome"], "short", colored(words=ADVICE)),
        ],
        links={"Namespace": to("overview", "overview", namespace="${__value.raw}")},
        nothing=NOT_RECORDED,
        known=_figure(resource, "outcome"),
        largest=f"({figures['freed']} or 0 * {figures['outcome']})",
    ).time_from(OVER)
