"""The steps on a lent GPU: each ends in its time, and costs only itself."""

from pathlib import Path

import pytest

from benchmarks.device import driver


def test_a_step_without_time_is_left_out_and_said(tmp_path: Path) -> None:
    status = driver.main([f"--output={tmp_path}", "--stand-in", "--limit=1", "--only", "memory"])

    assert status == 1
    assert "memory (left out: no time" in (tmp_path / "report.md").read_text()


@pytest.mark.slow
def test_a_step_runs_on_the_stand_in_and_one_that_outlasts_its_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "LEAST_S", 0.0)
    arguments = [f"--output={tmp_path}", "--stand-in"]

    done = driver.one("memory", [*arguments, "--step=memory"], 60.0)
    ended = driver.one("prices", [*arguments, "--step=prices"], 0.5)

    assert done.ended == "done"
    assert "64 MiB managed" in done.said
    assert ended.ended == "prices was ended after 0 s"
