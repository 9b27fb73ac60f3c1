"""A running exporter and a real Prometheus as feeds, and ``snapshot`` as a process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from exporter.answers.reading.feeds import view_of
from exporter.answers.reading.feeds.overview import Line, LineKind, Overview
from exporter.answers.reading.feeds.prometheus import PrometheusFeed
from exporter.answers.reading.feeds.remote import RemoteFeed
from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import Prometheus as PromQL
from tests.agent.api.validation import validate
from tests.agent.web.certificates import Authority
from tests.answers.reading.views import everything
from tests.e2e.programs import Exporter, Prometheus, eventually

pytestmark = pytest.mark.slow

NAMESPACE = "inference"
KINDS = {LineKind.POD, LineKind.CONTAINER}
AS_TARGET = (
    "    relabel_configs:\n"
    "      - {target_label: namespace, replacement: monitoring}\n"
    "      - {target_label: pod, replacement: mgpu-exporter-x2lqz}\n"
    "      - {target_label: container, replacement: exporter}\n"
)


def asked(address: str, namespace: str = "") -> PrometheusFeed:
    return PrometheusFeed(PromQL(HttpClient(f"http://{address}")), namespace)


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    with Exporter("--simulate=demo") as running:
        running.when(lambda page: page.all("mgpu_container_core_utilization_ratio"), "ratios")
        yield running


def snapshot(*flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "exporter", "top", "--once", *flags]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environ or None
    )


def remote(exporter: Exporter) -> Overview:
    feed = RemoteFeed(HttpClient(exporter.url))
    return view_of(feed.read(), feed.name)


def containers(view: Overview) -> dict[tuple[str, ...], Line]:
    """By namespace, pod, container and device."""
    lines = (line for line in everything(view.lines) if line.kind in KINDS)
    return {line.key[2:] + line.key[1:2]: line for line in lines}


def test_an_exporter_is_shown_with_its_processes(exporter: Exporter) -> None:
    view = remote(exporter)

    assert view.source == exporter.url
    assert view.simulated
    assert len([line for line in view.lines if line.kind is LineKind.DEVICE]) == 4
    assert any(line.kind is LineKind.PROCESS and line.letters for line in everything(view.lines))


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("honor", [True, False], ids=["honor_labels", "exported_pod"])
def test_a_prometheus_shows_a_namespace_as_the_exporter_does(
    honor: bool,  # noqa: FBT001 - a case
    exporter: Exporter,
    tmp_path: Path,
) -> None:
    job = "" if honor else AS_TARGET
    with Prometheus({"node-7": exporter.url}, tmp_path, "1s", job, honor=honor) as prometheus:
        feed = asked(prometheus.address, NAMESPACE)

        def there() -> Overview | None:
            view = view_of(feed.read(), feed.name)
            return view if len(containers(view)) >= 3 else None

        view = eventually(there, "the namespace's containers")
        own = {k: line for k, line in containers(remote(exporter)).items() if k[0] == NAMESPACE}
        exporters = asked(prometheus.address, "monitoring")
        assert _lines(exporters) == []

    found = containers(view)
    assert found.keys() == own.keys()
    for key, line in own.items():
        assert found[key].core.limit == line.core.limit
        assert found[key].memory.limit == line.memory.limit
        assert found[key].core.value == pytest.approx(line.core.value, abs=0.3)
    assert view.simulated
    assert next(line.name for line in view.lines).startswith("0 A100")
    assert view.source == "node-7"
    assert not any(line.kind is LineKind.PROCESS for line in everything(view.lines))
    assert view.troubles == ()


@pytest.mark.program("prometheus")
def test_all_nodes_of_a_prometheus_are_shown_and_nothing_is_said_to_be_nothing(
    exporter: Exporter, tmp_path: Path
) -> None:
    with (
        Exporter("--simulate=turing") as other,
        Prometheus({"node-1": exporter.url, "node-2": other.url}, tmp_path, "1s") as prometheus,
    ):
        everywhere, nowhere = (
            asked(prometheus.address),
            asked(prometheus.address, 'nobody\'s \\ "space"\n'),
        )

        def both() -> Overview | None:
            view = view_of(everywhere.read(), everywhere.name)
            return view if len({line.name.split()[0] for line in view.lines}) > 1 else None

        view = eventually(both, "both nodes")
        kinds = {LineKind.GROUP, LineKind.REST}
        eventually(
            lambda: kinds <= {line.kind for line in _lines(everywhere) if line.core.value},
            "what no pod uses",
        )
        empty = view_of(nowhere.read(), nowhere.name)
        eventually(lambda: _has_past(everywhere), "the last minutes")

    assert {line.name.split()[0] for line in view.lines} == {"node-1", "node-2"}
    assert empty.lines == ()
    assert "there are no series of namespace" in empty.troubles[0]
    assert "does this Prometheus scrape exporters" in empty.troubles[0]


def _lines(feed: PrometheusFeed) -> list[Line]:
    return list(everything(view_of(feed.read(), feed.name).lines))


def _has_past(feed: PrometheusFeed) -> bool:
    feed._history_due_ns = 0
    view = view_of(feed.read(), feed.name)
    return any(
        set(line.past) - {None} for line in everything(view.lines) if line.kind is LineKind.POD
    )


def test_a_snapshot_of_another_node_in_every_format(exporter: Exporter) -> None:
    url = f"--url={exporter.url}"
    table, document, metrics = (
        snapshot(url, f"--format={f}") for f in ("table", "json", "metrics")
    )

    assert (table.returncode, document.returncode, metrics.returncode) == (0, 0, 0)
    assert "inference/chat-7b" in table.stdout
    assert "SIMULATED: nothing here is measured" in table.stdout
    assert "\x1b" not in table.stdout
    validate("snapshot", json.loads(document.stdout))
    assert "\nmgpu_device_up{" in metrics.stdout


@pytest.mark.program("promtool")
def test_a_snapshot_of_this_node_in_every_format() -> None:
    flags = ("--simulate=single", "--duration=1s", "--collection.interval=200ms")
    table, document, metrics = (
        snapshot(*flags, f"--format={form}") for form in ("table", "json", "metrics")
    )

    assert (table.returncode, document.returncode, metrics.returncode) == (0, 0, 0)
    assert table.stderr == document.stderr == metrics.stderr == ""
    assert "▾ 0 " in table.stdout
    validate("snapshot", json.loads(document.stdout))
    lint = ["promtool", "check", "metrics"]
    subprocess.run(lint, input=metrics.stdout, text=True, check=True, capture_output=True)


def test_a_source_that_is_down_is_an_exit_status_and_a_line() -> None:
    done = snapshot("--nvml.library=/nonexistent/lib.so", "--duration=1s", "--pods.source=none")

    assert done.returncode == 1
    assert "! source nvml is down: no NVIDIA management library: /nonexistent/lib.so" in done.stdout
    assert "no GPU is known" in done.stdout


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (
            ("--url=http://127.0.0.1:1",),
            "http://127.0.0.1:1 does not answer: Connection refused; nothing listens there",
        ),
        (("--url=http://no-such-host.invalid:1",), "; is the host's name right?"),
        (("--simulate=/nonexistent.yaml",), "/nonexistent.yaml: No such file or directory"),
    ],
)
def test_nothing_to_print_is_one_line_and_status_2(flags: tuple[str, ...], complaint: str) -> None:
    done = snapshot(*flags)

    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.program("openssl")
def test_password_and_authority_are_given_by_files(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    server = authority.sign("server", "IP:127.0.0.1")
    (tmp_path / "web.yml").write_text(
        f"tls_server_config:\n  cert_file: {server.certificate.name}\n"
        f"  key_file: {server.key.name}\n"
        f"basic_auth_users:\n  me: {bcrypt.hashpw(b'right', bcrypt.gensalt(4)).decode()}\n"
    )
    (tmp_path / "right").write_text("right\n")
    (tmp_path / "wrong").write_text("wrong\n")
    trusted = f"--ca-file={authority.certificate}"
    with Exporter("--simulate=single", f"--web.config.file={tmp_path / 'web.yml'}") as exporter:
        url = f"--url={exporter.url}"
        stranger = snapshot(url)
        nobody = snapshot(url, trusted)
        wrong = snapshot(url, trusted, "--user=me", f"--password-file={tmp_path / 'wrong'}")
        right = snapshot(url, trusted, "--user=me", f"--password-file={tmp_path / 'right'}")

    assert [done.returncode for done in (stranger, nobody, wrong, right)] == [2, 2, 2, 0]
    assert "its certificate is not trusted" in stranger.stderr
    assert "asks for a user and a password" in nobody.stderr
    assert "answers 401" in wrong.stderr
    assert "wrong" not in wrong.stderr.replace("wrong version", "")
    assert "▾ 0 " in right.stdout
