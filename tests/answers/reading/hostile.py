"""A Prometheus that answers each question of the commands, and is wrong in one way of many.

``honest`` answers with a series of each family that a question names, with all labels that
commands read. A mode changes that answer, or its text.
"""

import gzip
import json
import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from exporter.metrics.families import FAMILIES
from tests.answers.reading.test_remote import Answer

Json = Any
ESCAPES = "\x1b[2J\x1b]0;x\x07\r\u202e\u009b31m"
UUID = "GPU-11111111-2222-3333-4444-555555555555"
_NAME = re.compile(r"(?:mgpu_|namespace_workload_container:)\w+|\bup\b")
_WINDOW = re.compile(r"\[(\d+)s\]$")
_LEVEL = {family.full_name: family.level for family in FAMILIES}
_INFO = {
    "device": {"gpu": "0", "uuid": UUID, "model": "NVIDIA L4", "parent_uuid": "", "reason": "mps"},
    "container": {"namespace": "team", "pod": "chat", "container": "main", "gpu": "0"},
    "pod": {"namespace": "team", "pod": "chat", "owner_kind": "Job", "owner_name": "chat"},
    "namespace": {"namespace": "team"},
    "group": {"kind": "slurm", "group": "job 7", "gpu": "0"},
    "group_kind": {"kind": "slurm"},
}
_OTHERS = {
    "quantity": "core",
    "reason": "not_reported",
    "scheme": "hami",
    "policy": "enforced",
    "source": "nvml",
    "owner_kind": "Job",
    "owner_name": "chat",
    "container": "main",
    "xid": "79",
    "by_namespace": "batch",
    "by_pod": "crawl",
    "evidence": "kernel",
    "role": "figure",
}
_TARGET = {"job": "mgpu-exporter", "instance": "10.0.0.1:10045", "node": "node-1"}


class Question(NamedTuple):
    """What is asked: the expression, and the times of the samples that answer it."""

    expression: str
    times: list[float]
    is_matrix: bool


def question_of(path: str) -> Question:
    """The question that a request has."""
    given = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
    expression = given.get("query", "")
    if "start" in given:
        begin, end, step = (int(given[name]) for name in ("start", "end", "step"))
        return Question(expression, [float(at) for at in range(begin, end + 1, step)], True)
    now = float(given.get("time", time.time()))
    window = _WINDOW.search(expression)
    if window is None:
        return Question(expression, [now], False)
    return Question(expression, [now - 15 * n for n in range(min(int(window[1]), 900) // 15)], True)


def honest(question: Question) -> Json:
    """A plausible answer: counters grow, and a figure of a workload is of its list."""
    names = list(dict.fromkeys(_NAME.findall(question.expression)))
    is_figure = "namespace_workload_container:" in question.expression
    names = names[:1] if is_figure or question.expression.startswith("count(") else names
    times = sorted(question.times)
    result = []
    for name in names:
        of_level = _INFO.get(_LEVEL.get(name, ""), {})
        metric = {"__name__": name, "uuid": UUID, **_OTHERS, **_INFO["pod"], **of_level, **_TARGET}
        samples = [[at, _honest_value(name, at)] for at in times]
        own = {"values": samples} if question.is_matrix else {"value": samples[-1]}
        result.append({"metric": metric, **own})
    kind = "matrix" if question.is_matrix else "vector"
    return {"status": "success", "data": {"resultType": kind, "result": result}}


def _honest_value(name: str, at: float) -> str:
    if name.endswith("_timestamp_seconds"):
        return f"{at - 5:.0f}"
    if name.endswith("_total"):
        return f"{at % 1_000_000:.1f}"
    return "1" if name.endswith(("up", "info", ":count")) else "0.5"


Mode = Callable[[Question], Answer]


def _json(document: Json) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps(document).encode()


def each(change: Callable[[Json], Json]) -> Mode:
    """Each series changed; what is returned stands in its place."""

    def answer(question: Question) -> Answer:
        document = honest(question)
        document["data"]["result"] = [change(one) for one in document["data"]["result"]]
        return _json(document)

    return answer


def _labels(**more: Json) -> Mode:
    def change(one: Json) -> Json:
        one["metric"] |= more
        return one

    return each(change)


def _without(*names: str) -> Mode:
    def change(one: Json) -> Json:
        one["metric"] = {k: v for k, v in one["metric"].items() if k not in names}
        return one

    return each(change)


def _samples(change: Callable[[list[Json]], Json]) -> Mode:
    """The samples of each series changed, whether it has one or many."""

    def changed(one: Json) -> Json:
        many = one.get("values", [one.get("value")])
        found = change(many)
        if "values" in one or len(found) != 1:
            return {"metric": one["metric"], "values": found}
        return {"metric": one["metric"], "value": found[0]}

    return each(changed)


def _stamp(stamp: Json) -> Mode:
    return _samples(lambda many: [[stamp, value] for _, value in many])


def _value(value: Json) -> Mode:
    return _samples(lambda many: [[at, value] for at, _ in many])


def _document(**more: Json) -> Mode:
    return lambda question: _json(honest(question) | more)


def _text(old: bytes, new: bytes) -> Mode:
    """The answer's own text changed, in which anything can stand."""

    def answer(question: Question) -> Answer:
        status, headers, body = _stamp("STAMP")(question)
        return status, headers, body.replace(old, new)

    return answer


def _body(body: bytes, status: int = 200, **headers: str) -> Mode:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: (status, named, body)


def _wide(pieces: bytes, length: int) -> Mode:
    """An answer of so many bytes, made when it is asked for: it is long."""

    @cache
    def body() -> bytes:
        begin, end = b'{"status":"success","data":{"result":[', b"]}}"
        return begin + pieces * (length // len(pieces)) + pieces.rstrip(b",") + end

    return lambda _: (200, {}, body())


@cache
def _packed() -> bytes:
    """An answer of 120 MB, packed."""
    return gzip.compress(b'{"status":"success","data":{"result":[' + b"[]," * (40 << 20), 1)


def _many(question: Question) -> Answer:
    """Twenty series of a family that is asked for, each of another pod."""
    document = honest(question)
    document["data"]["result"] = [
        one | {"metric": one["metric"] | {"pod": f"chat-{n}"}}
        for one in document["data"]["result"][:1]
        for n in range(20)
    ]
    return _json(document)


OLD = [1.5, "1"]
SERIES = b'{"metric":{"__name__":"mgpu_container_info"},"value":[1780000000,"1"]},'
MODES: Mapping[str, Mode] = {
    "honest": lambda question: _json(honest(question)),
    # times
    "an old sample": _samples(lambda many: [OLD, *many]),
    "only an old sample": _stamp(1.5),
    "a late sample": _samples(lambda many: [*many, [4e9, "1"]]),
    "a time of 1e300": _stamp(1e300),
    "a time of 400 digits": _stamp(10**400),
    "a negative time": _stamp(-1e9),
    "a time of NaN": _text(b'"STAMP"', b"NaN"),
    "a time of Infinity": _text(b'"STAMP"', b"Infinity"),
    "a time of 5000 digits": _text(b'"STAMP"', b"1" * 5000),
    "a time that is text": _stamp("now"),
    "a time that is true": _stamp(True),
    "no time": _stamp(None),
    "times that go back": _samples(lambda many: many[::-1]),
    "one time again and again": _samples(lambda many: many[-1:] * 50),
    "hours between samples": _samples(lambda many: [[at * 3, value] for at, value in many]),
    # values
    "NaN": _value("NaN"),
    "+Inf": _value("+Inf"),
    "-Inf": _value("-Inf"),
    "1e300": _value("1e300"),
    "1e17": _value("1e17"),
    "-1e17": _value("-1e17"),
    "below zero": _value("-1"),
    "1e-320": _value("1e-320"),
    "-0": _value("-0"),
    "400 digits": _value("9" * 400),
    "5000 digits": _value("9" * 5000),
    "a value that is a number": _value(1),
    "a value that is null": _value(None),
    "a value that is a list": _value(["1"]),
    "a value that is no number": _value("many"),
    "a value with other digits": _value("\u0661"),
    "counters that fall and rise": _samples(
        lambda many: [[at, f"{n % 2 * 1e15}"] for n, (at, _) in enumerate(many)]
    ),
    "a sample of three": _samples(lambda many: [[*one, 1] for one in many]),
    "a sample that is none": _samples(lambda many: [{} for _ in many]),
    "no sample": each(lambda one: {"metric": one["metric"]}),
    "only a histogram": each(lambda one: {"metric": one["metric"], "histogram": [1, {}]}),
    "values that are none": each(lambda one: {"metric": one["metric"], "values": 7}),
    # labels
    "no labels": each(lambda one: one | {"metric": {}}),
    "labels that are null": each(lambda one: one | {"metric": None}),
    "labels that are a list": each(lambda one: one | {"metric": ["__name__"]}),
    "a series without a name": _without("__name__"),
    "a name that nobody asked for": _labels(__name__="mgpu_container_new_things_total"),
    "a name of another level": _labels(__name__="mgpu_namespace_core_seconds_total"),
    "a label that is a number": _labels(pod=7),
    "a label that is null": _labels(uuid=None),
    "half of a character": _labels(pod="chat\ud800", job="\udfff", uuid="\ud800"),
    "control characters": _labels(
        **dict.fromkeys(("pod", "owner_kind", "node", "model", "container", "cluster"), ESCAPES)
    ),
    "a formula": _labels(owner_kind="=1+1", node="@SUM(A1)", model="+1", group="-1\t"),
    "a label of 8000 characters": _labels(pod="x" * 8000, node="y" * 8000),
    "a label of a megabyte": _labels(pod="x" * (1 << 20)),
    "a thousand labels": _labels(**{f"label_{n}": "x" for n in range(1000)}),
    "no labels of owners": _without("namespace", "pod", "container", "kind", "group"),
    "no uuid": _without("uuid", "gpu"),
    "no labels of targets": _without("job", "instance", "node"),
    "codes that are not listed": _labels(
        reason="because", quantity="luck", source="rumour", role="x", evidence="x", policy="x"
    ),
    "no codes": _without(*_OTHERS),
    "a number of a GPU that is none": _labels(gpu="\u00b2", gpu_instance="1" * 5000),
    "a parent that is itself": _labels(parent_uuid=UUID, profile="9g.99gb"),
    "a profile that is none": _labels(parent_uuid="GPU-x", profile="0g.0gb"),
    "each series twice": lambda question: _json(
        {"status": "success", "data": {"result": honest(question)["data"]["result"] * 2}}
    ),
    "twenty pods": _many,
    # documents
    "a result that is null": _document(data={"result": None}),
    "a result that is an object": _document(data={"result": {}}),
    "a scalar": _document(data={"resultType": "scalar", "result": [1.5, "1"]}),
    "series that are none": _document(data={"result": [None, 7, "x", [], {}]}),
    "data that is a list": _document(data=[]),
    "no data": _document(data=None),
    "a failure": _document(status="error", errorType="bad", error=ESCAPES),
    "a list": _body(b"[]"),
    "nothing": _body(b""),
    "a page": _body(b"<html>" + ESCAPES.encode()),
    "a deep answer": _body(b"[" * 200_000),
    "no UTF-8": _body(b'{"status": "\xff"}'),
    "one that is not packed as it says": _body(b"{}", Content_Encoding="gzip"),
    "16 MB of empty lists": _wide(b"[],", 15 << 20),
    "15 MB of series": _wide(SERIES, 15 << 20),
    "120 MB of series": _wide(SERIES, 120 << 20),
    "120 MB, packed": lambda _: (200, {"Content-Encoding": "gzip"}, _packed()),
    # refusals
    "nothing at all": _body(b"", 204),
    "a redirection": _body(b"", 302, Location="http://127.0.0.1:1/"),
    "a bad question": _body(json.dumps({"error": ESCAPES}).encode(), 400),
    "no access": _body(ESCAPES.encode(), 401),
    "no right": _body(ESCAPES.encode(), 403),
    "no such page": _body(ESCAPES.encode(), 404),
    "too many questions": _body(b"", 429),
    "a crash": _body(ESCAPES.encode() * 1000, 500),
}
