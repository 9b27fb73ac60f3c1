"""Names of containers, asked of real servers by the source's own thread."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.model import CgroupIdentity, Clock, GroupFacts, GroupKey, GroupMember, Unit
from exporter.sources.groups.containers import RENAMED_NS, ContainerNames, sockets_of
from exporter.sources.groups.source import GroupSource
from tests.cgroups.clock import ManualClock
from tests.groups.engines import Engine, serving, short_folder, until

A, B = "a" * 64, "b" * 64
ALICE = Unit("user", "1000", uid=1000)


def members(*identities: CgroupIdentity) -> dict[GroupKey, GroupMember]:
    """A group of each; the keys say nothing."""
    return {
        GroupKey("k", str(number)): GroupMember(number, identity)
        for number, identity in enumerate(identities)
    }


DOCKER_A = members(CgroupIdentity(None, A, "docker"))
KEY = next(iter(DOCKER_A))


@pytest.fixture
def root() -> Iterator[Path]:
    with short_folder() as made:
        yield made


@contextlib.contextmanager
def opened(
    root: Path, sockets: tuple[str, ...] = ("auto",), clock: Clock = time
) -> Iterator[ContainerNames]:
    source = ContainerNames(sockets, clock, root=str(root))
    seam: GroupSource = source
    seam.start()
    try:
        yield source
    finally:
        seam.close()


def named(source: ContainerNames, of: dict[GroupKey, GroupMember]) -> dict[GroupKey, GroupFacts]:
    """What is told once anything is."""
    until(lambda: bool(source.facts(of)))
    return dict(source.facts(of))


def put(engine: Engine, container_id: str, name: str) -> None:
    engine.containers.append({"Id": container_id, "Names": [f"/{name}"]})


def test_a_container_of_docker_has_its_name(root: Path) -> None:
    with serving(root / "run/docker.sock") as docker, opened(root) as source:
        put(docker, A, "web")
        assert named(source, DOCKER_A) == {KEY: GroupFacts(name="web")}
        assert source.status().up
        assert source.status().last_success_unix_ns
        assert source.facts(DOCKER_A) is source.facts(DOCKER_A)
        assert source.facts({}) == {}


def test_each_engine_is_asked_about_its_own(root: Path) -> None:
    asked = members(CgroupIdentity(None, A, "docker"), CgroupIdentity(None, B, "podman"))
    with (
        serving(root / "run/docker.sock") as docker,
        serving(root / "run/podman/podman.sock") as podman,
        opened(root) as source,
    ):
        put(docker, A, "web")
        put(podman, B, "db")
        until(lambda: len(source.facts(asked)) == 2)
        assert [facts.name for facts in source.facts(asked).values()] == ["web", "db"]
        assert docker.asked == [[A]]
        assert podman.asked == [[B]]


def test_a_container_without_root_is_asked_of_its_users_engine_and_of_no_other(root: Path) -> None:
    asked = members(CgroupIdentity(None, A, "podman", unit=ALICE))
    own = Unit("user", str(os.getuid()), uid=os.getuid())
    mine = members(CgroupIdentity(None, B, "podman", unit=own))
    with (
        serving(root / "run/podman/podman.sock") as podman,
        serving(root / f"run/user/{os.getuid()}/podman/podman.sock") as users,
        opened(root) as source,
    ):
        put(podman, A, "another")
        put(users, A, "stolen")
        put(users, B, "notebook")
        assert named(source, asked | mine | members(*[m.identity for m in mine.values()]))
        until(lambda: bool(users.asked))
        assert podman.asked == []
        assert A not in users.asked[0] or os.getuid() == 1000


def test_nobody_is_asked_without_a_container(root: Path) -> None:
    asked = members(
        CgroupIdentity(unit=Unit("slurm", "7")),
        CgroupIdentity("uid", A, "docker"),
        CgroupIdentity(),
    )
    with serving(root / "run/docker.sock") as docker, opened(root) as source:
        assert source.facts(asked) == {}
        put(docker, A, "web")
        named(source, DOCKER_A)
        assert docker.asked == [[A]]


def test_a_name_that_is_known_is_not_asked_for_until_it_may_have_changed(root: Path) -> None:
    clock = ManualClock()
    with serving(root / "run/docker.sock") as docker, opened(root, clock=clock) as source:
        put(docker, A, "web")
        named(source, DOCKER_A)
        docker.containers[0]["Names"] = ["/renamed"]
        clock.advance(RENAMED_NS / 1e9)
        both = DOCKER_A | {GroupKey("k", "new"): GroupMember(9, CgroupIdentity(None, B, "docker"))}
        until(lambda: source.facts(both).get(KEY) == GroupFacts(name="renamed"))
        assert docker.asked[0] == [A]
        assert docker.asked[1] == [A, B]


def test_a_container_that_the_engine_does_not_know_yet_is_asked_for_again(root: Path) -> None:
    clock = ManualClock()
    with serving(root / "run/docker.sock") as docker, opened(root, clock=clock) as source:
        source.facts(DOCKER_A)
        until(lambda: bool(source.status().last_success_unix_ns))
        put(docker, A, "web")
        clock.advance(3)
        both = DOCKER_A | {GroupKey("k", "new"): GroupMember(9, CgroupIdentity(None, B, "docker"))}
        assert named(source, both) == {KEY: GroupFacts(name="web")}
        assert len(docker.asked) == 2


def test_where_no_engine_is_found_ids_stay_and_nothing_is_wrong(root: Path) -> None:
    with opened(root) as source:
        assert source.facts(DOCKER_A) == {}
        assert source.status().up


def test_an_engine_that_fails_in_a_usual_place_is_told_and_the_source_is_up(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(root / "run/docker.sock") as docker, opened(root) as source:
        docker.status = 500
        source.facts(DOCKER_A)
        until(lambda: bool(source.rejected()))
        until(lambda: bool(source.status().detail))
        assert source.status().up
        assert "it answers 500" in source.status().detail
        assert source.rejected() == {"container_names_unanswered": 1}
    assert "are shown by their ids (it answers 500)" in caplog.text


def test_a_socket_that_was_named_and_does_not_answer_is_a_source_that_is_down(root: Path) -> None:
    missing = str(root / "none.sock")
    with opened(root, (missing,)) as source:
        source.facts(DOCKER_A)
        until(lambda: not source.status().up)
        assert source.status().detail == f"{missing}: No such file or directory"
        assert source.facts({}) == {}
        assert source.status().up


def test_a_socket_that_was_named_is_asked_about_every_container(root: Path) -> None:
    own = Unit("user", str(os.getuid()), uid=os.getuid())
    asked = members(CgroupIdentity(None, A, "containerd"), CgroupIdentity(None, B, None, unit=own))
    with serving(root / "any.sock") as engine, opened(root, (str(engine.path),)) as source:
        put(engine, A, "web")
        put(engine, B, "db")
        until(lambda: len(source.facts(asked)) == 2)
        assert engine.asked == [[A, B]]


def test_nobody_is_asked_for_a_container_in_a_machine(root: Path) -> None:
    box = CgroupIdentity(None, A, "docker", unit=Unit("lxc", "box"))
    asked = members(box, CgroupIdentity(None, B, "docker"))
    with serving(root / "run/docker.sock") as docker, opened(root) as source:
        put(docker, A, "anothers")
        put(docker, B, "web")
        assert [facts.name for facts in named(source, asked).values()] == ["web"]
        assert docker.asked == [[B]]


def test_a_named_socket_is_not_asked_for_another_users_container(root: Path) -> None:
    stranger = Unit("user", "4321", uid=4321)
    asked = members(
        CgroupIdentity(None, A, "docker", unit=stranger), CgroupIdentity(None, B, "docker")
    )
    with serving(root / "any.sock") as docker, opened(root, (str(docker.path),)) as source:
        put(docker, A, "anothers")
        put(docker, B, "web")
        assert [facts.name for facts in named(source, asked).values()] == ["web"]
        assert docker.asked == [[B]]


@pytest.mark.parametrize(
    ("runtime", "uid", "sockets"),
    [
        ("docker", None, ["/run/docker.sock"]),
        ("podman", None, ["/run/podman/podman.sock"]),
        (None, None, ["/run/docker.sock", "/run/podman/podman.sock"]),
        ("containerd", None, []),
        ("podman", 1000, ["/run/user/1000/podman/podman.sock"]),
        ("docker", 1000, ["/run/user/1000/docker.sock"]),
        (None, 1000, []),
    ],
)
def test_engines_listen_where_they_usually_do(
    runtime: str | None, uid: int | None, sockets: list[str]
) -> None:
    assert list(sockets_of(runtime, uid)) == sockets
