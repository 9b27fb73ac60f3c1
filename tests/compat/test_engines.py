"""The same questions over several engines, each with the same nodes: the answers are the same.

A Prometheus with all of them; a Prometheus that reads two shards, as a querier does, each of which
has one of the nodes and what its rules recorded; and a VictoriaMetrics.
"""

import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from benchmarks.boards.__main__ import AT, requests, rules
from benchmarks.top.__main__ import record, written
from exporter.answers.reading.ranges import written as written_as
from exporter.cli import main
from tests.answers.reading.test_fleetlines import SMALL, fill, seen
from tests.answers.reading.views import everything
from tests.dashboards.grafana import PATHS
from tests.e2e.programs import eventually
from tests.store import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.program("prometheus"),
    pytest.mark.program("victoria-metrics"),
]

BOARDS = sorted(path.stem.removeprefix("mgpu-") for path in PATHS)
LENGTH_S, RANGE_S = 900, 300  # what is written, and what is looked at
SHARDS, VICTORIA = "shards", "VictoriaMetrics"

Answer = Mapping[frozenset[tuple[str, str]], Mapping[float, float]]


class Victoria(Store):
    """A VictoriaMetrics, written and asked as a Prometheus is."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self._shown, self._known = {}, {}
        places = [f"-storageDataPath={folder / 'vm'}", f"-httpListenAddr={self.address}"]
        at_once = ["-search.latencyOffset=0s", "-search.disableCache", "-loggerLevel=ERROR"]
        self._process = subprocess.Popen(["victoria-metrics", *places, *at_once])

    def flush(self) -> None:
        """Lets questions find what was written."""
        with urlopen(f"http://{self.address}/internal/force_flush", timeout=60):
            pass

    def query(self, expression: str, at: float) -> list[dict[str, Any]]:
        """The vector that an expression gives at a time, of all that was written before."""
        self.flush()
        return super().query(expression, at)

    def has(self, count: int, family: str) -> bool:
        """Whether so many series are found, which takes it a moment."""
        self.flush()
        found = self.get("query", query=f"count({family})")["result"]
        return bool(found) and float(found[0]["value"][1]) == count


class Engines:
    """The engines, by name, and what has to be written into which to be in each once."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        def place(name: str) -> Path:
            (folder / name).mkdir()
            return folder / name

        self.whole = stack.enter_context(Store(place("whole")))
        self._shards = [
            stack.enter_context(
                Store(
                    place(f"shard-{number}"),
                    config={"global": {"external_labels": {"shard": f"{number}"}}},
                )
            )
            for number in range(2)
        ]
        remote = [
            {"url": f"http://{one.address}/api/v1/read", "read_recent": True}
            for one in self._shards
        ]
        reader = stack.enter_context(Store(place("reader"), config={"remote_read": remote}))
        self._victoria = stack.enter_context(Victoria(place("victoria")))
        self.others: Mapping[str, Store] = {SHARDS: reader, VICTORIA: self._victoria}

    def write(self, nodes: range, how: Callable[[Store, range], object]) -> None:
        """Writes nodes into all, the first half into the first shard."""
        half = nodes.start + len(nodes) // 2
        for store, some in (
            (self.whole, nodes),
            (self._victoria, nodes),
            (self._shards[0], range(nodes.start, half)),
            (self._shards[1], range(half, nodes.stop)),
        ):
            how(store, some)
        self._victoria.flush()

    def record(self) -> None:
        """Lets each store have what the rules record of it."""
        for store in (self.whole, self._victoria, *self._shards):
            record(store)
        self._victoria.flush()


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """Engines with two simulated nodes, a standard one and one of others."""
    with ExitStack() as stack:
        made = Engines(tmp_path_factory.mktemp("engines"), stack)

        def write(store: Store, nodes: range) -> None:
            for number in nodes:
                store.write(written(number, 2, LENGTH_S))

        made.write(range(2), write)
        made.record()
        yield made


def answer(store: Store, path: str, arguments: Mapping[str, str]) -> Answer:
    """What an engine answers, by labels and time; without the shard, to six digits."""
    found: dict[frozenset[tuple[str, str]], dict[float, float]] = {}
    for one in store.get(path, **arguments)["result"]:
        labels = frozenset((k, v) for k, v in one["metric"].items() if k != "shard")
        samples = one["values"] if "values" in one else [one["value"]]
        found[labels] = {float(at): float(f"{float(value):.6g}") for at, value in samples}
    return found


def differing(
    engines: Engines, asked: Mapping[str, list[tuple[str, Mapping[str, str]]]]
) -> dict[str, set[str]]:
    """What each engine answers otherwise than the one Prometheus."""
    found: dict[str, set[str]] = {name: set() for name in engines.others}
    for what, questions in asked.items():
        for path, arguments in questions:
            wanted = answer(engines.whole, path, arguments)
            for name, store in engines.others.items():
                if answer(store, path, arguments) != wanted:
                    found[name].add(what)
    return found


def test_rules_record_the_same(engines: Engines) -> None:
    asked: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
    for number, rule in enumerate(rules()):
        what = rule.record or f"{rule.group} {number}"
        asked.setdefault(what, []).append(("query", {"query": rule.expr, "time": str(AT)}))

    assert differing(engines, asked) == {SHARDS: set(), VICTORIA: set()}


@pytest.mark.parametrize("board", BOARDS)
def test_boards_show_the_same(board: str, engines: Engines) -> None:
    asked: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
    for one in requests(engines.whole, board, RANGE_S):
        asked.setdefault(one.panel, []).append((one.path, one.arguments))

    assert differing(engines, asked) == {SHARDS: set(), VICTORIA: set()}


def test_commands_say_the_same(engines: Engines, capsys: pytest.CaptureFixture[str]) -> None:
    most = 'topk(1, mgpu_pod_core_usage_gpus{namespace="team-a"})'
    metric = engines.whole.query(most, AT)[0]["metric"]
    pod = f"{metric['namespace']}/{metric['pod']}"

    def said(store: Store) -> str:
        span = [f"--since={written_as(AT - RANGE_S)}", f"--until={written_as(AT)}"]
        main(["why", pod, *span, f"--prometheus=http://{store.address}"])
        return capsys.readouterr().out

    wanted = said(engines.whole)
    assert wanted
    for name, store in engines.others.items():
        assert said(store) == wanted, name


def test_the_first_screen_of_a_fleet_is_the_same(tmp_path: Path) -> None:
    with ExitStack() as stack:
        made = Engines(tmp_path, stack)
        made.write(range(SMALL), fill)
        victoria = made.others[VICTORIA]
        assert isinstance(victoria, Victoria)
        eventually(lambda: victoria.has(SMALL, "mgpu_exporter_simulated"), "all nodes are there")
        wanted = screen(made.whole)
        assert len(wanted) > SMALL
        for name, store in made.others.items():
            assert screen(store) == wanted, name


def screen(store: Store) -> list[Any]:
    """The lines of the first screen: names and figures."""
    view = seen(store)
    every = (view.totals, *((*one.core[:3], *one.memory[:3]) for one in everything(view.lines)))
    figures = [
        [round(one, 6) if isinstance(one, float) else one for one in figures] for figures in every
    ]
    return [*figures, *(one.name for one in everything(view.lines))]
