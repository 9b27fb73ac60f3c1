import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.agent.sources.node.nodepolicies import MAX_CARDS, CardPolicies
from exporter.model import PodTable

Write = Callable[[str, str | bytes], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a card's policy below ``tmp_path``, which stands for /proc."""

    def write(card: str, text: str | bytes) -> None:
        folder = tmp_path / "qgpu" / card
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "policy").write_bytes(text.encode() if isinstance(text, str) else text)

    return write


def ask(root: Path) -> tuple[Mapping[int, str], Mapping[str, int]]:
    policies = CardPolicies(str(root))
    return policies.facts(policies.ask(PodTable()), PodTable()).card_policies, policies.rejected()


def test_each_card_has_its_policy(tmp_path: Path, write: Write) -> None:
    write("0", "fixed-share\n")
    write("1", "bs")
    write("10", " best-effort ")
    write("2", "\n")
    (tmp_path / "qgpu" / "version").write_text("3.0.5\n")

    assert ask(tmp_path) == ({0: "fixed-share", 1: "bs", 10: "best-effort"}, {})


@pytest.mark.parametrize("place", ["", "qgpu", "qgpu/0"])
def test_a_node_without_them_has_none(tmp_path: Path, place: str) -> None:
    if place == "qgpu":
        (tmp_path / place).write_text("a file")
    elif place:
        (tmp_path / place).mkdir(parents=True)

    assert ask(tmp_path) == ({}, {})


@pytest.mark.parametrize("name", ["00", "-1", "x", "1.5", "99999", "٣"])
def test_what_is_no_cards_number_is_not_read(tmp_path: Path, write: Write, name: str) -> None:
    write(name, "bs")

    assert ask(tmp_path) == ({}, {})


@pytest.mark.parametrize("text", ["a b", "x" * 65, b"\xff\xfe", "bs\0", "fs\nbs", "{}"])
def test_a_file_that_holds_no_policy_costs_its_card_only(
    tmp_path: Path, write: Write, text: str | bytes
) -> None:
    write("0", text)
    write("1", "fs")

    assert ask(tmp_path) == ({1: "fs"}, {"card_policy_unusable": 1})


def test_a_folder_or_a_pipe_in_its_place_costs_its_card_only(tmp_path: Path, write: Write) -> None:
    write("2", "fs")
    (tmp_path / "qgpu/0/policy").mkdir(parents=True)
    (tmp_path / "qgpu/1").mkdir()
    os.mkfifo(tmp_path / "qgpu/1/policy")

    assert ask(tmp_path) == ({2: "fs"}, {"card_policy_unusable": 1})


def test_a_fault_is_counted_and_logged_once_as_long_as_it_lasts(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    policies = CardPolicies(str(tmp_path))
    rejected = []
    for text in ("?", "?", "fs", "?", "!"):
        write("0", text)
        policies.ask(PodTable())
        rejected.append(policies.rejected()["card_policy_unusable"])

    assert rejected == [1, 1, 1, 2, 3]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert f"{tmp_path}/qgpu/0/policy is not used" in caplog.messages[0]


def test_the_number_of_cards_is_bounded(tmp_path: Path, write: Write) -> None:
    for card in range(MAX_CARDS + 3):
        write(str(card), "fs")

    assert list(ask(tmp_path)[0]) == list(range(MAX_CARDS))


@given(content=st.binary(max_size=80))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_content_is_a_policy_or_counted(tmp_path: Path, write: Write, content: bytes) -> None:
    write("0", content)
    found, rejected = ask(tmp_path)

    nothing = not content.decode(errors="replace").strip()
    assert len(found) + rejected.get("card_policy_unusable", 0) + nothing == 1
    assert all(policy.isascii() and policy.isprintable() for policy in found.values())
