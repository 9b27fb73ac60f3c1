"""Closed days: a bill of them is that of the store, to the last unit."""

import errno
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.answers.reading.ranges import written
from tests.histories.checks import Said, command, price_file, stored
from tests.histories.making import DAY, RANDOM, TWISTS, plain, twisted
from tests.histories.scrapes import scrapes
from tests.histories.store import MemoryStore, answering, filled
from tests.histories.values import History

OFTEN_S = 300
BILLS = [
    ("--by=namespace", "--method=allocation", "--format=json"),
    ("--by=owner", "--method=use", "--format=csv", "--step=1d"),
    ("--by=label:team", "--method=allocation", "--format=focus", "--step=1w"),
    ("--by=pod", "--method=use", "--format=table"),
]
OTHERS = [
    (f"--by={by}", f"--method={method}", "--format=json", *step)
    for by in ("namespace", "pod", "owner", "label:team", "user", "account", "kind")
    for method in ("allocation", "use")
    for step in ((), ("--step=1d",))
]


class Fleet(NamedTuple):
    """A store of some days, and what a user gives with each command."""

    history: History
    store: MemoryStore
    address: str
    folder: Path
    days: tuple[str, ...]

    def bill(self, *flags: str, asks: bool = True) -> Said:
        prices = price_file(self.history.prices, self.folder)
        before = len(self.store.asked)
        said = command(self.address if asks else "", "bill", f"--prices={prices}", *flags)
        assert asks or len(self.store.asked) == before
        return said

    def close(self, day: str, to: str, *flags: str) -> Said:
        return self.bill("close", f"--day={day}", f"--to={to}", *flags)

    @property
    def range(self) -> tuple[str, str]:
        since_s, until_s = self.history.since_s, self.history.until_s
        return f"--since={written(since_s)}", f"--until={written(until_s)}"

    @property
    def whole_days(self) -> tuple[str, str]:
        return f"--since={self.days[0]}", f"--until={self.days[-1]}"


@contextmanager
def fleet(rng: Random, folder: Path, days: int = 3, *twists: str) -> Iterator[Fleet]:
    """A fleet of some days, which begin and end within a day."""
    history = twisted(rng, plain(rng, days * DAY, OFTEN_S), twists)
    store = stored(history)
    with answering(store) as address:
        yield asked(history, store, address, folder)


def asked(history: History, store: MemoryStore, address: str, folder: Path) -> Fleet:
    """A fleet that is asked at an address."""
    midnights = range(history.since_s // DAY + 1, history.until_s // DAY + 1)
    named = tuple(written(at * DAY)[:10] for at in midnights)
    return Fleet(history, store, address, folder, named)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    rng = Random(5)  # noqa: S311 - no secret
    with fleet(rng, tmp_path_factory.mktemp("fleet"), 3, "exporter_restarts") as one:
        for day in one.days[:-1]:
            said = one.close(day, str(one.folder / "closed"))
            assert said.status == 0, said.err
        yield one


@pytest.mark.parametrize(
    "flags", [*BILLS[:2], *(pytest.param(one, marks=pytest.mark.slow) for one in BILLS[2:])]
)
def test_a_bill_of_closed_and_open_days_is_that_of_the_store(
    made: Fleet, flags: tuple[str, ...]
) -> None:
    closed = f"--closed={made.folder / 'closed'}"
    expected = made.bill(*made.range, *flags)
    assert expected.status == 0, expected.err
    assert expected.out.count("\n") > 3
    assert made.bill(*made.range, *flags, closed).out == expected.out


@pytest.mark.slow
@pytest.mark.parametrize("flags", OTHERS)
def test_so_it_is_by_each_payer_method_and_step(made: Fleet, flags: tuple[str, ...]) -> None:
    test_a_bill_of_closed_and_open_days_is_that_of_the_store(made, flags)


def test_a_bill_of_closed_days_alone_asks_nobody(made: Fleet) -> None:
    closed = f"--closed={made.folder / 'closed'}"
    said = made.bill(*made.whole_days, closed, "--format=json", asks=False)
    assert said.status == 0, said.err
    assert json.loads(said.out)["totals"]["gpu_seconds"] > 0
    said = made.bill(*made.range, closed, asks=False)
    assert said.status == 2
    assert "a part of a day is in no closed day" in said.err


def test_closed_days_say_that_no_target_is_chosen_of_them(made: Fleet) -> None:
    flags = f"--closed={made.folder / 'closed'}", "--target=node=gpu-0"
    said = made.bill(*made.whole_days, *flags, asks=False)
    assert said.status == 0, said.err
    assert "--job and --target choose nothing of them" in said.err


def test_what_only_one_shard_lacks_is_not_said_of_all(made: Fleet, tmp_path: Path) -> None:
    of_day = f"--since={made.days[0]}", f"--until={made.days[1]}"
    to, lacks = tmp_path / "closed", "is a H100: none has that price"
    said = [made.close(made.days[0], str(to), f"--shard={i}/3").err for i in (1, 2, 3)]
    assert {lacks in one for one in said} == {True, False}
    assert lacks not in made.bill(*of_day).err
    [line] = [x for x in made.bill(*of_day, f"--closed={to}").err.splitlines() if lacks in x]
    assert "parts: no card in this range" in line


def test_a_day_that_cannot_be_written_again_stays_as_it_was_closed(
    made: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made.close(made.days[0], str(tmp_path), "--target=node=gpu-0").status == 0
    before, write = files(tmp_path), Path.open

    def full(path: Path, mode: str = "r", **how: Any) -> Any:
        if ".parquet" in path.name and mode == "wb":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, mode, **how)

    monkeypatch.setattr(Path, "open", full)
    said = made.close(made.days[0], str(tmp_path), "--reopen")
    monkeypatch.undo()
    assert said.status == 2
    assert "No space left" in said.err
    assert files(tmp_path) == before


def test_a_folder_without_closed_days_is_named(made: Fleet) -> None:
    said = made.bill(*made.whole_days, f"--closed={made.folder / 'typo'}")
    assert said.status == 0
    assert f"no day of this range is closed in {made.folder / 'typo'}" in said.err


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_a_day_is_the_same_bytes_when_it_is_closed_again(made: Fleet, tmp_path: Path) -> None:
    day, where = made.days[0], made.folder / "closed"
    before = files(where)
    assert [path for path in before if path.endswith(".json")]
    assert made.close(day, str(tmp_path)).status == 0
    assert files(tmp_path) == {path: data for path, data in before.items() if day in path}
    said = made.close(day, str(tmp_path), "--price=9")  # its prices are those of then
    assert said.out == f"{day} is closed already\n"
    assert made.close(day, str(tmp_path), "--reopen").out == f"{day} is as it was closed\n"
    assert files(where) == before


def test_what_a_reopened_day_has_anew_is_said(made: Fleet, tmp_path: Path) -> None:
    day = made.days[0]
    assert made.close(day, str(tmp_path), "--target=node=gpu-0").status == 0
    said = made.close(day, str(tmp_path), "--reopen")
    assert said.status == 0
    assert said.out.startswith(f"{day} differs from what was closed:\n  (nobody), unallocated: ")
    assert files(tmp_path) == {k: v for k, v in files(made.folder / "closed").items() if day in k}


def test_shards_make_the_whole_and_none_may_miss(made: Fleet, tmp_path: Path) -> None:
    day, closed = made.days[0], f"--closed={tmp_path}"
    of_day = f"--since={day}", f"--until={made.days[1]}"
    for shard in ("2/3", "3/3"):
        assert made.close(day, str(tmp_path), f"--shard={shard}").status == 0
    said = made.bill(*of_day, closed, asks=False)
    assert said.status == 2
    assert f"{day}: the day is not closed in {tmp_path} without the shards 1/3" in said.err
    said = made.close(day, str(tmp_path))
    assert said.status == 2
    assert f"{day} stays open: it is closed by shards of 3" in said.err
    assert made.close(day, str(tmp_path), "--shard=1/3").status == 0
    whole = made.bill(*of_day, f"--closed={made.folder / 'closed'}", asks=False)
    assert made.bill(*of_day, closed, asks=False).out == whole.out


def test_days_that_stay_open_for_one_reason_are_one_line(made: Fleet, tmp_path: Path) -> None:
    said = made.bill("close", f"--since={made.days[0]}", f"--to={tmp_path}")

    assert said.status == 2
    [line] = [line for line in said.err.splitlines() if " open: " in line]
    assert " stay open: " in line
    assert said.out.count(" is closed: ") == len(made.days)


def test_a_file_that_was_changed_is_refused_and_closed_again(made: Fleet, tmp_path: Path) -> None:
    day = made.days[0]
    of_day = f"--since={day}", f"--until={made.days[1]}"
    assert made.close(day, str(tmp_path)).status == 0
    whole = made.bill(*of_day, f"--closed={tmp_path}", asks=False)
    [path] = tmp_path.glob("*/*/*.parquet")
    path.write_bytes(path.read_bytes()[:-1])
    said = made.bill(*of_day, f"--closed={tmp_path}", asks=False)
    assert said.status == 2
    assert f"{path.name} is another file than" in said.err
    [record] = tmp_path.glob("*/_closed*")
    record.write_text(record.read_text().replace('"account": "', '"account": "x'))
    said = made.close(day, str(tmp_path), "--reopen")
    assert (said.status, "cannot be compared" in said.out) == (0, True)
    assert made.bill(*of_day, f"--closed={tmp_path}", asks=False).out == whole.out


def test_what_a_close_left_that_was_cut_off_is_in_no_day(made: Fleet, tmp_path: Path) -> None:
    day = made.days[0]
    assert made.close(day, str(tmp_path), "--shard=1/2").status == 0
    [record] = tmp_path.glob("*/_closed*")
    record.unlink()
    said = made.close(day, str(tmp_path))
    assert said.status == 2
    assert "books-1-of-2.parquet is of a close by other shards that was cut off" in said.err
    assert made.close(day, str(tmp_path), "--shard=1/2").status == 0


def test_a_shard_asks_for_its_own_nodes(made: Fleet, tmp_path: Path) -> None:
    of_counters = re.compile(r'mgpu_container_core_seconds_total.*instance=~"((?:[^"\\]|\\.)*)"')
    read, files = list[str](), 0
    for shard in range(1, 10):
        before = len(made.store.asked)
        assert made.close(made.days[0], str(tmp_path), f"--shard={shard}/9").status == 0
        questions = (query["query"] for _, query in made.store.asked[before:])
        read += {
            one
            for text in questions
            for found in of_counters.findall(text)
            for one in found.split("|")
        }
        [file] = tmp_path.glob(f"*/_closed-{shard}-of-9.json")
        files += bool(json.loads(file.read_text())["cards"])
    assert 1 < files < 9
    assert len(read) == len(set(read)) >= files


def test_a_card_in_the_books_of_two_clusters_is_not_billed_twice(
    made: Fleet, tmp_path: Path
) -> None:
    day, of_day = made.days[0], (f"--since={made.days[0]}", f"--until={made.days[1]}")
    assert made.close(day, str(tmp_path / "one"), "--cluster=east").status == 0
    said = made.close(day, str(tmp_path / "one"), "--cluster=west")
    assert said.status == 2
    assert "GPU-0a of gpu-0 would be billed twice, by day=" in said.err
    assert made.close(day, str(tmp_path / "two"), "--cluster=west").status == 0
    for path, data in files(tmp_path / "two").items():  # as they were closed before
        (tmp_path / "one" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "one" / path).write_bytes(data)
    said = made.bill(*of_day, f"--closed={tmp_path / 'one'}", asks=False)
    assert said.status == 2
    assert f"{day}: GPU-0a of gpu-0 would be billed twice, by day=" in said.err
    for name in ("east", "west"):
        flags = f"--cluster={name}", f"--target=node=gpu-{int(name == 'west')}"
        assert made.close(day, str(tmp_path / "one"), "--reopen", *flags).status == 0
    assert made.bill(*of_day, f"--closed={tmp_path / 'one'}", asks=False).status == 0


@pytest.mark.parametrize("late_h", [1, 23, 25])
@pytest.mark.parametrize("behind_s", [3600, -OFTEN_S])
def test_a_day_waits_for_its_last_scrapes(
    made: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late_h: int, behind_s: int
) -> None:
    """A store that others write to may be behind: its day would be closed with less."""
    day, over_s = made.days[0], (made.history.since_s // DAY + 2) * DAY
    known = (each for each in scrapes(made.history) if each[2] <= over_s - behind_s)
    with answering(filled(known)) as address:
        monkeypatch.setattr(time, "time", lambda: over_s + late_h * 3600)
        said = command(address, "bill", "close", "--price=1", f"--day={day}", f"--to={tmp_path}")
    waits = behind_s > 0 and late_h < 24
    assert (said.status, bool(files(tmp_path))) == ((2, False) if waits else (0, True))
    assert ("has no scrape of an exporter since it was over" in said.err) == waits


def test_a_day_that_was_copied_from_two_divisions_is_not_billed_twice(
    made: Fleet, tmp_path: Path
) -> None:
    of_day = f"--since={made.days[0]}", f"--until={made.days[1]}"
    for shard in ("1/1", "1/2", "2/2"):
        part = tmp_path / shard.replace("/", "-")
        assert made.close(made.days[0], str(part), f"--shard={shard}").status == 0
        shutil.copytree(part, tmp_path / "all", dirs_exist_ok=True)
    said = made.bill(*of_day, f"--closed={tmp_path / 'all'}", asks=False)
    assert said.status == 2
    assert "would be billed twice" in said.err


def test_a_day_that_was_copied_to_another_is_not_billed_as_that(
    made: Fleet, tmp_path: Path
) -> None:
    days = made.days
    assert made.close(days[0], str(tmp_path)).status == 0
    shutil.copytree(tmp_path / f"day={days[0]}", tmp_path / f"day={days[1]}")
    of_both = f"--since={days[0]}", f"--until={days[2]}", f"--closed={tmp_path}"
    for said in (made.bill(*of_both, asks=False), made.close(days[1], str(tmp_path), "--reopen")):
        assert said.status == 2
        assert f"is the record of day={days[0]}/_closed-1-of-1.json" in said.err


@pytest.mark.parametrize(
    "changed",
    [
        {"shard": [1]},
        {"shard": [0, 0]},
        {"files": None},
        {"of": 5},
        {"day_s": "x"},
        {"day_s": 1e30},
    ],
)
def test_a_record_that_was_changed_is_no_record(
    made: Fleet, tmp_path: Path, changed: dict[str, Any]
) -> None:
    day, of_day = made.days[0], (f"--since={made.days[0]}", f"--until={made.days[1]}")
    assert made.close(day, str(tmp_path)).status == 0
    [record] = tmp_path.glob("*/_closed*")
    record.write_text(json.dumps({**json.loads(record.read_text()), **changed}))
    said = made.bill(*of_day, f"--closed={tmp_path}", asks=False)
    assert said.status == 2
    assert "_closed-1-of-1.json is no record of a closed day" in said.err


def test_no_close_writes_over_the_files_of_another(made: Fleet, tmp_path: Path) -> None:
    day = made.days[0]
    assert made.close(day, str(tmp_path), "--target=node=gpu-0").status == 0
    before = files(tmp_path)
    said = made.close(day, str(tmp_path), "--target=node=gpu-1", "--cluster=none")
    assert said.status == 2
    assert "cluster=none/books-1-of-1.parquet is of " in said.err
    assert files(tmp_path) == before


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_days_may_stand_at_a_url(made: Fleet, tmp_path: Path, scheme: str) -> None:
    where = f"{scheme}://{tmp_path}"
    of_day = f"--since={made.days[0]}", f"--until={made.days[1]}"
    said = made.close(made.days[0], where)
    assert said.status == 0, said.err
    assert made.close(made.days[0], where).out == f"{made.days[0]} is closed already\n"
    whole = made.bill(*of_day, f"--closed={made.folder / 'closed'}", asks=False)
    assert made.bill(*of_day, f"--closed={where}", asks=False).out == whole.out


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--cluster=east"], "--cluster is of bill close"),
        (["--shard=1/2"], "--shard is of bill close"),
        (["--day=2026-05-30"], "--day is of bill close"),
        (["--reopen"], "--reopen is of bill close"),
        (["--to=x"], "--to is of bill close"),
    ],
)
@pytest.mark.parametrize("has_closed", [True, False])
def test_a_bill_of_a_part_is_not_that_of_all(
    made: Fleet, flags: list[str], why: str, *, has_closed: bool
) -> None:
    closed = [f"--closed={made.folder / 'closed'}"] if has_closed else []
    said = made.bill(*made.range, *closed, *flags)
    assert (said.status, said.out) == (2, "")
    assert why in said.err


@pytest.mark.parametrize(
    ("where", "flags", "why"),
    [
        ("closed", ["--estimate"], "--estimate: closed days are whole bills"),
        ("closed", ["--step=1h"], "--step=1h: a closed day has no hours"),
        ("gopher://x", [], "gopher://x: Protocol not known: gopher"),
        ("broken", [], "_closed-1-of-1.json is no record of a closed day"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    made: Fleet, where: str, flags: list[str], why: str
) -> None:
    broken = made.folder / "broken" / f"day={made.days[0]}" / "_closed-1-of-1.json"
    broken.parent.mkdir(parents=True, exist_ok=True)
    broken.write_text('{"form": 1, "cards": [[1]]}')
    place = where if "://" in where else made.folder / where
    said = made.bill(*made.whole_days, f"--closed={place}", *flags, asks=False)
    assert said.status == 2
    assert why in said.err


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["close"], "close: say where to with --to"),
        (["close", "--to=x", "--estimate"], "--estimate: a closed day has the books of all bills"),
        (["close", "--to=x", "--step=1d"], "--step: a closed day has the books of all bills"),
        (["close", "--to=x", "--day=2999-01-01"], "a day is closed when it is over (UTC)"),
        (["close", "--to=x", "--shard=3/2"], "'3/2' is no shard"),
    ],
)
def test_a_close_that_cannot_be_is_refused(made: Fleet, flags: list[str], why: str) -> None:
    said = made.bill(*flags)
    assert said.status == 2
    assert why in said.err


@pytest.mark.slow
@settings(max_examples=max(5, settings().max_examples // 20))
@given(
    RANDOM,
    st.lists(st.sampled_from(sorted(TWISTS)), max_size=2),
    st.sampled_from(BILLS + OTHERS),
    st.integers(1, 3),
)
def test_a_closed_bill_of_any_history_is_that_of_the_store(
    rng: Random, twists: list[str], flags: tuple[str, ...], shards: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, fleet(rng, Path(folder), 2, *twists) as one:
        expected = one.bill(*one.range, *flags)
        if expected.status:  # nobody can tell who had the cards
            return
        for day in one.days[:-1]:
            for shard in range(1, shards + 1):
                said = one.close(day, f"{folder}/closed", f"--shard={shard}/{shards}")
                assert said.status == 0, said.err
        assert one.bill(*one.range, *flags, f"--closed={folder}/closed").out == expected.out
