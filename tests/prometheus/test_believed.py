"""Whom the answers believe: the targets that ``--job`` and ``--target`` choose."""

import pytest

from exporter.cli import main
from tests.terminal.test_http import Server

NOTHING = b'{"status": "success", "data": {"result": []}}'


@pytest.mark.parametrize("command", [["bill"], ["top", "--once"], ["why", "team/chat-0"]])
def test_every_question_about_exporters_names_the_targets_that_are_believed(
    command: list[str],
) -> None:
    server = Server()
    server.answer = lambda *_: (200, {}, NOTHING)
    chosen = ["--job=mgpu-exporter", "--target=k8s_cluster=west|east"]
    try:
        main([*command, f"--prometheus={server.url}", *chosen])
    finally:
        server.stop()
    asked = [query for query in map(str, server.asked) if "mgpu_" in query]
    assert asked
    for query in asked:
        assert "job%3D~%22mgpu-exporter%22%2Ck8s_cluster%3D~%22west%7Ceast%22" in query


@pytest.mark.parametrize("given", ["west", "=west", "1=west", "a-b=west"])
def test_what_names_no_label_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bill", "--prometheus=http://127.0.0.1:1", f"--target={given}"]) == 2
    assert f"--target: {given}: give LABEL=PATTERN" in capsys.readouterr().err


def test_advice_is_of_recorded_series_which_are_of_no_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["advise", "--prometheus=http://127.0.0.1:1", "--job=mgpu"]) == 2
    assert "--job: advice is by recorded series" in capsys.readouterr().err
