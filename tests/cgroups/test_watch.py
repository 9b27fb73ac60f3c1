import logging
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.sources.cgroups.containers import DirectoryWatch
from tests.cgroups.clock import ManualClock
from tests.cgroups.names import container_path, new_container_id, new_uid
from tests.cgroups.real import real_cgroups


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watch(clock: ManualClock) -> Iterator[DirectoryWatch]:
    made = DirectoryWatch(clock)
    yield made
    made.close()


def test_a_directory_that_comes_is_heard_once(watch: DirectoryWatch, tmp_path: Path) -> None:
    watch.add(str(tmp_path))
    assert not watch.changed()
    (tmp_path / "new").mkdir()
    assert watch.changed()
    assert not watch.changed()


def test_a_directory_that_goes_is_heard(watch: DirectoryWatch, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    watch.add(str(tmp_path))
    (tmp_path / "old").rmdir()
    assert watch.changed()


def test_a_directory_that_is_renamed_is_heard(watch: DirectoryWatch, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    watch.add(str(tmp_path))
    (tmp_path / "old").rename(tmp_path / "new")
    assert watch.changed()


def test_files_are_not_heard(watch: DirectoryWatch, tmp_path: Path) -> None:
    watch.add(str(tmp_path))
    (tmp_path / "file").touch()
    (tmp_path / "file").unlink()
    assert not watch.changed()


def test_more_events_than_the_kernel_keeps_are_a_change(
    watch: DirectoryWatch, tmp_path: Path
) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    watch.add(str(tmp_path))
    for number in range(limit // 2 + 2):  # two events each, of files: not heard by themselves
        path = tmp_path / f"{number}"
        path.touch()
        path.unlink()
    assert watch.changed()


def test_a_directory_that_is_missing_is_left_out(
    watch: DirectoryWatch, clock: ManualClock, tmp_path: Path
) -> None:
    watch.add(str(tmp_path / "missing"))
    clock.advance(3600)
    assert not watch.changed()


def test_no_time_makes_a_complete_watch_report_a_change(
    watch: DirectoryWatch, clock: ManualClock
) -> None:
    clock.advance(3600)
    assert not watch.changed()


@pytest.fixture
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.open(os.devnull, os.O_RDONLY)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_inotify_a_change_is_supposed_every_so_often(
    no_descriptor_left: None, clock: ManualClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    del no_descriptor_left
    with caplog.at_level(logging.WARNING):
        watch = DirectoryWatch(clock, interval_ns=10 * 10**9)
    watch.add(str(tmp_path))
    assert "fs.inotify" in caplog.text
    clock.advance(9)
    assert not watch.changed()
    clock.advance(1)
    assert watch.changed()
    assert not watch.changed()


def test_after_closing_nothing_is_heard(tmp_path: Path, clock: ManualClock) -> None:
    watch = DirectoryWatch(clock)
    watch.add(str(tmp_path))
    watch.close()
    (tmp_path / "new").mkdir()
    assert not watch.changed()


@pytest.mark.root
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_real_container_that_comes_and_goes_is_heard(watch: DirectoryWatch, version: str) -> None:
    container = container_path("systemd", new_uid(), new_container_id())
    with real_cgroups(version) as cgroups:
        pod = cgroups.make(container).parent
        cgroups.remove(container)
        watch.add(str(pod))
        cgroups.make(container)
        assert watch.changed()
        cgroups.remove(container)
        assert watch.changed()


@pytest.mark.root
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_real_process_that_comes_and_goes_is_not_heard(
    watch: DirectoryWatch, version: str
) -> None:
    container = container_path("systemd", new_uid(), new_container_id())
    with real_cgroups(version) as cgroups:
        watch.add(str(cgroups.make(container)))
        cgroups.end(cgroups.spawn(container))
        assert not watch.changed()
