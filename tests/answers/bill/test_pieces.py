"""A bill reads a few nodes at a time: what it binds, what a refusal costs, and where it stops."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.nodegroups import groups_of
from exporter.cli import main
from exporter.httpclient import NoAnswerError
from tests.histories.checks import bill, stored
from tests.histories.making import DAY, plain, twisted
from tests.histories.store import MemoryStore, answering
from tests.histories.values import History

INSTANCE = re.compile(r'instance=~"((?:[^"\\]|\\.)*)"')
OFTEN_S = 60


def fleet(length_s: int, seed: int = 0) -> History:
    """Three nodes; a card of one is put into another, and pods' names recur."""
    rng = Random(seed)  # noqa: S311 - no secret
    while len((history := plain(rng, length_s, OFTEN_S)).machines) < 3:
        pass
    return twisted(rng, history, ["card_moved"])


def shown(instance: str, uuid: str, **more: str) -> dict[str, str]:
    return {"job": "mgpu", "instance": instance, "uuid": uuid, **more}


@pytest.mark.parametrize(
    ("known", "groups"),
    [
        ([shown("a", "G-1"), shown("b", "G-2")], [{"a"}, {"b"}]),
        ([shown("a", "G-1"), shown("b", "G-1")], [{"a", "b"}]),
        ([shown("a", "G-1", node="n"), shown("b", "G-2", node="n")], [{"a", "b"}]),
        ([shown("a", "G-1", exported_uuid="G-2"), shown("b", "G-2")], [{"a", "b"}]),
        ([shown("a", "DRM-0000:50:00.0"), shown("b", "DRM-0000:50:00.0")], [{"a"}, {"b"}]),
        ([shown("a", "G-1"), shown("b", "G-2"), shown("b", "G-1")], [{"a", "b"}]),
        ([shown("a", "G-1"), shown("b", "G-2"), shown("c", "G-2"), shown("c", "G-1")], [{*"abc"}]),
        ([shown("a", "G-1", job="x"), shown("a", "G-1")], [{"a"}]),
    ],
    ids=[
        *("two cards", "one card", "one node", "renamed", "a place", "moved", "in a row", "jobs"),
    ],
)
def test_what_belongs_together_is_read_together(
    known: list[dict[str, str]], groups: list[set[str]]
) -> None:
    assert [group.instances for group in groups_of(known)] == groups


@contextmanager
def asked(
    store: MemoryStore, refuses: Callable[[str], NoAnswerError | None]
) -> Iterator[list[str]]:
    """The questions that a store is asked; some it refuses."""
    questions: list[str] = []

    def answer(_: object, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        questions.append(query["query"])
        if error := refuses(query["query"]):
            raise error
        return store.json(path, query)

    with patch.object(HttpClient, "json", answer):
        yield questions


def nodes_in(expression: str) -> int:
    """Of how many addresses a question is; 0: of all."""
    found = INSTANCE.search(expression)
    return len(found[1].split("|")) if found else 0


@pytest.mark.parametrize(
    "error",
    [
        NoAnswerError("too many samples", 422),
        NoAnswerError("too busy", 503),
        NoAnswerError("too late"),
    ],
    ids=["422", "503", "late"],
)
def test_a_refusal_halves_only_that_piece(error: NoAnswerError, tmp_path: Path) -> None:
    history = fleet(90 * 60)
    store = stored(history)
    with answering(store) as address:
        whole = bill(history, address, tmp_path, "owner", "use")
    bound = 2  # a card was moved between two of the nodes: these are not parted

    with asked(store, lambda said: error if nodes_in(said) > bound else None) as questions:
        parted = bill(history, "http://a:9090", tmp_path, "owner", "use")

    assert parted.status == 0, parted.err
    assert json.loads(parted.out) == json.loads(whole.out)
    assert {nodes_in(one) for one in questions} >= {1, bound}
    assert any(nodes_in(one) > bound for one in questions)
    assert sum(nodes_in(one) > bound for one in questions) <= 5  # not one for each later question


def test_a_store_that_others_keep_busy_is_asked_again(tmp_path: Path) -> None:
    """Mimir, Thanos and clouds answer 429 while a tenant has too many questions open."""
    history = fleet(90 * 60)
    busy: set[str] = set()

    def once(said: str) -> NoAnswerError | None:
        if said in busy:
            return None
        busy.add(said)
        return NoAnswerError("http://a:9090 answers 429: is asked too often", 429)

    with asked(stored(history), lambda _: None):
        wanted = bill(history, "http://a:9090", tmp_path, "owner", "use")
    with (
        patch("exporter.answers.reading.queryapi.AGAIN_S", (0.0,)),
        asked(stored(history), once),
    ):
        said = bill(history, "http://a:9090", tmp_path, "owner", "use")

    assert busy
    assert said == wanted


def test_a_store_that_stays_busy_is_asked_some_times_only(tmp_path: Path) -> None:
    error = NoAnswerError("http://a:9090 answers 429: is asked too often", 429)
    with (
        patch("exporter.answers.reading.queryapi.AGAIN_S", (0.0, 0.0)),
        asked(stored(fleet(90 * 60)), lambda _: error) as questions,
    ):
        said = bill(fleet(90 * 60), "http://a:9090", tmp_path, "owner", "use")

    assert said.status == 2
    assert "429" in said.err
    assert len(questions) == 3


def test_nodes_that_cannot_be_parted_are_refused_in_the_stores_words(tmp_path: Path) -> None:
    history = fleet(90 * 60)
    error = NoAnswerError("http://a:9090 answers 422: too many samples", 422)
    with asked(stored(history), lambda said: error if nodes_in(said) else None):
        said = bill(history, "http://a:9090", tmp_path, "namespace", "use")

    assert said.status == 2
    assert "too many samples" in said.err


def test_a_quiet_fleet_is_asked_little(tmp_path: Path) -> None:
    """Of each of three days four questions about pieces at most, and a dozen about all."""
    history = plain(Random(3), 2 * DAY, 240)  # noqa: S311 - no secret
    with asked(stored(history), lambda _: None) as questions:
        said = bill(history, "http://a:9090", tmp_path, "namespace", "use")

    assert said.status == 0, said.err
    closely = [one for one in questions if re.search(r"\[\d+s\]$", one)]
    assert len(questions) - len(closely) <= 3 * (4 + 12)
    assert len(closely) <= 3 * 6


def test_a_namespace_that_comes_to_a_card_is_no_reason_to_read_closely(tmp_path: Path) -> None:
    """Namespaces begin in nearly each hour. To read each such step closely costs four times."""
    history = plain(Random(5), 2 * DAY, 240)  # noqa: S311 - no secret
    with asked(stored(history), lambda _: None) as questions:
        said = bill(history, "http://a:9090", tmp_path, "namespace", "use")

    assert said.status == 0, said.err
    closely = [one for one in questions if re.search(r"\[\d+s\]$", one)]
    assert len(closely) <= 1  # of the step in which a range begins


def test_an_interrupt_says_how_far_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    history = fleet(90 * 60)

    def interrupted(expression: str) -> None:
        if nodes_in(expression):
            raise KeyboardInterrupt

    given = ["--since=1h", "--price=1", "--prometheus=http://a:9090"]
    with asked(stored(history), interrupted), patch("time.time", lambda: float(history.until_s)):
        assert main(["bill", *given]) == 130

    assert "no bill is made" in capsys.readouterr().err
