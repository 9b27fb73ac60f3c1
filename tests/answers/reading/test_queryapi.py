"""What is taken of a Prometheus' answer, and how much of it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from exporter.answers.reading import jsonclient, queryapi
from exporter.answers.reading.answer import Absent, Cut, Failed, Refused, Whole
from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import Grid, Prometheus, Series, label
from exporter.httpclient import NoAnswerError, TooLongError
from tests.answers.reading.hostile import question_of
from tests.answers.reading.test_remote import Server

NOW = 1_780_000_000
ANSWER = {"status": "success"}


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def answers(server: Server, *series: object) -> Prometheus:
    """A Prometheus that answers everything with these series."""
    body = json.dumps(ANSWER | {"data": {"result": series}}).encode()
    server.answer = lambda *_: (200, {}, body)
    return Prometheus(HttpClient(server.url))


def of(*samples: object, **labels: object) -> dict[str, Any]:
    return {"metric": labels or {"pod": "a"}, "values": samples}


def test_samples_of_other_times_than_asked_for_are_left_out(server: Server) -> None:
    samples = [[at, "1"] for at in (1.5, NOW - 302, NOW - 300, NOW - 15, NOW, NOW + 15, 1e300)]
    asks = answers(server, of(*samples), of([10**400, "1"], pod="b"))
    kept = (NOW - 300, 1.0), (NOW - 15, 1.0), (NOW, 1.0)

    assert asks.at("up[300s]", NOW) == [Series({"pod": "a"}, *zip(*kept, strict=True))]
    assert asks.at("up", NOW)[0].samples == kept
    assert asks.over("up", Grid(NOW - 30, NOW, 15))[0].samples == ((NOW - 15, 1.0), (NOW, 1.0))
    assert [one.samples[-1][0] for one in asks.at("up")] == [NOW + 15]


@pytest.mark.parametrize(
    ("status", "more", "series", "kind"),
    [
        (200, {}, [of([NOW, "1"])], Whole),
        (200, {}, [], Absent),
        (200, {"warnings": ["no store matched"]}, [of([NOW, "1"])], Cut),
        (200, {"isPartial": True}, [], Cut),
        (200, {"status": "error"}, [], Failed),
        (403, {}, [], Refused),
        (503, {}, [], Refused),
    ],
)
def test_an_answer_is_one_of_five_and_only_the_absent_one_is_empty(
    status: int, more: dict[str, Any], series: list[Any], kind: type, server: Server
) -> None:
    body = json.dumps(ANSWER | {"data": {"result": series}} | more).encode()
    server.answer = lambda *_: (status, {}, body)
    asks = Prometheus(HttpClient(server.url), all_stores=True)

    assert type(asks.ask(queryapi.QUERY, {"query": "up"}, 0, 2 * NOW)) is kind
    if kind in {Whole, Absent}:
        assert len(asks.at("up", NOW)) == len(series)
    else:
        with pytest.raises(NoAnswerError):
            asks.at("up", NOW)


@pytest.mark.parametrize(
    "value",
    [*("NaN", "+Inf", "-Inf", "1e19", "9" * 400, "many", ""), 1, True, None, ["1"], {"1": "1"}],
)
def test_what_is_no_number_of_a_node_is_no_sample(value: object, server: Server) -> None:
    asks = answers(server, of([NOW, value]), of([NOW, "2"], pod="b"))

    assert asks.at("up", NOW) == [Series({"pod": "b"}, (NOW,), (2.0,))]


@pytest.mark.parametrize(
    "metric", [None, [], "x", {"pod": 7}, {"pod": None}, {"pod": "\ud800"}, {"pod": "x" * 10_000}]
)
def test_a_series_whose_labels_are_no_texts_is_left_out(metric: object, server: Server) -> None:
    asks = answers(server, of([NOW, "1"]) | {"metric": metric}, of([NOW, "2"], pod="b"))

    assert asks.at("up", NOW) == [Series({"pod": "b"}, (NOW,), (2.0,))]


@pytest.mark.parametrize("sample", [None, 7, [], [NOW], [NOW, "1", "1"], [str(NOW), "1"], {}])
def test_what_is_no_sample_is_left_out(sample: object, server: Server) -> None:
    assert answers(server, of(sample), of([True, "1"])).at("up") == []


def test_samples_are_in_the_order_of_time(server: Server) -> None:
    asks = answers(server, of([NOW, "3"], [NOW - 15, "2"], [NOW, "4"], [NOW - 30, "1"]))

    assert asks.at("up[60s]", NOW)[0].samples == ((NOW - 30, 1.0), (NOW - 15, 2.0), (NOW, 4.0))


@pytest.mark.parametrize("data", [None, [], {}, {"result": None}, {"result": {}}])
def test_an_answer_without_a_list_is_none(data: object, server: Server) -> None:
    server.answer = lambda *_: (200, {}, json.dumps(ANSWER | {"data": data}).encode())

    with pytest.raises(NoAnswerError, match="does not answer as a Prometheus"):
        Prometheus(HttpClient(server.url)).at("up", NOW)


def test_values_are_counted_before_they_are_read(server: Server) -> None:
    """An answer of empty lists takes twenty times its length, once it is read."""
    server.answer = lambda *_: (200, {}, b'{"a":[' + b"[]," * (4 << 20) + b"[]]}")

    with pytest.raises(TooLongError, match=r"2,000,000 values: ask of less, such as a day$"):
        Prometheus(HttpClient(server.url), less="a day").at("up", NOW)


def test_who_asks_too_much_of_a_store_is_told_what_to_ask_for(server: Server) -> None:
    """Mimir refuses with 422 what takes more series, chunks or memory than a tenant may."""
    server.answer = lambda *_: (422, {}, b"the query exceeded the maximum number of series")

    with pytest.raises(NoAnswerError, match=r"number of series; ask of less, such as -n$"):
        Prometheus(HttpClient(server.url), less="-n").at("up")


def test_a_long_range_is_asked_in_pieces_that_services_take(server: Server) -> None:
    """Grafana Cloud takes no question of more than 32 days, Mimir none above a tenant's limit."""
    day_s = 86_400
    grid = Grid(NOW - 90 * day_s, NOW, day_s)

    def answer(path: str, _: object) -> tuple[int, dict[str, str], bytes]:
        times = question_of(path).times
        if times[-1] - times[0] + day_s > 32 * day_s:
            return 400, {}, b"the total query time range exceeds the limit"
        samples = [[at_s, "1"] for at_s in times]
        return 200, {}, json.dumps(ANSWER | {"data": {"result": [of(*samples)]}}).encode()

    server.answer = answer
    (found,) = Prometheus(HttpClient(server.url)).over("sum_over_time(a[1d])", grid)

    assert found.times == tuple(grid.times)


def test_a_question_whose_answer_is_too_long_is_asked_in_shorter_ones(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonclient, "LARGEST_JSON", 2000)

    def answer(path: str, _: str) -> tuple[int, dict[str, str], bytes]:
        asked = question_of(path)
        samples = [[at, str(at)] for at in asked.times]
        whole = ANSWER | {"data": {"result": [of(*sorted(samples))]}}
        return 200, {}, json.dumps(whole).encode()

    server.answer = answer
    asks = Prometheus(HttpClient(server.url))
    times = [float(NOW - 3000 + 60 * n) for n in range(51)]

    assert [at for at, _ in asks.over("up", Grid(NOW - 3000, NOW, 60))[0].samples] == times
    assert [at for at, _ in asks.at("up[900s]", NOW)[0].samples] == [
        float(NOW - 885 + 15 * n) for n in range(60)
    ]
    monkeypatch.setattr(jsonclient, "LARGEST_JSON", 20)
    with pytest.raises(TooLongError):
        asks.at("up[900s]", NOW)
    with pytest.raises(TooLongError):
        asks.over("up", Grid(NOW - 60, NOW, 60))
    monkeypatch.setattr(jsonclient, "LARGEST_JSON", 2000)
    monkeypatch.setattr(queryapi, "MAX_JOINED", 50)
    with pytest.raises(TooLongError, match="more than 50 samples"):
        asks.over("up", Grid(NOW - 3000, NOW, 60))


@pytest.mark.parametrize(
    ("family", "found"),
    [
        ("mgpu_container_core_seconds_total", ("team", "chat", "main")),
        ("mgpu_pod_info", ("team", "chat", "")),
        ("mgpu_namespace_core_seconds_total", ("team", "", "")),
        ("mgpu_device_info", ("", "", "")),
    ],
)
@pytest.mark.parametrize("has", [(), ("namespace",), ("pod",), ("namespace", "pod", "container")])
def test_a_label_is_the_exporters_own_or_none(
    family: str, found: tuple[str, ...], has: tuple[str, ...]
) -> None:
    own = dict(zip(("namespace", "pod", "container"), found, strict=True))
    target = {name: f"the exporter's {name}" for name in has}
    renamed = {f"exported_{k}" if k in has else k: v for k, v in own.items() if v}
    stored = {"__name__": family, **target, **renamed}
    assert tuple(label(stored, name) for name in own) == found


@pytest.mark.parametrize("around", ["{}", "{}[60s]", "last_over_time({}[60s])", "{} or {}"])
def test_series_of_names_that_nobody_asked_for_are_left_out(around: str, server: Server) -> None:
    series = [of([NOW, "1"], __name__=name, pod="a") for name in ("up", "mgpu_b", "other")]
    asks = answers(server, *series, of([NOW, "1"], pod="a"))
    chosen = asks.selector(["mgpu_b", "up"], job="x")

    found = asks.at(around.format(chosen, chosen), NOW)
    assert [one.labels["__name__"] for one in found] == ["up", "mgpu_b"]
    assert len(asks.at(f"rate({chosen}[60s])", NOW)) == 4
