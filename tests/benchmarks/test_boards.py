"""The benchmark of the boards asks what Grafana asks, and the fleet answers."""

import pytest

from benchmarks.boards.__main__ import main


@pytest.mark.slow
@pytest.mark.program("prometheus")
def test_the_queries_of_a_small_fleet_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--nodes", "2", "--times", "1", "overview", "pod"])

    said = capsys.readouterr().out
    assert said.startswith("2 nodes, ")
    assert "\noverview, 3600 s; one query reads at most " in said
    assert "Workloads now" in said
    assert "Core use on the same cards" in said
