"""``check --url``: what a running exporter says of itself."""

import json
from pathlib import Path

import pytest

from exporter.agent import api
from exporter.agent.api import About
from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.answers.check_exporter import findings_of
from exporter.cli import main
from exporter.model import Snapshot
from tests.agent.simulation.clock import START, ManualClock
from tests.agent.web.serving import serving

TROUBLE = str(Path(__file__).parents[2] / "examples/demo/trouble.yaml")


def document(seconds: int) -> dict[str, object]:
    clock = ManualClock()
    settings = load({"simulate": [TROUBLE]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    for _ in range(seconds):
        collector.cycle()
        clock.move(1)
    return api.snapshot(collector.snapshot, About("n1", settings.collection_window_ns), 0)


def test_a_lost_card_is_a_problem_with_what_to_do_and_the_others_are_well() -> None:
    found = {(one.room, one.subject): one for one in findings_of(document(90))}

    assert found["gpus", "GPU 0"].verdict == "ok"
    lost = found["gpus", "GPU 1"]
    assert (lost.verdict, lost.found) == ("problem", "lost")
    assert lost.remedy == "XID 79: it has fallen off the bus. To do: restart the node"
    blind = found["containers", "containers, groups"]
    assert (blind.verdict, blind.found) == ("note", "the core of 1 is not known: gpu_lost")
    assert {one.verdict for (room, _), one in found.items() if room == "sources"} == {"ok"}


def test_the_command_asks_the_exporter_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Snapshot(version=1, mono_ns=START)) as site:
        address = f"http://127.0.0.1:{site.port}"
        assert main(["check", f"--url={address}"]) == 0
        assert "no problems, no notes" in capsys.readouterr().out
        assert main(["check", f"--url={address}", "--format=json"]) == 0
        assert json.loads(capsys.readouterr().out)["ok"] is True
    assert main(["check", "--url=http://127.0.0.1:1"]) == 2
    assert "mgpu-exporter check: " in capsys.readouterr().err
