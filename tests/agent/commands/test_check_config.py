"""``mgpu-exporter check-config``: all that is wrong, where, and what is allowed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exporter.agent.commands.check_config import check_config
from exporter.cli import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


@pytest.fixture
def web(tmp_path: Path) -> Path:
    return tmp_path / "web.yml"


class Check:
    """Runs the check; ``said`` is what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def text(self, flags: dict[str, str], **environ: str) -> tuple[int, list[str]]:
        """Status and lines."""
        status = check_config({name: [text] for name, text in flags.items()}, "text", environ)
        return status, self._capsys.readouterr().out.splitlines()

    def json(self, flags: dict[str, str], **environ: str) -> tuple[int, Any]:
        """Status and document."""
        status = check_config({name: [text] for name, text in flags.items()}, "json", environ)
        return status, json.loads(self._capsys.readouterr().out)


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    return Check(capsys)


def test_a_configuration_that_can_be_used(check: Check, file: Path, web: Path) -> None:
    file.write_text("metrics.disable: [pcie]\n")
    web.write_text("rate_limit: {interval: 1s, burst: 5}\n")

    assert check.text({"config.file": str(file), "web.config.file": str(web)}) == (
        0,
        [f"the configuration can be used ({file}, {web})"],
    )
    assert check.json({}) == (0, {"usable": True, "problems": [], "warnings": []})


def test_all_problems_of_all_files_are_said_with_their_places(
    check: Check, file: Path, web: Path
) -> None:
    file.write_text(
        f"web.config.file: {web}\nlog:\n  level: loud\n  form: json\n"
        "collection.interval: 5s\ncollection.window: 2s\nsimulate: nowhere\n"
        "allocations.index-basis: {acme: minor}\n"
    )
    web.write_text("basic_auth_users:\n  alice: SECRET\ntls_server_config:\n  min_version: TLS10\n")

    status, lines = check.text({"config.file": str(file)}, MGPU_WEB_MAX_REQUESTS="many")

    assert status == 2
    starts = [
        "problem: $MGPU_WEB_MAX_REQUESTS: 'many' is not a number from 1 to 10000",
        f"problem: {file}, line 3, log.level: 'loud' is not one of debug, info, warning, error",
        f"problem: {file}, line 4, log.form: no such setting; known: log.format, log.level",
        f"problem: {file}, line 6, collection.window: shorter than collection.interval",
        f"problem: {file}, line 8, allocations.index-basis: acme is no scheme",
        f"problem: {web}, line 2, basic_auth_users.alice: not a bcrypt hash",
        f"problem: {web}, line 4, tls_server_config.min_version: TLS10 cannot be honoured",
        "problem: --simulate: nowhere: ",
        "8 problems: serve would not start",
    ]
    assert len(lines) == len(starts), lines
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)
    assert "SECRET" not in "\n".join(lines)


def test_other_ways_in_contradict_kubernetes_access(check: Check, file: Path, web: Path) -> None:
    file.write_text(
        "web: {kubernetes-access: true, open-page: true}\n"
        f"web.config.file: {web}\nweb.metrics-only: true\n"
    )
    web.write_text(f"basic_auth_users: {{alice: $2y$10${'a' * 53}}}\n")

    status, lines = check.text({"config.file": str(file)})
    unused = check.text({"web.kubernetes-audiences": "mgpu"})

    assert status == 2
    assert [line.partition(f"problem: {file}, line 1, ")[2] for line in lines[:2]] == [
        "web.open-page: contradicts --web.kubernetes-access; give one of the two",
        "web.open-page: contradicts --web.metrics-only; give one of the two",
    ]
    assert f"{web}, basic_auth_users: contradicts --web.kubernetes-access" in lines[2]
    assert "has no effect without --web.kubernetes-access" in unused[1][0]


def test_programs_are_told_place_value_and_what_is_allowed(check: Check, file: Path) -> None:
    file.write_text("log.level: loud\n")

    status, document = check.json({"config.file": str(file)})

    assert status == 2
    assert document == {
        "usable": False,
        "problems": [
            {
                "origin": str(file),
                "line": 1,
                "column": None,
                "key": "log.level",
                "problem": "'loud' is not one of debug, info, warning, error",
                "given": "loud",
                "allowed": "one of debug, info, warning, error",
            }
        ],
        "warnings": [],
    }


def test_what_is_not_yaml_is_one_sentence_with_line_and_column(
    check: Check, file: Path, web: Path
) -> None:
    file.write_text("log:\n  level: [info\nweb: 1\n")
    web.write_text("basic_auth_users:\n  alice: 'SECRET\n")

    _, lines = check.text({"config.file": str(file), "web.config.file": str(web)})

    assert lines[0].startswith(f"problem: {file}, line 3, column 4: not YAML: while parsing a flow")
    assert lines[1].startswith(f"problem: {web}, line 3, column 1: not YAML: while scanning a quot")
    assert len(lines) == 3
    assert "SECRET" not in lines[1]


KUBECONFIGS = {
    "": "it is empty",
    "a: [\n": "line 2, column 1: not YAML: while parsing a flow node, expected the node content",
    "- 1\n": "not a kubeconfig",
    "current-context: x\ncontexts: []\nclusters: []\n": (
        "Expected object with name x in its contexts list"
    ),
}


@pytest.mark.parametrize(("text", "words"), KUBECONFIGS.items())
def test_a_kubeconfig_that_cannot_be_used_is_named_once(
    check: Check, tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    _, [line, end] = check.text({"kubeconfig": str(path)})

    assert line.startswith(f"problem: {path}, kubeconfig: {words}")
    assert line.count(str(path)) == 1
    assert end == "1 problem: serve would start, and try again until it can be used"


def test_a_kubeconfig_that_is_no_text_or_a_folder_is_named_in_words(
    check: Check, tmp_path: Path
) -> None:
    binary = tmp_path / "kubeconfig"
    binary.write_bytes(b"\xaa\xbb")

    for path, words in ((binary, "not UTF-8 text"), (tmp_path, "Is a directory")):
        _, [line, _] = check.text({"kubeconfig": str(path)})
        assert line == f"problem: {path}, kubeconfig: {words}"


def test_files_that_are_not_there_are_named(check: Check, tmp_path: Path) -> None:
    none = tmp_path / "none"
    flags = {name: str(none) for name in ("config.file", "web.config.file", "kubeconfig")}

    _, lines = check.text(flags)

    assert lines[:3] == [
        f"problem: --config.file: {none} cannot be read: No such file or directory",
        f"problem: {none}: cannot be read: No such file or directory",
        f"problem: {none}, kubeconfig: no such file",
    ]


def test_variables_that_are_no_settings_are_warned_of_and_no_error(check: Check) -> None:
    status, lines = check.text(
        {}, MGPU_LOG_LEVLE="info", MGPU_EXPORTER_SERVICE_HOST="10.0.0.1", OTHER="x"
    )

    assert status == 0
    assert lines[0] == (
        "warning: unknown variable $MGPU_LOG_LEVLE is ignored; did you mean MGPU_LOG_LEVEL?"
    )
    assert len(lines) == 2


def test_the_command_takes_flags_and_starts_nothing(file: Path) -> None:
    file.write_text("web.listen-address: 10045\n")
    command = [sys.executable, "-m", "exporter", "check-config", f"--config.file={file}"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert done.stdout.startswith(f"problem: {file}, line 1, web.listen-address: '10045' is not")
    assert done.stderr == ""


def test_unknown_flags_are_reported_with_all_other_problems(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["--port=9", "--log.level=loud", "--bogus", "extra", "--collection.interval=0"]
    assert main(["check-config", *given]) == 2

    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines()[:3] == [
        "problem: --port: no such flag; did you mean --web.listen-address?",
        "problem: --bogus: no such flag; see --help",
        "problem: extra: unexpected argument of check-config",
    ]
    assert sorted(line.split()[1] for line in said.out.splitlines()[3:5]) == [
        "--collection.interval:",
        "--log.level:",
    ]
    assert said.out.splitlines()[-1] == "5 problems: serve would not start"


def test_programs_get_unknown_flags_as_problems(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", "--format=json", "--bogus=1"]) == 2

    document = json.loads(capsys.readouterr().out)
    assert document["usable"] is False
    [problem] = document["problems"]
    assert (problem["origin"], problem["problem"]) == ("--bogus", "no such flag; see --help")


def test_serve_does_not_start_with_what_the_check_refuses(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("log.level: loud\nmetrics.disable: [none]\n")

    assert main(["serve", f"--config.file={file}"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["mgpu-exporter"] * 2


def test_an_answer_that_nobody_reads_shows_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "exporter", "check-config"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writer)

    assert (done.returncode, done.stderr) == (141, b"")


def test_what_is_wrong_with_a_pattern_of_groups_is_said_with_its_line(
    check: Check, file: Path
) -> None:
    file.write_text(
        "groups:\n"
        "  patterns:\n"
        "    - {kind: lsf, path: '/lsf/*/job.{job}.*', group: '{job}'}\n"
        "    - {kind: lsf, path: '/lsf/{job}*'}\n"
        "    - {kind: systemd, path: '/x/{group}'}\n"
        "    - kind: LSF\n"
        "      regex: (a+)+\n"
        "    - {kind: grid}\n"
    )
    status, lines = check.text({"config.file": str(file)})
    assert status == 2
    assert [line.removeprefix(f"problem: {file}, line ") for line in lines[:-1]] == [
        "4, groups.patterns[1].path: two wildcards side by side: where does the first end?",
        "4, groups.patterns[1].path: the path has no group for group",
        "5, groups.patterns[2].kind: systemd is a kind of its own: give it another name",
        (
            "6, groups.patterns[3].kind: 'LSF' is not a name of small letters, digits and -, "
            "at most 31"
        ),
        "7, groups.patterns[3].regex: no such key; known: kind, path, group",
        "8, groups.patterns[4]: it needs a path",
    ]
