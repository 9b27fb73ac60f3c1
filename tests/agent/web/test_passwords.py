import asyncio
from base64 import b64encode
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import bcrypt
import pytest

from exporter.agent.web.passwords import BasicCredentials, Passwords, credentials
from exporter.agent.web.peers import Busy

T = TypeVar("T")

CHEAP = 4  # bcrypt's least cost
USERS = {
    name: bcrypt.hashpw(password.encode(), bcrypt.gensalt(CHEAP))
    for name, password in (("alice", "right"), ("bob", "x" * 72), ("zoë", "pass:wörd"))
}


def run(asked: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asked)


async def right(
    passwords: Passwords, user: str, password: str, users: Mapping[str, bytes] = USERS
) -> bool:
    return await passwords.verify(BasicCredentials(user, password.encode()), users)


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("user", "password", "is_right"),
    [
        ("alice", "right", True),
        ("alice", "wrong", False),
        ("alice", "", False),
        ("alice", "right\0", False),
        ("bob", "right", False),
        ("bob", "x" * 72, True),
        ("bob", "x" * 72 + "cut off, as in Go", True),
        ("zoë", "pass:wörd", True),
        ("carol", "right", False),
        ("", "", False),
    ],
)
def test_a_user_is_known_by_name_and_password(
    user: str,
    password: str,
    is_right: bool,  # noqa: FBT001 - a table
) -> None:
    passwords = Passwords()

    for _ in range(2):  # what was verified before is no different
        assert run(right(passwords, user, password)) is is_right


@pytest.mark.parametrize(
    ("user", "password", "checks"),
    [("alice", "right", 1), ("alice", "wrong", 5), ("carol", "right", 5)],
)
def test_who_is_known_costs_one_check_and_who_is_not_what_a_wrong_password_does(
    user: str, password: str, checks: int
) -> None:
    async def asked() -> int:
        passwords = Passwords()
        alice = {"alice": USERS["alice"]}  # carol is not let in by her password
        for _ in range(5):
            assert await right(passwords, user, password, alice) is (checks == 1)
        return passwords.checks

    assert run(asked()) == checks


def test_a_password_that_was_changed_is_not_remembered() -> None:
    async def change() -> tuple[bool, bool, bool]:
        passwords = Passwords()
        changed = {"alice": bcrypt.hashpw(b"new", bcrypt.gensalt(CHEAP))}
        before = await right(passwords, "alice", "right")
        after = await right(passwords, "alice", "right", changed)
        gone = await right(passwords, "alice", "right", {"bob": USERS["bob"]})
        return before, after, gone

    assert run(change()) == (True, False, False)


def test_no_more_are_remembered_than_a_hundred_and_nothing_of_their_credentials() -> None:
    users = {f"user-{n}": bcrypt.hashpw(b"right", bcrypt.gensalt(CHEAP)) for n in range(110)}

    async def everybody() -> list[bytes]:
        passwords = Passwords()
        for user in users:
            assert await right(passwords, user, "right", users)
        return [*passwords._verified]

    kept = run(everybody())
    assert len(kept) == 100
    assert b"right" not in b"".join(kept)


def test_guessers_do_not_queue_without_end_and_do_not_keep_out_who_is_known() -> None:
    async def crowd() -> tuple[int, bool]:
        passwords = Passwords()
        assert await right(passwords, "alice", "right")
        guesses = [asyncio.create_task(right(passwords, "alice", str(n))) for n in range(100)]
        await asyncio.sleep(0)
        known = await right(passwords, "alice", "right")
        results = await asyncio.gather(*guesses, return_exceptions=True)
        return sum(isinstance(result, Busy) for result in results), known

    assert run(crowd()) == (35, True)  # one is checked and 64 wait


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (basic("a", "b"), BasicCredentials("a", b"b")),
        (basic("a", "b:c"), BasicCredentials("a", b"b:c")),
        ("basic YTpi", BasicCredentials("a", b"b")),
        (basic("", ""), BasicCredentials("", b"")),
        ("", None),
        ("Basic", None),
        ("Basic !!!", None),
        ("Basic YWI=", None),
        ("Basic /zpi", None),
        ("Bearer YTpi", None),
    ],
)
def test_the_header_is_read_as_basic_authentication(
    header: str, found: BasicCredentials | None
) -> None:
    assert credentials(header) == found
