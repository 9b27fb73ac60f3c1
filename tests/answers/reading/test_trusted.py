"""The targets of a Prometheus that the answers trust: ``--job`` and ``--target`` choose them."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from exporter.answers.advise.sizing import SizingOutcome
from exporter.cli import main
from tests.answers.reading.test_remote import Server

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


def test_a_workload_of_two_clusters_is_two_whatever_a_store_calls_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keep = str([*SizingOutcome].index(SizingOutcome.KEEP))
    own = {"namespace": "team", "owner_kind": "Job", "owner_name": "j", "container": "main"}
    result = [
        {"metric": own | {"k8s_cluster": name, "replica": "0"}, "value": [0, keep]}
        for name in ("east", "west")
    ]
    server = Server()

    def answer(path: str, _: str) -> tuple[int, dict[str, str], bytes]:
        at = parse_qs(urlsplit(path).query)["time"][0]
        found = [one | {"value": [float(at), keep]} for one in result]
        return 200, {}, json.dumps({"status": "success", "data": {"result": found}}).encode()

    server.answer = answer
    try:
        assert main(["advise", f"--prometheus={server.url}", "--format=json"]) == 0
    finally:
        server.stop()
    advice = json.loads(capsys.readouterr().out)["advice"]
    assert {one["cluster"] for one in advice} == {"east", "west"}
