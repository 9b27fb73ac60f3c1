"""Every query of every panel, asked of a real Prometheus that scrapes simulated nodes."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.dashboards.grafana import (
    LARGEST,
    PATHS,
    Ask,
    fill,
    load,
    options,
    panels,
    queries,
    refused,
    resolve,
    variables,
)
from tests.e2e.programs import eventually

pytestmark = pytest.mark.slow

WORLDS = {"honored": "pod", "exported": "exported_pod"}  # job → the label of a pod
FIXED = {
    "datasource": "",
    "__rate_interval": "20s",
    "__range": "1h",
    "__range_s": "3600",
    **LARGEST,
}  # the lost device was lost at the beginning
EVERY = dict.fromkeys(("node", "namespace", "pod"), ".*")  # of the boards that open with one
# What other tests hold, because it takes days or a model server: recorded series.
ELSEWHERE = (
    "namespace_workload_container:",  # tests/answers/advise/test_advise.py
    "_per_token:",  # tests/rules/test_tokens.py
    "_per_request:",
)
# Two jobs scrape the same pages here, and of two copies the records of cost count one.
COUNTED_ONCE = {"honored": ("namespace:mgpu_billed_gpus", "namespace_card:"), "exported": ()}
INSTEAD = "INSTEAD"  # a query that answers while the others of its timeline do not
# What is only found for a moment or on a larger cluster, and what is found instead here.
INSTEAD_HERE = {
    "XIDs over time": ("$__rate_interval", "$__range"),
    "Sources that were down": (" == 0", ""),
    "Power, by user": ("topk(8,", "topk(1,"),
    "GPUs in use, by Slurm account": ("topk(8,", "topk(1,"),
}


@pytest.mark.program("prometheus", "cc")
@pytest.mark.parametrize("job", WORLDS)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_query_finds_something(ask: Ask, path: Path, job: str) -> None:
    dashboard = load(path)
    values = resolve(dashboard, ask, {**FIXED, **EVERY, "job": job})
    assert values.get("pod_label", WORLDS[job]) == WORLDS[job]
    waiting = {
        (query.panel, fill(query.expr.replace(*INSTEAD_HERE.get(query.panel, ("", ""))), values))
        for query in queries(dashboard)
        if not query.letter.startswith(INSTEAD)
        and not any(name in query.expr for name in (*ELSEWHERE, *COUNTED_ONCE[job]))
    }

    def look() -> bool:
        waiting.difference_update([one for one in waiting if ask(one[1])])
        return not waiting

    with suppress(AssertionError):  # the one below says more
        eventually(look, "all queries have an answer")
    assert waiting == set()


@pytest.mark.program("prometheus", "cc")
def test_the_lines_of_groups_and_the_others_add_up_to_all(ask: Ask) -> None:
    """Short jobs are many: a chart draws few of them, and leaves none out."""
    dashboard = load(next(path for path in PATHS if path.stem == "mgpu-groups"))
    values = resolve(dashboard, ask, {**FIXED, "job": "honored"})
    drawn = [query for query in queries(dashboard) if query.panel == "Memory held, by group"]
    few, others = (fill(query.expr, values).replace("topk(8,", "topk(1,") for query in drawn)
    every = "mgpu_group_memory_used_bytes{job='honored'}"

    eventually(lambda: ask(f"sum({few}) + {others} == sum({every})"), "the sum of all groups")
    assert len(ask(few)) <= 2 < len(ask(f"sum by (kind, group) ({every})"))


@pytest.mark.program("prometheus", "cc")
@pytest.mark.parametrize("job", WORLDS)
def test_what_can_be_chosen_is_the_workloads(ask: Ask, job: str) -> None:
    dashboard = load(next(path for path in PATHS if path.stem == "mgpu-pod"))
    values = resolve(dashboard, ask, {**FIXED, "node": ".*", "job": job})

    assert "inference" in options(dashboard, "namespace", ask, values)
    assert "chat-0" in options(dashboard, "pod", ask, {**values, "namespace": "inference"})
    assert "monitoring" not in options(dashboard, "namespace", ask, values)
    assert "node-0" in options(dashboard, "node", ask, values)


@pytest.mark.program("prometheus", "cc")
def test_the_pod_dashboard_opens_with_a_pod_that_is_at_work(ask: Ask) -> None:
    """By name the first would often be one that has ended."""
    dashboard = load(next(path for path in PATHS if path.stem == "mgpu-pod"))

    def at_work() -> bool:
        values = resolve(dashboard, ask, {**FIXED, "job": "honored"})
        used = f"rate(mgpu_pod_core_seconds_total{{pod='{values['pod']}'}}[20s]) > 0"
        return bool(ask(used))

    eventually(at_work, "a pod that uses a GPU")


@pytest.mark.program("prometheus", "cc")
@pytest.mark.parametrize("job", WORLDS)
def test_who_pays_has_a_name_in_every_row(ask: Ask, job: str) -> None:
    """Grafana joins a row without a namespace, as nobody's part is, to the row of each."""
    dashboard = load(next(path for path in PATHS if path.stem == "mgpu-cost"))
    values = resolve(dashboard, ask, {**FIXED, **EVERY, "job": job})
    label = values["namespace_label"]
    every = [q for q in queries(dashboard) if q.panel == "What each namespace pays"]
    exprs = [fill(query.expr, values) for query in every if query.letter != INSTEAD]
    eventually(lambda: any(ask(expr) for expr in exprs), "what is recorded of the cost")
    for row in (one["metric"] for expr in exprs for one in ask(expr)):
        assert row.get(label), row
        assert row.get("kind"), row
        # No pod has the namespace "(none)". A link that chose it would lead to an empty board.
        chosen = "$__all" if row[label] == "(none)" else row[label]
        assert row["own_namespace"] == chosen, row
        assert row["chosen"] == row.get("cluster", "$__all"), row


@pytest.mark.program("prometheus", "cc")
def test_alerts_stand_by_their_weight_and_in_their_cluster(ask: Ask) -> None:
    dashboard = load(next(path for path in PATHS if path.stem == "mgpu-overview"))
    values = resolve(dashboard, ask, {**FIXED, "job": "honored"})
    every = [q for q in queries(dashboard) if q.panel == "Alerts that fire"]
    expr = next(query.expr for query in every if query.letter == "A")
    eventually(lambda: ask(fill(expr, values)), "the alert that fires here")
    assert {float(one["value"][1]) for one in ask(fill(expr, values))} == {0}  # critical
    # The link of an alert without a cluster, which no other cluster's nodes have: to all of them.
    assert {one["metric"]["chosen"] for one in ask(fill(expr, values))} == {"$__all"}
    ours = {"cluster": "no-such", "node": ".*"}
    assert all("cluster" not in one["metric"] for one in ask(fill(expr, values | ours)))


@pytest.mark.program("prometheus", "cc")
@pytest.mark.parametrize("board", ["overview", "cost"])
def test_all_is_not_taken_to_a_board_that_has_none(ask: Ask, board: str) -> None:
    """It would show each of its nodes there, without saying so; what is chosen goes there."""
    dashboard = load(next(path for path in PATHS if path.stem == f"mgpu-{board}"))
    for name in ("node", "namespace"):
        all_of_them = {"all": ".*", "escaped": "%24__all", "9.4": "All"}
        written = {"one": "node-0", "two": f"a&var-{name}=b", **all_of_them}
        found = {
            key: options(dashboard, f"{name}_link", ask, {name: value})
            for key, value in written.items()
        }
        two = f"var-{name}=a&var-{name}=b"
        some = {"one": [f"var-{name}=node-0"], "two": [two]}
        assert found == some | {key: [] for key in all_of_them}


@pytest.mark.program("prometheus", "cc")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_legend_names_labels_that_the_query_keeps(ask: Ask, path: Path) -> None:
    dashboard = load(path)
    values = resolve(dashboard, ask, {**FIXED, **EVERY, "job": "honored"})
    for query in queries(dashboard):
        expr, legend = fill(query.expr, values), fill(query.legend, values)
        named = {part.partition("}}")[0].strip() for part in legend.split("{{")[1:]}
        for one in ask(expr):
            assert named <= one["metric"].keys() | {"gpu", "cluster"}, query  # of one cluster none


@pytest.mark.program("prometheus", "cc")
@pytest.mark.parametrize("world", ["empty", "slurm", "podless"])
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_no_query_is_refused(ask: Ask, ask_nothing: Ask, path: Path, world: str) -> None:
    """With every variable as it is at first, and with each of them and all of them emptied."""
    dashboard = load(path)
    asked = ask_nothing if world == "empty" else ask
    fixed = FIXED if world == "empty" else {**FIXED, "job": world}
    seen = {name for name, variable in variables(dashboard).items() if not variable.get("hide")}
    emptied = [set(), *({name} for name in sorted(seen)), seen]
    states = [resolve(dashboard, asked, fixed | dict.fromkeys(names, "")) for names in emptied]
    assert set(refused(dashboard, asked, states)) == set()


@pytest.mark.program("prometheus", "cc")
@pytest.mark.parametrize("world", ["empty", "slurm", "podless", "honored"])
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_timeline_is_never_empty(ask: Ask, ask_nothing: Ask, path: Path, world: str) -> None:
    """Of one without data Grafana does not say what we have it say."""
    dashboard = load(path)
    asked = ask_nothing if world == "empty" else ask
    fixed = FIXED if world == "empty" else {**FIXED, "job": world}
    values = resolve(dashboard, asked, fixed)
    lines = {panel["title"] for panel in panels(dashboard) if panel["type"] == "state-timeline"}
    found = {
        query.panel
        for query in queries(dashboard)
        if query.panel in lines and asked(fill(query.expr, values))
    }
    assert found == lines


@pytest.mark.program("prometheus", "cc")
def test_a_namespace_has_the_same_place_in_every_chart(ask: Ask) -> None:
    """Grafana gives colours by the order of the lines, and Prometheus orders them by name."""
    boards = {path.stem: load(path) for path in PATHS}
    exprs = {
        (board, query.panel): fill(query.expr, resolve(dashboard, ask, {**FIXED, "job": "honored"}))
        for board, dashboard in boards.items()
        for query in queries(dashboard)
        if query.legend == "{{$namespace_label}} {{cluster}}"
    }
    assert len(exprs) > 1

    def named() -> dict[tuple[str, str], set[str]]:
        return {place: {one["metric"]["namespace"] for one in ask(exprs[place])} for place in exprs}

    def alike() -> bool:
        return len({frozenset(found) for found in named().values()}) == 1 and all(named().values())

    eventually(alike, f"the same namespaces in {sorted(exprs)}")
