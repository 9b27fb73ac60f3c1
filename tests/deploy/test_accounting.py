"""The queries of docs/off-kubernetes.md, asked of a real Prometheus over a simulated node."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.programs import Exporter, Prometheus, eventually

DOCUMENT = Path(__file__).parents[2] / "docs/off-kubernetes.md"
ENDED = "4720"  # the first of the jobs that come again: it has ended after 24 s

pytestmark = pytest.mark.program("prometheus")
Ask = Callable[[str], list[dict[str, Any]]]


def documented() -> list[str]:
    blocks = re.findall(r"```promql\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    return [query.strip() for block in blocks for query in block.split("\n\n")]


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    with Exporter("--simulate=hpc") as exporter:
        yield exporter.ready()


@pytest.fixture(scope="module")
def ask(exporter: Exporter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with Prometheus(exporter.url, tmp_path_factory.mktemp("prometheus"), "1s") as prometheus:
        yield prometheus.query


@pytest.mark.parametrize("query", documented())
def test_every_documented_query_finds_something(ask: Ask, query: str) -> None:
    assert eventually(lambda: ask(query), query)


@pytest.mark.slow
def test_a_job_that_has_ended_has_what_it_used_in_all(exporter: Exporter, ask: Ask) -> None:
    by_user = next(query for query in documented() if "by (user, account)" in query)

    def ended() -> bool:
        page = exporter.scrape()
        return bool(
            page.value("mgpu_group_core_seconds_total", group=ENDED)
            and not page.all("mgpu_group_processes", group=ENDED)
        )

    eventually(ended, "the first job has ended")
    used = exporter.scrape().value("mgpu_group_core_seconds_total", group=ENDED)
    hours = next(query for query in documented() if "by (group)" in query)
    eventually(
        lambda: (
            [one["value"] for one in ask(hours) if one["metric"].get("group") == ENDED]
            and abs(_value(ask(hours), group=ENDED) * 3600 - (used or 0)) < 1e-6
        ),
        "Prometheus has the job's last value",
    )
    assert _value(ask(by_user), user="bob", account="genomics") * 3600 >= (used or 0) - 1e-6


@pytest.mark.slow
@pytest.mark.program("curl")
@pytest.mark.parametrize("slurm", ["job", "step"])
def test_an_epilog_reads_what_its_job_used(slurm: str) -> None:
    (command,) = re.findall(r"```sh\n(curl .*)\n```", DOCUMENT.read_text())
    with Exporter("--simulate=hpc", f"--groups.slurm={slurm}") as exporter:
        exporter.when(
            lambda page: page.all("mgpu_group_core_seconds_total", kind="slurm"), "use by a job"
        )
        command = command.replace("localhost:10045", exporter.url.partition("://")[2])

        def said(job: str) -> str:
            # Slurm gives an epilog no PATH, and drains its node where it fails.
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                env={"SLURM_JOB_ID": job},
                capture_output=True,
                text=True,
                check=True,
            )
            return done.stdout

        known = r'^mgpu_group_(\w+)\{kind="slurm",group="4711[.b"]'
        families = re.findall(known, said("4711"), re.MULTILINE)
        assert set(families) == {"core_seconds_total", "energy_joules_total"}
        assert said("471") == said("99") == ""
    assert said("4711") == ""  # without an exporter, too


@pytest.mark.slow
def test_steps_are_summed_by_the_job_that_they_are_of(tmp_path: Path) -> None:
    said = DOCUMENT.read_text()
    assert "With `--groups.slurm=step` write `slurm_job` for `user, account` in the second" in said
    query = next(query for query in documented() if "by (user, account)" in query)
    query = query.replace("user, account", "slurm_job")
    with Exporter("--simulate=hpc", "--groups.slurm=step") as exporter:
        exporter.ready()
        with Prometheus(exporter.url, tmp_path, "1s") as prometheus:

            def jobs() -> set[str | None]:
                return {one["metric"].get("slurm_job") for one in prometheus.query(query)}

            eventually(lambda: {"4711", ENDED} <= jobs(), "both jobs are there")
            assert all(jobs())


def _value(found: list[dict[str, Any]], **labels: str) -> float:
    [one] = [one for one in found if labels.items() <= one["metric"].items()]
    return float(one["value"][1])
