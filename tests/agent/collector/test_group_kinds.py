"""The kinds of groups that the node can have are on the page, whether any group is there or not."""

from tests.agent.collector.bench import SECOND, Bench
from tests.rows import rows_of


def shown(bench: Bench) -> set[str]:
    """The kinds on the page."""
    return {row.labels[0] for row in rows_of(bench.cycle())["group_kind"]}


def bench_of_slurm() -> Bench:
    bench = Bench()
    bench.processes.kinds = frozenset({"slurm"})
    bench.use(7, SECOND // 2)
    return bench


def test_a_source_that_fails_takes_no_kind_back() -> None:
    bench = bench_of_slurm()
    bench.cycle()
    bench.processes.kinds_error = OSError("gone")
    bench.cycle()
    bench.processes.kinds_error = None
    bench.processes.kinds = frozenset()

    assert shown(bench) == {"slurm"}


def test_a_source_that_cannot_say_its_kinds_is_down() -> None:
    bench = bench_of_slurm()
    bench.processes.kinds_error = OSError("gone")

    statuses = {status.name: status for status in bench.cycle().sources}

    assert not statuses["cgroups"].up
    assert "gone" in statuses["cgroups"].detail
