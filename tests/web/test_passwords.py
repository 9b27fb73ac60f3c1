import asyncio
from base64 import b64encode
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import bcrypt
import pytest

from exporter.web.passwords import BasicCredentials, Passwords, credentials
from exporter.web.peers import Busy

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


def test_an_unknown_user_is_not_let_in_by_anothers_password() -> None:
    alice = {"alice": USERS["alice"]}

    assert not run(right(Passwords(), "carol", "right", alice))


def test_a_scrape_costs_no_bcrypt_after_the_first() -> None:
    async def scrapes() -> int:
        passwords = Passwords()
        for _ in range(50):
            assert await right(passwords, "alice", "right")
        return passwords.checks

    assert run(scrapes()) == 1


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("carol", "right")])
def test_an_unknown_user_costs_what_a_wrong_password_does(user: str, password: str) -> None:
    async def guesses() -> int:
        passwords = Passwords()
        for _ in range(5):
            assert not await right(passwords, user, password)
        return passwords.checks

    assert run(guesses()) == 5


def test_a_password_that_was_changed_is_not_remembered() -> None:
    async def change() -> tuple[bool, bool, bool]:
        passwords = Passwords()
        changed = {"alice": bcrypt.hashpw(b"new", bcrypt.gensalt(CHEAP))}
        before = await right(passwords, "alice", "right")
        after = await right(passwords, "alice", "right", changed)
        gone = await right(passwords, "alice", "right", {"bob": USERS["bob"]})
        return before, after, gone

    assert run(change()) == (True, False, False)


def test_no_more_are_remembered_than_a_hundred() -> None:
    users = {f"user-{n}": bcrypt.hashpw(b"p", bcrypt.gensalt(CHEAP)) for n in range(110)}

    async def everybody() -> int:
        passwords = Passwords()
        for user in users:
            assert await right(passwords, user, "p", users)
        return len(passwords._verified)

    assert run(everybody()) == 100


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


def test_nothing_of_a_credential_is_kept() -> None:
    passwords = Passwords()
    run(right(passwords, "alice", "right"))

    assert b"right" not in b"".join(passwords._verified)


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
