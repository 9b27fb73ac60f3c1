"""What the door says of real files, folders and links, and of questions that never come back."""

import ast
import errno
import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import exporter
from exporter.agent.sources import door
from exporter.agent.sources.aside import MAX_AT_ONCE, MAX_OF_ONE, Aside
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Reply, Unread, Whole

AGENT = Path(exporter.__file__).parent / "agent"
BESIDE_THE_DOOR = {"read_text", "read_bytes", "iterdir", "glob", "exists", "is_dir", "is_file"}
BESIDE_THE_DOOR |= {"listdir", "scandir", "walk", "readlink", "isdir", "isfile", "access", "lstat"}
ALLOWED = {
    "sources/door.py": {"scandir", "readlink", "is_dir"},
    "sources/pods/podfactory.py": {"access"},  # of a kubeconfig that is opened elsewhere
    "sources/gpus/drm/holders.py": {"scandir"},  # of an open folder, which stays its process's
    "doctor/groupchecks.py": {"access"},  # of a socket that is not opened
    "doctor/limitchecks.py": {"walk"},  # cgroups that cannot be listed are said by ``cgroups``
    "doctor/cgroupchecks.py": {"glob", "is_dir"},  # likewise
}
LONG = 300_000  # several chunks


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, LONG])
def test_a_file_is_whole_up_to_its_bound_and_cut_behind_it(tmp_path: Path, size: int) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * size)

    assert door.read(file, size) == Whole(b"x" * size)
    assert door.read(file, LONG + 1) == Whole(b"x" * size)
    if size:
        told = door.read(file, size - 1)
        assert isinstance(told, Cut)
        assert told.value == b"x" * (size - 1)


def test_a_file_that_comes_in_parts_is_read_to_its_end() -> None:
    told = door.read("/proc/self/smaps", 1 << 24)  # the kernel gives a page at a time
    assert isinstance(told, Whole)
    assert len(told.value) > os.sysconf("SC_PAGE_SIZE")
    assert told.value.endswith(b"\n")


def test_a_folder_is_whole_up_to_its_bound_and_cut_behind_it(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("a")

    whole = door.names(tmp_path, 5)
    assert isinstance(whole, Whole)
    assert sorted(whole.value) == ["a", "b", "c", "file", "link"]
    only = door.folders(tmp_path, 5)
    assert isinstance(only, Whole)
    assert sorted(only.value) == ["a", "b", "c"]
    cut = door.names(tmp_path, 4)
    assert isinstance(cut, Cut)
    assert len(cut.value) == 4


@pytest.mark.parametrize("room", ["sources", "doctor"])
def test_nothing_is_asked_beside_the_door(room: str) -> None:
    """Its answers are types, which mypy makes a caller treat; a note that nobody reads is none."""
    beside: dict[str, set[str]] = {}
    for path in (AGENT / room).rglob("*.py"):
        text = path.read_text()
        name = str(path.relative_to(AGENT))
        calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
        asked = {each.attr for each in calls if isinstance(each, ast.Attribute)} & BESIDE_THE_DOOR
        asked |= {"a note that nobody reads"} if "NotedReads()." in text else set()
        if asked - ALLOWED.get(name, set()):
            beside[name] = asked - ALLOWED.get(name, set())

    assert beside == {}


def test_a_link_is_read_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert door.link(tmp_path / "link") == Whole("nowhere")
    assert isinstance(door.link(tmp_path), Absent)
    assert door.about(tmp_path / "link") == Absent(errno.ENOENT)


ASKED: list[Callable[[str], Reply[object]]] = [
    lambda path: door.read(path, 9),
    lambda path: door.names(path, 9),
    lambda path: door.folders(path, 9),
    door.link,
    door.about,
]


@pytest.mark.parametrize("ask", ASKED, ids=["read", "names", "folders", "link", "about"])
@pytest.mark.parametrize(
    ("path", "reply"),
    [
        ("/proc/none", Absent(errno.ENOENT)),
        ("/proc/version/below", Absent(errno.ENOTDIR)),
        ("/proc/self/" + "x" * 5000, Failed(errno.ENAMETOOLONG)),
    ],
)
def test_what_is_not_read_says_which_of_three_it_is(
    ask: Callable[[str], Reply[object]], path: str, reply: Unread
) -> None:
    assert ask(path) == reply


def test_a_path_that_cannot_be_is_no_error() -> None:
    assert door.read("nul\0byte", 9) == Failed(errno.EINVAL)


def test_what_fails_behind_the_opening_is_failed(tmp_path: Path) -> None:
    assert door.read("/proc/self/mem", 9) == Failed(errno.EIO)
    assert door.read(tmp_path, 9) == Failed(errno.EISDIR)


def test_without_a_descriptor_nothing_is_absent(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        told = [door.read("/proc/none", 9), door.names(tmp_path, 9), door.folders("/proc/none", 9)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert told == [Failed(errno.EMFILE)] * 3


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_what_may_not_be_read_is_refused(code: int) -> None:
    assert door.unread(OSError(code, "")) == Refused(code)


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        (Whole(b"7"), Whole(7)),
        (Whole(b"seven"), Failed(errno.EBADMSG)),
        (Cut(b"7", "a bound"), Cut(7, "a bound")),
        (Absent(), Absent()),
        (Refused(), Refused()),
        (Failed(errno.EIO), Failed(errno.EIO)),
    ],
)
def test_a_value_of_another_form_is_failed_and_the_rest_stays(
    reply: Reply[bytes], number: Reply[int]
) -> None:
    assert door.parsed(reply, int) == number


def test_what_never_replies_holds_up_its_tenant_only() -> None:
    hung = threading.Event()
    aside: Aside[tuple[str, int], str] = Aside("descriptors of tenants")
    for number in range(MAX_AT_ONCE):
        assert aside.ask(("mallory", number), "mallory", lambda: "late" * hung.wait()) is None
    assert sum(t.name == "descriptors of tenants" for t in threading.enumerate()) == MAX_OF_ONE

    soon = threading.Event()
    told = aside.ask(("alice", 1), "alice", lambda: "soon" * soon.wait())
    newest = threading.enumerate()[-1]
    soon.set()
    newest.join()
    assert told is None
    assert aside.ask(("alice", 1), "alice", lambda: "another") == "soon"
    hung.set()


def test_a_reply_is_kept_until_it_is_dropped() -> None:
    aside: Aside[int, str] = Aside("numbers")
    replies = iter(["first", "second"])

    def asked() -> str | None:
        told = aside.ask(1, "alice", lambda: next(replies))
        for thread in threading.enumerate():
            if thread.name == "numbers":
                thread.join()
        return told or aside.ask(1, "alice", lambda: "never")

    assert [asked(), asked()] == ["first"] * 2
    aside.drop(1)
    assert asked() == "second"
