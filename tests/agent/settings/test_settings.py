from argparse import ArgumentParser
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.settings import TABLE, Settings, SettingsError, add_arguments, load
from exporter.inputs.values import Address


def parse(*argv: str, **environ: str) -> Settings:
    parser = ArgumentParser(allow_abbrev=False)
    add_arguments(parser)
    return load(vars(parser.parse_args(argv)), environ)


def problems(*argv: str, **environ: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        parse(*argv, **environ)
    return list(map(str, caught.value.problems))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":10045", Address("", 10045)),
        ("127.0.0.1:80", Address("127.0.0.1", 80)),
        ("node.example:0", Address("node.example", 0)),
        ("[::1]:9000", Address("::1", 9000)),
        ("unix:/run/mgpu.sock", Address("", 0, "/run/mgpu.sock")),
        ("unix:///run/mgpu.sock", Address("", 0, "/run/mgpu.sock")),
    ],
)
def test_an_address_is_read_as_exporter_toolkit_does(text: str, address: Address) -> None:
    assert parse(f"--web.listen-address={text}").web_listen_address == (address,)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("500ms", 5 * 10**8), ("1s", 10**9), ("0.25s", 25 * 10**7), ("0m3s", 3 * 10**9)],
)
def test_a_duration_is_read_as_nanoseconds(text: str, nanoseconds: int) -> None:
    settings = parse(f"--collection.interval={text}", "--collection.window=10m")

    assert settings.collection_interval_ns == nanoseconds


@pytest.mark.parametrize(
    "argument",
    [
        "--web.listen-address=10045",
        "--web.listen-address=::1:10045",
        "--web.listen-address=:65536",
        "--web.listen-address=:\u0661",
        "--web.listen-address=",
        "--web.listen-address=unix:mgpu.sock",
        "--web.listen-address=vsock://:10045",
        "--web.telemetry-path=metrics",
        "--web.telemetry-path=/",
        "--web.telemetry-path=/-/ready",
        "--web.telemetry-path=/{x}",
        "--web.max-requests=0",
        "--web.max-requests=many",
        "--path.cgroup=relative",
        "--path.logs=log",
        "--kubelet.address=10.0.0.1:10250",
        "--kubelet.address=https://10.0.0.1",
        "--kubelet.address=https://10.0.0.1:65536",
        "--kubelet.address=https://10.0.0.1:0",
        "--kubelet.address=https://user@host:1",
        "--kubelet.address=https://host:1/pods",
        "--kubelet.ca-file=ca.crt",
        "--pods.source=kublet",
        "--pods.labels=a b",
        "--pods.labels=*a",
        "--pods.labels=a,,b",
        "--pods.annotations=-a",
        "--gpus.source=",
        "--nvml.released=maybe",
        "--collection.interval=1",
        "--collection.interval=1s1",
        "--collection.interval=-1s",
        "--collection.interval=99ms",
        "--collection.interval=61s",
        "--log.level=loud",
        "--simulate=a\nb",
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_flag_and_reason(argument: str) -> None:
    flag, _, value = argument.partition("=")
    setting = next(s for s in TABLE.values() if f"--{s.name}" == flag)

    assert problems(argument) == [f"{flag}: {value!r} is not {setting.kind.allowed}"]


def test_a_variable_that_is_not_allowed_is_named() -> None:
    assert problems(MGPU_LOG_LEVEL="loud") == [
        "$MGPU_LOG_LEVEL: 'loud' is not one of debug, info, warning, error"
    ]


def test_a_clusters_service_variables_are_none_of_ours() -> None:
    assert parse(MGPU_EXPORTER_PORT="tcp://10.0.0.1:10045", MGPU_SERVICE_HOST="10.0.0.1") == parse()


def test_all_problems_are_shown_at_once(file: Path) -> None:
    file.write_text("pods.source: all\n")

    found = problems(f"--config.file={file}", "--log.level=loud", MGPU_WEB_MAX_REQUESTS="x")

    assert [problem.split(":")[0] for problem in found] == [
        "$MGPU_WEB_MAX_REQUESTS",
        "--log.level",
        f"{file}, line 1, pods.source",
    ]


def test_a_list_can_be_repeated_joined_or_a_yaml_list(file: Path) -> None:
    file.write_text("web.listen-address:\n  - 127.0.0.1:1\n  - '[::1]:2'\n")
    both = (Address("127.0.0.1", 1), Address("::1", 2))

    flags = ("--web.listen-address=127.0.0.1:1", "--web.listen-address=[::1]:2")
    assert parse(*flags).web_listen_address == both
    assert parse(MGPU_WEB_LISTEN_ADDRESS="127.0.0.1:1, [::1]:2").web_listen_address == both
    assert parse(f"--config.file={file}").web_listen_address == both


@pytest.mark.parametrize("group", ["core", "energy", "memory", "gpu", ""])
def test_what_is_no_group_or_cannot_be_left_out_is_refused(group: str) -> None:
    [problem] = problems(f"--metrics.disable=xid,{group}")

    assert problem.startswith(f"--metrics.disable: {group or 'xid,'!r} is not a group (")
    assert "profiling" in problem


@pytest.mark.parametrize(
    "address", ["https://10.0.0.1:10250", "http://127.0.0.1:10255", "https://[fd00::1]:10250"]
)
def test_a_kubelets_address_has_scheme_and_port(address: str) -> None:
    assert parse(f"--kubelet.address={address}").kubelet_address == address


def test_a_single_value_given_twice_is_refused() -> None:
    assert problems("--log.level=info", "--log.level=debug") == [
        "--log.level: given 2 times; give it once"
    ]


def test_a_switch_needs_no_value() -> None:
    assert parse("--nvml.released").nvml_released is True
    assert parse("--nvml.released=false").nvml_released is False


def test_sections_in_a_file_are_the_same_as_dotted_names(file: Path) -> None:
    file.write_text("web:\n  max-requests: 7\n  listen-address: :1\ncollection: {interval: 2s}\n")

    settings = parse(f"--config.file={file}")

    assert settings.web_max_requests == 7
    assert settings.web_listen_address == (Address("", 1),)
    assert settings.collection_interval_ns == 2 * 10**9


def test_a_files_text_is_taken_as_it_stands_there(file: Path) -> None:
    file.write_text("node.name: no\nkubeconfig: 010\nsimulate: null\n")

    settings = parse(f"--config.file={file}")

    assert (settings.node_name, settings.kubeconfig, settings.simulate) == ("no", "010", "")


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_sets_nothing(text: str, file: Path) -> None:
    file.write_text(text)

    assert parse(f"--config.file={file}").web_max_requests == 40


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("log.levle: info\n", "line 1, log.levle: no such setting; known: log.level, log.format"),
        ("\nweb:\n  port: 1\n", "line 3, web.port: no such setting; known: web.listen-address"),
        ("gpu: {a: 1}\n", "line 1, gpu: no such setting; known: web.listen-address"),
        ("log.level: info\nlog: {level: info}\n", "line 2, log.level: given twice"),
        ("log.level: info\nlog.level: debug\n", "line 2, log.level: given twice"),
        ("config.file: other.yaml\n", "line 1, config.file: a settings file cannot name another"),
        ("- log.level\n", "line 1: settings by name are expected"),
        ("log.level: {a: 1}\n", "line 1, log.level: this is not one of debug, info"),
        ("log.level: [info]\n", "line 1, log.level: this is not one of debug, info"),
        ("web: {}\nlog: {}\nweb: {}\n", "line 3, web: given twice; see line 1"),
        (
            "allocations.index-basis:\n  gke: pci\n  gke: pci\n",
            "line 3, allocations.index-basis.gke: given twice; see line 2",
        ),
        ("? [a]\n: b\n", "line 1: a name is expected, not a list or mapping"),
        ("gpus.source: [[nvml]]\n", "line 1, gpus.source: this is not one of auto, nvml"),
        ("web: 1\n", "line 1, web: no such setting"),
        ("web: &a\n  x: *a\n", "line 2, column 6: not YAML: an alias stands inside itself"),
        (
            "log:\n  level: [\n",
            "line 3, column 1: not YAML: while parsing a flow node, expected the node content",
        ),
        ("a: b: c\n", "line 1, column 5: not YAML: mapping values are not allowed here"),
        ("[" * 5000, "line 1, column 65: not YAML: nested more than 64 deep"),
        ("a: b\n---\nc: d\n", "line 2, column 1: not YAML: expected a single document"),
        ("log.level: \x07\n", "not YAML: unacceptable character"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(
    text: str, complaint: str, file: Path
) -> None:
    file.write_text(text)

    assert complaint in problems(f"--config.file={file}")[0]


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (1 << 20) + b"\n")

    assert "No such file" in problems(f"--config.file={tmp_path}/none")[0]
    assert "directory" in problems(f"--config.file={tmp_path}")[0]
    assert "larger than" in problems(f"--config.file={large}")[0]
    large.write_bytes(b"\xff")
    assert "cannot be read" in problems(MGPU_CONFIG_FILE=str(large))[0]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (
            ["--collection.interval=3s", "--collection.window=2s"],
            "--collection.window: shorter than collection.interval",
        ),
        (["--simulate=x", "--gpus.source=nvml"], "--gpus.source: --simulate simulates the whole"),
        (["--simulate=x", "--pods.source=api"], "--pods.source: --simulate simulates the whole"),
        (["--gpus.source=simulated"], "--gpus.source: simulated needs --simulate"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(argv: list[str], complaint: str) -> None:
    assert problems(*argv)[0].startswith(complaint)


def test_simulation_is_asked_for_by_one_flag() -> None:
    assert parse("--simulate=demo").simulate == "demo"
    assert parse("--simulate=demo", "--gpus.source=simulated").gpus_source == ("simulated",)


def test_the_table_and_the_dataclass_are_one() -> None:
    assert list(TABLE) == [field.name for field in fields(Settings)]
    assert len({setting.variable for setting in TABLE.values()}) == len(TABLE)


@given(name=st.sampled_from(sorted(s.name for s in TABLE.values())), text=st.text(max_size=12))
def test_any_text_is_either_a_value_or_a_problem(name: str, text: str) -> None:
    if name == "config.file":
        return
    with suppress(SettingsError):
        assert isinstance(load({name: [text]}, {}), Settings)
