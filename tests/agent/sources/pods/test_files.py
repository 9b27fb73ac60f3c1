"""FilePods over real trees: what their names say, and what they may not do."""

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.sources.pods.logfilepods import RELIST_NS
from exporter.agent.sources.pods.podtable import GRACE_NS
from tests.agent.sources.pods.documents import container_id
from tests.agent.sources.pods.logs import CID, UID, Logs
from tests.agent.sources.pods.watching import PATIENCE_S, Looking

OTHER = "22222222-2222-4333-8444-555555555555"
HASH = "33d556edd3ae8ef21980288cef77ae8b"


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "log")


@pytest.fixture
def files(logs: Logs) -> Iterator[Looking]:
    with Looking(logs.root) as looking:
        assert looking.source.wait(PATIENCE_S)
        yield looking


def test_a_pod_is_named_with_its_containers_and_their_ids(logs: Logs) -> None:
    logs.run("train", container="main")
    logs.run("train", container="side", cid=container_id("side"))
    logs.run("train", uid=OTHER, cid=container_id("another pod of the name"))
    (logs.root / "pods" / f"ml_half-written_{HASH[::-1]}").mkdir()
    logs.run("etcd", uid=HASH, container="etcd", cid=container_id("etcd"))
    with Looking(logs.root) as files:
        assert files.source.wait(PATIENCE_S)
        table = files.source.table()
        assert table.by_kubelet_uid.keys() == {UID, OTHER, HASH, HASH[::-1]}
        assert table.by_container_id[container_id("another pod of the name")] == (OTHER, "main")
        assert table.by_container_id[CID] == (UID, "main")
        assert table.by_container_id[container_id("etcd")] == (HASH, "etcd")
        assert [c.name for c in table.pods[UID].containers] == ["main", "side"]
        assert not table.pods[UID].containers[0].limits
        files.wait_for(lambda: files.source.status().up)


def test_pods_that_come_and_go_are_noticed_without_being_asked(logs: Logs, files: Looking) -> None:
    pod = logs.run("train")
    files.wait_for(lambda: CID in files.source.table().by_container_id)
    logs.remove(pod)
    files.wait_for(lambda: files.names(deleted=True) == {"train"})
    files.clock.now_ns += GRACE_NS
    files.wait_for(lambda: not files.source.table().pods)


def test_what_does_not_show_in_the_directories_times_is_found_later(
    logs: Logs, files: Looking
) -> None:
    pod = logs.run("train")
    files.wait_for(lambda: files.names() == {"train"})
    (pod / "late").mkdir()
    files.clock.now_ns += RELIST_NS
    files.wait_for(lambda: len(files.source.table().pods[UID].containers) == 2)


def test_without_links_a_pod_and_its_containers_are_still_named(logs: Logs) -> None:
    logs.run("train")
    shutil.rmtree(logs.root / "containers")
    with Looking(logs.root) as files:
        assert files.source.wait(PATIENCE_S)
        assert files.source.table().pods[UID].containers[0].name == "main"
        assert files.source.table().by_container_id == {}


def test_hostile_names_cost_only_themselves_and_are_counted_once(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    logs.run("train")
    pods, links = logs.root / "pods", logs.root / "containers"
    (pods / "loop").symlink_to(pods)
    (pods / f"ml_linked_{OTHER}").symlink_to("/")
    (pods / "not a pod").mkdir()
    (pods / f"ml_tr\udcffin_{OTHER}").mkdir()
    (pods / f"ml_file_{OTHER}").write_text("")
    os.mkfifo(pods / "fifo")
    (links / "self.log").symlink_to("self.log")
    (links / f"train_ml_main-{container_id('x')}.log").symlink_to("/etc/passwd")
    (links / "plain.log").write_text("")
    (pods / f"ml_train_{UID}" / "UPPER").mkdir()
    with Looking(logs.root) as files:
        files.wait_for(lambda: files.source.status().up)
        files.clock.now_ns += RELIST_NS
        reads = files.source.status().last_success_unix_ns or 0
        files.wait_for(lambda: (files.source.status().last_success_unix_ns or 0) > reads)
        assert files.names() == {"train"}
        assert files.source.table().by_container_id == {CID: (UID, "main")}
        assert files.source.rejected() == {"log_name_unusable": 9}
    assert caplog.text.count("not a pod") == 1


def test_a_namespace_of_many_logs_hides_no_other(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are listed in the order of a directory, which may have the others last."""
    monkeypatch.setattr("exporter.agent.sources.pods.logfilepods.MAX_PODS", 4)
    monkeypatch.setattr("exporter.agent.sources.pods.logfilepods.MAX_LINKS", 4)
    logs.run("train")
    for number in range(40):
        uid = f"{number:08}-2222-4333-8444-555555555555"
        logs.run(f"p{number}", uid, cid=container_id(uid), namespace="aaa")
    with Looking(logs.root) as files:
        files.wait_for(lambda: files.source.status().up)
        assert "train" in files.names()
        assert len(files.names()) == 4
        assert files.source.table().by_container_id[CID] == (UID, "main")
        assert files.source.rejected() == {"pod_over_limit": 2 * 37}


def test_a_directory_that_is_not_there_is_a_reason_and_its_coming_the_cure(tmp_path: Path) -> None:
    with Looking(tmp_path / "log") as files:
        files.wait_for(lambda: "No such file" in files.source.status().detail)
        assert not files.source.status().up
        assert "--path.logs" in files.source.status().detail
        assert not files.source.wait(0)
        Logs(tmp_path / "log").run("train")
        files.wait_for_names("train")
        files.wait_until_up()
        shutil.move(tmp_path / "log", tmp_path / "away")
        files.wait_for(lambda: not files.source.status().up)
        assert files.names() == {"train"}


def test_logs_are_never_opened(logs: Logs) -> None:
    log = logs.run("train") / "main" / "0.log"
    log.unlink()
    os.mkfifo(log)  # opened for reading it would hold the reader for ever
    with Looking(logs.root) as files:
        files.wait_for(lambda: CID in files.source.table().by_container_id)


def test_one_that_rests_is_not_up_and_looks_at_once_when_it_is_wanted(
    logs: Logs, files: Looking
) -> None:
    files.wait_for(lambda: files.source.status().up)
    files.source.want(False)
    assert not files.source.status().up
    logs.run("train")
    files.source.want(True)
    files.wait_for(lambda: files.source.status().up and files.names() == {"train"})
    files.source.want(False)
    files.source.close()
    assert "pods_files" not in {thread.name for thread in threading.enumerate()}


@settings(max_examples=settings().max_examples // 3)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)
        .filter(lambda name: name not in {".", ".."} and len(name.encode()) < 200)
        .map(lambda name: f"ml_{name}_{UID}"),
        max_size=5,
        unique=True,
    )
)
def test_any_tree_is_survived(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    logs = Logs(tmp_path_factory.mktemp("any") / "log")
    for name in names:
        (logs.root / "pods" / name).mkdir()
    with Looking(logs.root) as files:
        files.wait_for(lambda: files.source.status().up)
        assert len(files.source.table().pods) <= 1
