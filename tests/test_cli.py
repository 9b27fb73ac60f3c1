import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from exporter import __version__
from exporter.agent.collector.wiring import open_sources
from exporter.agent.settings import SUBJECTS, TABLE, load
from exporter.agent.simulation import ScenarioError
from exporter.cli import main
from exporter.console.commandline import without_traceback
from exporter.console.output import say
from tests.e2e.programs import eventually

LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")
ANYWHERE = ["--web.listen-address=127.0.0.1:0"]
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def unignored() -> Iterator[None]:
    """What is ignored here would be ignored in every process that is started."""
    before = signal.getsignal(signal.SIGUSR2)
    yield
    signal.signal(signal.SIGUSR2, before)


class Agent:
    """A started process and what it said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said = ""

    def hear(self, words: str) -> str:
        """Read its log up to a line with these words."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if words in line:
                return line
        pytest.fail(f"{words!r} was not said, but {self.said}")

    def end(self, number: signal.Signals | None = None) -> int:
        """Send a signal and return the exit status."""
        if number is not None:
            self.process.send_signal(number)
        assert self.process.stderr is not None
        # Not communicate(), which passes by the lines that hear() has read ahead.
        self.said += self.process.stderr.read()
        return self.process.wait(PATIENCE_S)


@contextmanager
def started(*command: str, **environ: str) -> Iterator[Agent]:
    process = subprocess.Popen(
        [sys.executable, *command],
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"} | environ,
    )
    try:
        yield Agent(process)
    finally:
        process.kill()
        process.communicate()


def get(port: str, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def port_of(agent: Agent) -> str:
    found = LISTENING.search(agent.hear("listening on"))
    assert found is not None
    return found[1]


def wait_until_ready(port: str) -> None:
    eventually(lambda: get(port, "/-/ready")[0] == 200, "it is ready")


def test_help_shows_every_setting_with_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--help-all"])

    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    rare = {"simulate.start", "metrics.pod-uid", "pods.list-spread"}
    rare |= {"allocations.volcano-memory-factor"}
    assert {s.name for s in TABLE.values() if s.rare} == rare
    for setting in TABLE.values():
        assert (f"--{setting.name} " in text) != setting.rare, setting.name
        assert (f"${setting.variable}" in text.replace("- ", "-")) != setting.rare


def test_the_first_help_is_short_and_serves_own_has_what_most_need(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for argv, most in ((["--help"], 40), (["serve", "--help"], 80)):
        with pytest.raises(SystemExit):
            main(argv)
        text = capsys.readouterr().out
        assert len(text.splitlines()) <= most
        assert "--help-all" in text
        assert ("--web.listen-address" in text) == (argv[0] == "serve")
    assert "$MGPU_METRICS_PROFILE" in text


def test_a_command_that_is_gone_says_what_does_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "--format=metrics", "--simulate=single", "--duration=1s"]) == 0
    said = capsys.readouterr()
    assert "mgpu_device_up" in said.out
    assert said.err.startswith("mgpu-exporter: snapshot is gone; this is top --once\n")


@pytest.mark.parametrize(
    ("argv", "flag"),
    [
        ("bill --url=x", "--url"),
        ("bill -n team-a", "-n: a bill is of whole cards, so of all namespaces (--by=namespace)"),
        ("advise --job=x", "--job"),
    ],
)
def test_a_flag_that_a_command_cannot_use_is_not_one_of_its(
    argv: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(argv.split())
    assert flag in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "usage"),
    [
        ("check --help", "check [FLAG ...]"),
        ("record --help", "record --output FILE [FLAG ...]"),
        ("help", "[COMMAND] [FLAG ...]"),
        ("help replay", "replay FILE [FLAG ...]"),
    ],
)
def test_a_commands_usage_is_one_line_with_what_must_be_given(
    argv: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv.split())

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: mgpu-exporter {usage}\n\n")


@pytest.mark.parametrize("command", ["top", "check", "check-config", "record", "why"])
def test_a_commands_help_has_its_own_flags_and_says_where_the_others_are(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])

    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 60
    assert "--web.listen-address" not in text
    assert text.endswith("mgpu-exporter serve --help-all.\n")


def test_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert (ended.value.code, capsys.readouterr().out) == (0, f"mgpu-exporter {__version__}\n")


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--log.level=loud"], "mgpu-exporter: --log.level: 'loud' is not one of"),
        (["serve", "--gpus.source=simulated"], "mgpu-exporter: --gpus.source: simulated needs"),
    ],
)
def test_settings_that_cannot_be_used_end_the_start(
    argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err.startswith(complaint)


def test_a_commands_own_flags_may_stand_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = "http://127.0.0.1:1"
    for argv in (
        ["--prometheus", nobody, "advise"],
        ["--log.level=error", f"--prometheus={nobody}", "advise", "--since=2d"],
    ):
        assert main(argv) == 2
        assert f"{nobody} does not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("--log.lev=info", "no such flag: --log.lev; did you mean --log.level?"),
        (
            "--web.max-request 3",
            "no such flag: --web.max-request; did you mean --web.max-requests?",
        ),
        ("serve --log.Level=info", "no such flag: --log.Level; did you mean --log.level?"),
        ("replay --cycl 3", "no such flag: --cycl; did you mean --cycle?"),
        ("--quite-another=1", "no such flag: --quite-another; see --help"),
        ("serv", "no such command: serv; did you mean serve?"),
        ("check_config", "no such command: check_config; did you mean check-config?"),
        ("serve extra", "unexpected argument of serve: extra"),
        ("serve -x", "unexpected argument of serve: -x"),
        (
            "record --url http://node:10045 -v",
            (
                "no flag of record: --url; it is one of top, check, why, and record looks at the "
                "machine that it runs on: run it there\n"
                "mgpu-exporter: unexpected argument of record: -v"
            ),
        ),
        ("top --since=7d", "no flag of top: --since; it is one of bill, why, advise"),
        ("record --output=x --form=json", "no such flag: --form; did you mean --force?"),
        ("serve --port 9000", "no such flag: --port; did you mean --web.listen-address?"),
        ("top --bogus", "no such flag: --bogus; see --help"),
    ],
)
def test_what_is_no_flag_or_command_is_answered_by_one_line(
    argv: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv.split())

    assert ended.value.code == 2
    assert capsys.readouterr().err == f"mgpu-exporter: {line}\n"


def test_a_command_that_is_like_none_is_answered_with_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dance"])

    [line] = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert line.startswith("mgpu-exporter: no such command: dance; known: serve, ")
    assert line.endswith("record, bill, why, advise, replay")


def test_help_names_the_commands_before_the_flags_by_subject(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    text = capsys.readouterr().out
    heads = [line for line in text.splitlines() if re.fullmatch(r"[^ ].*:", line)]
    subjects = [title.rstrip(".") for title in SUBJECTS]
    assert heads == ["commands:", "general:"]
    with pytest.raises(SystemExit):
        main(["serve", "--help-all"])
    full = capsys.readouterr().out.splitlines()
    assert [line[:-1] for line in full if line[:-1] in subjects] == subjects
    assert "the default, if no command is given" in text
    assert text.startswith("usage: mgpu-exporter [COMMAND] [FLAG ...]\n")


@pytest.mark.parametrize(("flag", "wings"), [("--version", set()), ("--help", {"settings"})])
def test_version_and_help_load_neither_a_server_nor_a_source(flag: str, wings: set[str]) -> None:
    with started("-X", "importtime", "-m", "exporter", flag) as agent:
        assert agent.end() == 0

    loaded = {line.rpartition("|")[2].strip() for line in agent.said.splitlines()}
    rooms = {name.split(".")[1] for name in loaded if name.startswith("exporter.")}
    assert rooms <= {"agent", "cli", "console", "inputs", "metrics", "model", "shown"}
    assert {name.split(".")[2] for name in loaded if name.startswith("exporter.agent.")} == wings
    assert not loaded & {"aiohttp", "asyncio", "prometheus_client", "ssl"}


def test_what_a_terminal_cannot_write_is_its_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of check has arrows, and a terminal may be one of Latin-1."""
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, "latin-1"))

    def run() -> int:
        say("→ mount it\n")
        return 1

    assert without_traceback(run) == 1
    assert written.getvalue() == b"\\u2192 mount it\n"


@pytest.mark.parametrize(
    "module", ["argparse", "exporter.agent.settings", "exporter.agent.web", "asyncio"]
)
def test_an_interrupt_while_modules_load_ends_it_silently(module: str) -> None:
    with started("-X", "importtime", "-m", "exporter", "--simulate=demo", *ANYWHERE) as agent:
        agent.hear(f" {module}\n")
        status = agent.end(signal.SIGINT)

    assert status == 128 + signal.SIGINT
    assert [line for line in agent.said.splitlines() if "import time:" not in line] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_simulated_node_is_served_until_a_signal(number: signal.Signals) -> None:
    with started("-m", "exporter", "--simulate=demo", *ANYWHERE) as agent:
        assert "SIMULATED NODE" in agent.hear("nothing here is measured")
        port = port_of(agent)
        family = "\nmgpu_container_core_seconds_total{"
        eventually(lambda: family in get(port, "/metrics")[1], "containers are measured")
        page = get(port, "/metrics")[1]
        landing = get(port, "/")[1]
        status = agent.end(number)

    assert "\nmgpu_exporter_simulated 1\n" in page
    assert "Simulated node" in landing
    assert status == 0
    assert "level=error" not in agent.said


def test_without_gpu_driver_and_cluster_it_serves_and_says_so() -> None:
    with started("-m", "exporter", "--nvml.library=/nonexistent/lib.so", *ANYWHERE) as agent:
        port = port_of(agent)
        wait_until_ready(port)
        page = get(port, "/metrics")[1]
        healthy = get(port, "/-/healthy")[0]
        status = agent.end(signal.SIGTERM)

    assert '\nmgpu_exporter_source_up{source="nvml"} 0\n' in page
    assert "\nmgpu_exporter_simulated 0\n" in page
    assert (healthy, status) == (200, 0)
    assert len(re.findall(r"level=warning .*source nvml is down", agent.said)) == 1
    assert "Traceback" not in agent.said


def test_sigusr2_lets_go_of_the_gpus_and_takes_them_up_again() -> None:
    with started("-m", "exporter", MGPU_SIMULATE="demo", MGPU_WEB_LISTEN_ADDRESS=":0") as agent:
        agent.hear("listening on")
        agent.process.send_signal(signal.SIGUSR2)
        agent.hear("the GPU driver is released")
        agent.hear("source simulated is down: released")
        agent.process.send_signal(signal.SIGUSR2)
        agent.hear("the GPU driver is opened again")
        agent.hear("source simulated is up again")
        assert agent.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("command", ["serve", "check", "top"])
def test_a_scenario_that_is_not_there_is_one_line(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--simulate=/nonexistent.yaml"]) in {1, 2}

    said = "".join(capsys.readouterr())
    assert "/nonexistent.yaml" in said
    assert len(said.splitlines()) == 1


def test_a_web_configuration_that_cannot_be_used_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_text("tls_server_config:\n  cert: SECRET\n  ticket_keys: SECRET\n")
    with started("-m", "exporter", "--simulate=demo", f"--web.config.file={file}") as agent:
        agent.hear(f"{file}, line 3, tls_server_config.ticket_keys: no such key; known: cert, key")
        assert agent.process.wait(PATIENCE_S) == 2


def test_sigusr2_during_the_start_does_not_end_it(tmp_path: Path) -> None:
    settings = tmp_path / "settings"
    os.mkfifo(settings)
    with started("-m", "exporter", f"--config.file={settings}", *ANYWHERE) as agent:
        with settings.open("w") as file:  # opens once the agent reads, before it serves
            agent.process.send_signal(signal.SIGUSR2)
            file.write("simulate: demo\n")
        agent.hear("listening on")
        assert agent.end(signal.SIGTERM) == 0


def test_it_can_start_with_the_driver_let_go_of() -> None:
    with started("-m", "exporter", "--simulate=demo", "--nvml.released", *ANYWHERE) as agent:
        agent.hear("the GPU driver is released")
        agent.hear("source simulated is down: released")
        assert agent.end(signal.SIGTERM) == 0


def test_an_address_in_use_ends_the_start_with_one_line() -> None:
    with started("-m", "exporter", "--simulate=demo", *ANYWHERE) as first:
        address = f"--web.listen-address=127.0.0.1:{port_of(first)}"
        with started("-m", "exporter", "--simulate=demo", address) as second:
            assert second.end() == 1

    assert "Address already in use" in second.said
    assert len(second.said.splitlines()) == 1


def test_a_driver_that_hangs_does_not_keep_it_from_ending_or_serving() -> None:
    with started("-m", "tests.agents", "hanging") as agent:
        port = port_of(agent)
        healthy = get(port, "/-/healthy")[0]
        assert agent.end(signal.SIGTERM) == 0

    assert healthy == 200
    assert "hanging" in agent.said


def test_where_only_a_restart_helps_it_ends_with_that_message() -> None:
    with started("-m", "tests.agents", "restart") as agent:
        assert agent.end() == 1

    assert "driver and library differ; restart" in agent.said


def test_a_scenario_that_began_long_ago_is_refused_not_computed() -> None:
    settings = load({"simulate": ["single"], "simulate.start": ["1700000000"]}, {})

    with pytest.raises(ScenarioError, match="more than an hour back"):
        open_sources(settings)
