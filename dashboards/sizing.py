"""What a workload should ask for, by what rules/mgpu-recording.yaml records of it.

The rules of exporter/answers/advise/sizing.py are recorded each half hour, so that the board
asks for verdicts, and not for a week of samples.
"""

from dashboards.frame import to
from dashboards.panels import BAD, FREE, GOOD, IDLE, LOOK, Panel, Words, stat
from dashboards.tables import OWN_CLUSTER, Column, colored, table, tinted
from exporter.answers.advise.amounts import Resource
from exporter.answers.advise.sizing import LATELY, SizingOutcome
from rules.sizing import KNOWN_FOR, OVER, SHOWN, name

SELECTED = 'cluster=~"$cluster",$namespace_label=~"$namespace"'


def _figure(
    resource: Resource, figure: str, over: str = KNOWN_FOR, selector: str = SELECTED
) -> str:
    """What was recorded last of a figure, without the series' name."""
    return f"last_over_time({name(resource, figure)}{{{selector}}}[{over}])"


def _by_workload(resource: Resource, figure: str, selector: str) -> str:
    found = _figure(resource, figure, selector=selector)
    return f"max by ({BY_WORKLOAD}) ({found})"  # or rows fall apart


def by_what_is_freed(resource: Resource, selector: str = SELECTED) -> str:
    """What says which rows are the largest: what each workload could give back."""
    freed, outcome = (_by_workload(resource, one, selector) for one in ("freed", "outcome"))
    return f"({freed} or 0 * {outcome})"


def largest_of(resource: Resource) -> str:
    """The variable with the workloads that a table shows."""
    return f"largest_{resource}_advice"


BY_WORKLOAD = "cluster, $namespace_label, owner_kind, owner_name, $container_label"
NOT_RECORDED = "Not yet: judged hourly"
_VERDICTS = {
    "lower": IDLE,
    "raise": BAD,
    "keep": GOOD,
    "at_least": LOOK,
    "refused": FREE,
}
ADVICE: Words = {str(one.code): (one.words, _VERDICTS[one.verdict]) for one in SizingOutcome}


def freed(resource: Resource, unit: str) -> Panel:
    """What all lower advice together gives back."""
    outcome, given_back = _figure(resource, "outcome"), _figure(resource, "freed")
    return stat(
        f"{resource.title()} that could be freed",
        f"What all workloads whose advice is to lower their {resource} would give back, in "
        f"{'GPUs' if resource is Resource.CORE else 'bytes of device memory'}.",
        # none is not nothing where all advice is refused
        f"sum({given_back}) or 0 * sum({_figure(resource, 'recommended')})",
        unit,
        nothing="No workload has advice",
        # the rules have stopped
        unknown=f"(group({_figure(resource, 'outcome', LATELY)}) unless group({outcome}))",
        width=12,
    ).time_from(OVER)


def to_ask_for(resource: Resource, unit: str, of_all: str) -> Panel:
    """A row for each workload: what it has, what it used, what it should ask for."""
    # A pod without an owner has no name there that Grafana could find.
    of_largest = f'{SELECTED},owner_name=~"|${largest_of(resource)}"'
    figures = {one: _by_workload(resource, one, of_largest) for one in SHOWN}
    return table(
        f"{resource.title()} to ask for",
        "What the command advise says, by the same rules: amounts are of one card, what could be "
        "freed is of all pods and cards. docs/your-pods.md says what the advice means.",
        {
            "namespace": "Namespace",
            "owner_kind": "Kind",
            "owner_name": "Owner",
            "container": "Container",
            "cluster": "Cluster",
        },
        [
            Column("To free", figures["freed"], of_all, tinted(((None, IDLE),))),
            Column("Allocated", figures["allocated"], unit),
            Column("Typical", figures["typical"], unit),
            Column("Peak", figures["peak"], unit),
            Column("Ask for", figures["recommended"], unit),
            Column("Advice", figures["outcome"], "short", colored(words=ADVICE)),
        ],
        links={
            "Namespace": to("overview", "overview", cluster=OWN_CLUSTER, namespace="${__value.raw}")
        },
        nothing=NOT_RECORDED,
        known=_figure(resource, "outcome"),
        largest=by_what_is_freed(resource),
        among=by_what_is_freed(resource, of_largest),
        widest="Owner",
    ).time_from(OVER)
