"""Settings read anew: what is taken, what waits, and what a bad file costs."""

import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from exporter.agent.collector.cyclerules import cycle_rules
from exporter.agent.commands.reload import Reloader
from exporter.agent.settings import TABLE, Settings, load
from exporter.agent.web.webconfig import WebConfig
from exporter.model import LastReload
from tests.agent.settings.test_precedence import VALUES, read
from tests.agent.simulation.clock import SECOND, START, ManualClock


@dataclass
class Scene:
    """A settings file, and a reloader that follows it."""

    file: Path
    flags: dict[str, list[str]] = field(default_factory=dict)
    applied: list[Settings] = field(default_factory=list)
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.file.write_text("log.level: info\n")
        self.reloader = Reloader(self.read(), self.read, self.applied.append, self.clock)

    def read(self) -> Settings:
        """Read as at the start."""
        return load({"config.file": [str(self.file)]} | self.flags, {})

    def write(self, text: str) -> None:
        """Change the file, a second later."""
        self.file.write_text(text)
        self.clock.now_ns += SECOND

    def looks(self, times: int = 2) -> None:
        """Let it look at the file."""
        for _ in range(times):
            self.reloader.look()


@pytest.fixture
def scene(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Scene:
    caplog.set_level(logging.INFO)
    return Scene(tmp_path / "settings.yaml")


def test_what_is_live_is_taken_up_and_what_is_not_waits_and_is_named(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    before = scene.reloader.settings
    scene.write("metrics.disable: [pcie]\nenergy.idle: equal\nweb.max-requests: 3\n")

    assert scene.reloader.reload() is None

    [applied] = scene.applied
    assert applied is scene.reloader.settings
    assert applied.metrics_disable == ("pcie",)
    assert (applied.energy_idle, applied.web_max_requests) == (
        before.energy_idle,
        before.web_max_requests,
    )
    assert "in force from now on: metrics.disable=pcie" in caplog.text
    assert "only after a restart: web.max-requests, energy.idle" in caplog.text
    assert scene.reloader.last == LastReload(successful=True, success_unix_ns=START + SECOND)


def test_a_bad_file_keeps_all_old_settings_and_says_why_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    before = scene.reloader.settings
    scene.write("metrics.disable: [pcie]\ncollection.interval: never\nlog.levle: info\n")

    problem = scene.reloader.reload()
    scene.reloader.reload()
    scene.looks(5)

    assert problem is not None
    assert f"{scene.file}, line 2, collection.interval: 'never' is not a duration" in problem
    assert f"{scene.file}, line 3, log.levle" in problem
    assert scene.reloader.settings is before
    assert scene.applied == []
    assert scene.reloader.last == LastReload(successful=False, success_unix_ns=START)
    assert caplog.text.count("the old ones stay") == 1


def test_a_good_file_after_a_bad_one_is_taken(scene: Scene) -> None:
    scene.write("a: [\n")
    scene.reloader.reload()
    scene.write("log.level: debug\n")

    assert scene.reloader.reload() is None
    assert scene.reloader.settings.log_level == "debug"
    assert scene.reloader.last == LastReload(successful=True, success_unix_ns=START + 2 * SECOND)


def test_a_file_that_says_the_same_changes_nothing(scene: Scene) -> None:
    scene.write("# the same\nlog.level: info\n")

    assert scene.reloader.reload() is None
    assert scene.applied == []


def test_a_setting_that_is_taken_out_of_the_file_is_its_default_again(scene: Scene) -> None:
    scene.write("compat: [dcgm]\n")
    scene.reloader.reload()
    scene.write("")
    scene.reloader.reload()

    assert [settings.compat for settings in scene.applied] == [("dcgm",), ()]


def test_a_flag_goes_before_what_the_file_says_anew(scene: Scene) -> None:
    scene.flags["log.level"] = ["error"]
    scene.write("log.level: debug\n")
    scene.reloader.reload()

    assert scene.reloader.settings.log_level == "error"


def test_a_changed_file_is_taken_once_it_has_stood_for_a_look(scene: Scene) -> None:
    scene.looks()
    scene.write("log.level: debug\n")

    scene.looks(1)
    assert scene.applied == []
    scene.looks(3)
    assert [settings.log_level for settings in scene.applied] == ["debug"]


def test_half_a_file_is_not_taken(scene: Scene) -> None:
    scene.write("metrics.disable: [pcie]\n")
    scene.looks()
    scene.write("")  # an editor empties it first
    scene.looks(1)
    scene.write("metrics.disable: [pcie]\nlog.level: debug\n")
    scene.looks()

    assert [settings.metrics_disable for settings in scene.applied] == [("pcie",), ("pcie",)]


def test_what_changed_between_the_start_and_the_first_look_is_taken(scene: Scene) -> None:
    scene.write("log.level: debug\n")
    scene.looks()

    assert scene.reloader.settings.log_level == "debug"


def test_a_swapped_symlink_is_a_change_as_kubernetes_makes_it(tmp_path: Path) -> None:
    """A ConfigMap's volume: settings.yaml → ..data/settings.yaml, ..data → ..2026_1."""
    for version, level in (("..2026_1", "info"), ("..2026_2", "debug")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "settings.yaml").write_text(f"log.level: {level}\n")
    (tmp_path / "..data").symlink_to("..2026_1")
    file = tmp_path / "settings.yaml"
    file.symlink_to("..data/settings.yaml")
    applied: list[Settings] = []

    def read() -> Settings:
        return load({"config.file": [str(file)]}, {})

    reloader = Reloader(read(), read, applied.append, ManualClock())
    for _ in range(2):
        reloader.look()
    (tmp_path / "..data_tmp").symlink_to("..2026_2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    for _ in range(2):
        reloader.look()

    assert [settings.log_level for settings in applied] == ["debug"]


def test_a_file_that_is_gone_keeps_the_settings_and_is_taken_when_it_is_back(scene: Scene) -> None:
    scene.write("log.level: debug\n")
    scene.looks()
    scene.file.unlink()
    scene.looks()
    assert scene.reloader.settings.log_level == "debug"
    assert not scene.reloader.last.successful
    scene.write("log.level: error\n")
    scene.looks()
    assert scene.reloader.settings.log_level == "error"
    assert scene.reloader.last.successful


# Live settings of the log and of the pages. The others are rules of the cycle.
LIVE_ELSEWHERE = {
    *("log.level", "log.format"),
    *("metrics.enable", "metrics.created", "metrics.pod-uid", "compat"),
}


@pytest.mark.parametrize(
    "name", [s.name for s in TABLE.values() if s.live and s.name not in LIVE_ELSEWHERE]
)
def test_a_live_setting_changes_the_rules_of_the_cycle(name: str) -> None:
    assert cycle_rules(read([f"--{name}={VALUES[name][-1]}"], {})) != cycle_rules(read([], {}))


def test_what_opens_things_is_not_live() -> None:
    opens = ("web.", "path.", "nvml.", "simulate", "gpus.", "groups.", "kubelet.", "node.")
    assert not [s.name for s in TABLE.values() if s.live and s.name.startswith(opens)]


def test_requests_that_come_while_one_is_answered_are_answered_once() -> None:
    """A thread for each SIGHUP would let a file on a slow mount end the process."""
    begun, may_go, stop = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def slow() -> Settings:
        begun.release()
        may_go.acquire()
        return load({}, {})

    reloader = Reloader(load({}, {}), slow, lambda _: None, ManualClock())
    watching = threading.Thread(target=reloader.watch, args=(stop,))
    watching.start()
    reloader.ask()
    begun.acquire()
    threads = threading.active_count()
    for _ in range(500):
        reloader.ask()
    assert threading.active_count() == threads
    may_go.release()
    begun.acquire()  # once more, for all of them
    stop.set()
    may_go.release()
    reloader.ask()
    watching.join(30)
    assert not watching.is_alive()
    assert not begun.acquire(blocking=False)


def _open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_a_folder_in_the_files_place_is_said_once_and_keeps_no_descriptor(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """As a mount leaves where its file is missing; it is looked at each two seconds."""
    scene.file.unlink()
    scene.file.mkdir()
    before = _open_files()
    scene.looks(50)
    assert _open_files() == before
    assert not scene.reloader.last.successful
    assert [one.getMessage() for one in caplog.records if "Is a directory" in one.getMessage()]


def test_a_folder_in_the_web_files_place_keeps_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "web.yml"
    path.write_text("http_server_config: {http2: false}\n")
    config = WebConfig(str(path))
    path.unlink()
    path.mkdir()
    before = _open_files()
    for _ in range(50):
        config.look()
    assert _open_files() == before
