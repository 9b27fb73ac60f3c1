"""Names of containers, asked of real servers."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.agent.sources.groups.containers import RENAMED_NS, ContainerNames, sockets_of
from exporter.agent.sources.groups.engine import LARGEST_ANSWER
from exporter.model import CgroupIdentity, GroupKey, GroupMembers, Unit
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.groups.engines import Engine, serving, short_folder
from tests.agent.sources.node.asking import Asking

A, B = "a" * 64, "b" * 64
STRANGER = Unit("user", "4321", uid=4321)
OWN = Unit("user", str(os.getuid()), uid=os.getuid())
DOCKER, PODMAN = "run/docker.sock", "run/podman/podman.sock"


def members(*identities: CgroupIdentity) -> dict[GroupKey, GroupMembers]:
    """A group of each; the keys say nothing."""
    return {
        GroupKey("k", str(number)): GroupMembers((number,), identity)
        for number, identity in enumerate(identities)
    }


def docker(*ids: str) -> dict[GroupKey, GroupMembers]:
    return members(*(CgroupIdentity(None, one, "docker") for one in ids))


@pytest.fixture
def root() -> Iterator[Path]:
    with short_folder() as made:
        yield made


def named(source: ContainerNames, of: dict[GroupKey, GroupMembers]) -> list[str]:
    """The names by one ask, "" where there is none."""
    facts = source.facts(source.ask(of), of)
    return [facts[key].name if key in facts else "" for key in of]


def put(engine: Engine, container_id: str, name: str) -> None:
    engine.containers.append({"Id": container_id, "Names": [f"/{name}"]})


def test_a_container_has_its_name_by_an_ask_of_the_sources_own_thread(root: Path) -> None:
    with (
        serving(root / DOCKER) as engine,
        Asking(ContainerNames(root=str(root)), nobody={}) as source,
    ):
        put(engine, A, "web")
        assert source.facts(docker(A)) == {}
        facts = source.when(bool)
        assert [one.name for one in facts.values()] == ["web"]
        assert source.until_up().detail == ""


@pytest.mark.parametrize(
    ("identity", "asked"),
    [
        (CgroupIdentity(None, A, "docker"), {DOCKER}),
        (CgroupIdentity(None, A, "podman"), {PODMAN}),
        (CgroupIdentity(None, A, None), {DOCKER, PODMAN}),
        (CgroupIdentity(None, A, "containerd"), set()),
        (CgroupIdentity(None, A, "podman", unit=STRANGER), set()),
        (CgroupIdentity(None, A, "podman", unit=OWN), {f"run/user/{OWN.uid}/podman/podman.sock"}),
        (CgroupIdentity(None, A, None, unit=OWN), {f"run/user/{OWN.uid}/podman/podman.sock"}),
        (CgroupIdentity(None, A, "docker", unit=Unit("lxc", "box")), set()),
        (CgroupIdentity("uid", A, "docker"), set()),
        (CgroupIdentity(unit=Unit("slurm", "7")), set()),
        (CgroupIdentity(), set()),
    ],
)
def test_a_container_is_asked_of_the_engine_that_may_have_it_and_of_no_other(
    root: Path, identity: CgroupIdentity, asked: set[str]
) -> None:
    users = f"run/user/{OWN.uid}/podman/podman.sock"
    with (
        serving(root / DOCKER) as first,
        serving(root / PODMAN) as second,
        serving(root / users) as third,
    ):
        engines = {DOCKER: first, PODMAN: second, users: third}
        for engine in engines.values():
            put(engine, A, "web")
        names = named(ContainerNames(root=str(root)), members(identity))
    assert {path for path, engine in engines.items() if engine.asked} == asked
    assert names == ["web" if asked else ""]


def test_a_container_with_labels_of_any_length_costs_no_other_its_name(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(root / DOCKER) as engine:
        put(engine, A, "web")
        engine.containers.append({"Id": B, "Names": ["/b"], "Labels": {"x": "x" * LARGEST_ANSWER}})
        source = ContainerNames(root=str(root))
        assert [named(source, docker(A, B)) for _ in range(2)] == [["web", ""]] * 2
        assert source.rejected() == {"container_names_unanswered": 1}
        assert caplog.text.count("shorten its labels") == 1
        assert source.problem == ""


def test_a_users_engine_names_no_container_of_the_machine(root: Path) -> None:
    both = members(CgroupIdentity(None, A, "podman"), CgroupIdentity(None, A, "podman", unit=OWN))
    of_user = root / f"run/user/{OWN.uid}/podman/podman.sock"
    with serving(root / PODMAN) as machines, serving(of_user) as users:
        put(machines, A, "web")
        put(users, A, "forged")
        assert named(ContainerNames(root=str(root)), both) == ["web", "forged"]


@pytest.mark.root
def test_a_socket_of_another_user_among_a_users_is_not_asked(root: Path) -> None:
    identity = CgroupIdentity(None, A, "docker", unit=STRANGER)
    with serving(root / f"run/user/{STRANGER.uid}/docker.sock") as engine:
        put(engine, A, "web")
        os.chown(engine.path, 4711, 4711)
        assert named(ContainerNames(root=str(root)), members(identity)) == [""]
        os.chown(engine.path, STRANGER.uid or 0, 4711)
        assert named(ContainerNames(root=str(root)), members(identity)) == ["web"]


def test_a_name_is_asked_for_until_it_is_known_and_then_when_it_may_have_changed(
    root: Path,
) -> None:
    clock = ManualClock()
    source = ContainerNames(clock=clock, root=str(root))
    with serving(root / DOCKER) as engine:
        assert named(source, docker(A)) == [""]
        put(engine, A, "web")
        assert named(source, docker(A)) == ["web"]
        engine.containers[0]["Names"] = ["/renamed"]
        assert named(source, docker(A)) == ["web"]
        assert len(engine.asked) == 2
        clock.move(RENAMED_NS / 1e9)
        assert named(source, docker(A, B)) == ["renamed", ""]
        assert engine.asked[2] == [A, B]
        engine.containers.clear()
        clock.move(RENAMED_NS / 1e9)
        assert named(source, docker(A)) == ["renamed"]
    assert source.subject({}) is None


def test_an_engine_that_fails_in_a_usual_place_is_told_and_the_source_is_up(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert named(source := ContainerNames(root=str(root)), docker(A)) == [""]
    assert source.problem == ""  # there is none
    with (
        serving(root / DOCKER) as engine,
        Asking(ContainerNames(root=str(root)), nobody={}) as asking,
    ):
        engine.status = 500
        asking.facts(docker(A))
        asking.asked(3)
        status = asking.source.status()
        assert status.up
        assert status.detail == f"{root}/{DOCKER} answers 500: []"
        assert status.last_success_unix_ns is None
        assert asking.source.rejected()["container_names_unanswered"] >= 3
        engine.status = 200
        asking.until_up()
    assert caplog.text.count("answers 500: []: its containers are shown by their ids") == 1


def test_a_problem_ends_with_the_last_container_of_its_engine(root: Path) -> None:
    source = ContainerNames(root=str(root))
    both = members(CgroupIdentity(None, A, "docker"), CgroupIdentity(None, B, "podman"))
    with serving(root / DOCKER) as broken, serving(root / PODMAN) as engine:
        broken.status = 500
        put(engine, B, "web")
        assert named(source, both) == ["", "web"]
        assert "answers 500" in source.problem
        assert named(source, members(CgroupIdentity(None, B, "podman"))) == ["web"]
    assert source.problem == ""


def test_a_socket_that_was_named_and_does_not_answer_is_a_source_that_is_down(root: Path) -> None:
    missing = str(root / "none.sock")
    with serving(root / "any.sock") as engine:
        put(engine, A, "web")
        source = ContainerNames((missing, str(engine.path)))
        assert named(source, docker(A)) == ["web"]
    assert source.is_down
    assert source.problem == f"{missing} does not answer: No such file or directory"


def test_a_socket_that_was_named_is_asked_about_every_container_but_another_users(
    root: Path,
) -> None:
    asked = members(
        CgroupIdentity(None, A, "containerd"),
        CgroupIdentity(None, B, None, unit=OWN),
        CgroupIdentity(None, "c" * 64, "docker", unit=STRANGER),
    )
    with serving(root / "any.sock") as engine:
        put(engine, A, "web")
        put(engine, B, "db")
        put(engine, "c" * 64, "anothers")
        assert named(ContainerNames((str(engine.path),)), asked) == ["web", "db", ""]
        assert engine.asked == [[A, B]]


@pytest.mark.parametrize(
    ("runtime", "uid", "sockets"),
    [
        ("docker", None, ["/run/docker.sock"]),
        ("podman", 1000, ["/run/user/1000/podman/podman.sock"]),
        ("docker", 1000, ["/run/user/1000/docker.sock"]),
        (None, 1000, ["/run/user/1000/docker.sock", "/run/user/1000/podman/podman.sock"]),
    ],
)
def test_engines_listen_where_they_usually_do(
    runtime: str | None, uid: int | None, sockets: list[str]
) -> None:
    assert list(sockets_of(runtime, uid)) == sockets
