"""The small part of PromQL that our readers ask in. What is beyond it is refused by name.

Rules of Prometheus 2.42: both ends of a range count. With ``opens`` those of version 3, where its
beginning does not. Vectors are lists of labels and values, ranges of labels, times and values.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

Labels = tuple[tuple[str, str], ...]
"""Sorted by name."""

LOOKBACK_S = 300.0
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<time>\d+[smhdw])(?![\w.])'
    r"|(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<name>[a-zA-Z_][\w:]*)"
    r"|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^(){}\[\],=<>:]))"
)
_LEVELS = (("or",), ("and", "unless"), ("==", "!=", "<", ">", "<=", ">="), "+-", "*/%", "^")


class Samples(Protocol):
    """The samples of a stored series; a value of None is a stale marker."""

    times: list[float]
    values: list[float | None]


class Series(Protocol):
    """What can be selected from."""

    def select(self, matchers: tuple["Matcher", ...]) -> Sequence[tuple[Labels, Samples]]:
        """The series that all matchers fit."""


class Matcher(NamedTuple):
    """A condition on a label."""

    name: str
    how: str
    text: str

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil it; what is missing is empty."""
        value = labels.get(self.name, "")
        if self.how in {"=", "!="}:
            return (value == self.text) == (self.how == "=")
        return bool(re.fullmatch(self.text, value)) == (self.how == "=~")


class RefusedError(Exception):
    """An expression has something that is not known here."""


Vector = list[tuple[Labels, float]]
Matrix = list[tuple[Labels, Sequence[float], Sequence[float]]]
Value = float | Vector | Matrix
Node = Callable[["Ask"], Any]


class Ask(NamedTuple):
    """One evaluation: of what, when, and by which version's rules."""

    store: Series
    unix_s: float
    opens: bool

    def first(self, times: Sequence[float], since_s: float) -> int:
        """The index of the first time in a range that begins at a time."""
        return bisect_right(times, since_s) if self.opens else bisect_left(times, since_s)


@lru_cache(maxsize=10_000)
def parsed(text: str) -> Node:
    """An expression as a function of when it is asked."""
    tokens = _Tokens(text)
    node = _binary(tokens, 0)
    if tokens.peek():
        raise RefusedError(f"{tokens.peek()!r} in {text!r}")
    return node


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise RefusedError(f"{text[at : at + 20]!r} in {text!r}")
            self._tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        self._at = 0

    def peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][1] if at < len(self._tokens) else ""

    @property
    def kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def take(self, *wanted: str) -> str:
        found = self.peek()
        if not found or (wanted and found not in wanted):
            raise RefusedError(f"{found!r}, where {wanted} is known")
        self._at += 1
        return found

    def took(self, wanted: str) -> bool:
        if self.peek() != wanted:
            return False
        self._at += 1
        return True

    def names(self) -> tuple[str, ...]:
        self.take("(")
        found = []
        while not self.took(")"):
            found.append(self.take())
            self.took(",")
        return tuple(found)

    def seconds(self) -> float:
        text = self.take()
        return float(text[:-1]) * _UNITS[text[-1]]

    def string(self) -> str:
        text = self.take()[1:-1]
        return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)


def _binary(tokens: _Tokens, level: int) -> Node:
    if level == len(_LEVELS):
        return _postfix(tokens)
    left = _binary(tokens, level + 1)
    while tokens.peek() in _LEVELS[level] and tokens.peek():
        sign = tokens.take()
        is_bool = tokens.took("bool")
        on: tuple[str, ...] | None = None
        ignoring: tuple[str, ...] = ()
        group: tuple[str, ...] | None = None
        if tokens.peek() in {"on", "ignoring"}:
            word, names = tokens.take(), tokens.names()
            on, ignoring = (names, ()) if word == "on" else (None, names)
        if tokens.took("group_left"):
            group = tokens.names() if tokens.peek() == "(" else ()
        right = _binary(tokens, level + 1)
        left = _joined(left, right, _Join(sign, is_bool, on, ignoring, group))
    return left


class _Join(NamedTuple):
    sign: str
    is_bool: bool
    on: tuple[str, ...] | None
    ignoring: tuple[str, ...]
    group: tuple[str, ...] | None

    def key(self, labels: Labels) -> Labels:
        if self.on is not None:
            return tuple(item for item in labels if item[0] in self.on)
        return tuple(i for i in labels if i[0] != "__name__" and i[0] not in self.ignoring)


def _joined(left: Node, right: Node, join: _Join) -> Node:
    def of(ask: Ask) -> Value:
        one, other = left(ask), right(ask)
        if join.sign in {"and", "or", "unless"}:
            return _set(one, other, join)
        if isinstance(one, float) and isinstance(other, float):
            return _apply(join.sign, one, other)[0]
        if isinstance(other, float):
            each = [(labels, value, _apply(join.sign, value, other)) for labels, value in one]
            return [found for a, v, r in each if (found := _result(a, v, r, join))]
        if isinstance(one, float):
            each = [(labels, value, _apply(join.sign, one, value)) for labels, value in other]
            return [found for a, v, r in each if (found := _result(a, v, r, join))]
        return _matched(one, other, join)

    return of


def _set(one: Vector, other: Vector, join: _Join) -> Vector:
    if join.sign == "or":
        known = {join.key(labels) for labels, _ in one}
        return [*one, *(each for each in other if join.key(each[0]) not in known)]
    known = {join.key(labels) for labels, _ in other}
    return [each for each in one if (join.key(each[0]) in known) == (join.sign == "and")]


def _matched(one: Vector, other: Vector, join: _Join) -> Vector:
    right: dict[Labels, tuple[Labels, float]] = {}
    for labels, value in other:
        if right.setdefault(join.key(labels), (labels, value))[0] is not labels:
            raise RefusedError(f"many-to-many matching: {labels}")
    found: Vector = []
    used: set[Labels] = set()
    for labels, value in one:
        key = join.key(labels)
        if key not in right:
            continue
        if join.group is None and key in used:
            raise RefusedError(f"many-to-one matching: {labels}")
        used.add(key)
        result = _apply(join.sign, value, right[key][1])
        kept = labels if join.group is not None or join.sign in _LEVELS[2] else key
        if (each := _result(kept, value, result, join)) is None:
            continue
        if join.group:
            brought = [item for item in right[key][0] if item[0] in join.group]
            own = (item for item in each[0] if item[0] not in join.group)
            each = tuple(sorted([*own, *brought])), each[1]
        found.append(each)
    return found


def _result(
    labels: Labels, value: float, result: tuple[float, bool], join: _Join
) -> tuple[Labels, float] | None:
    """A comparison filters; all else is a new value without a name."""
    if join.sign in _LEVELS[2] and not join.is_bool:
        return (labels, value) if result[1] else None
    return _unnamed(labels), result[0]


def _apply(sign: str, x: float, y: float) -> tuple[float, bool]:
    if sign in _LEVELS[2]:
        holds = {
            "==": x == y,
            "!=": x != y,
            "<": x < y,
            ">": x > y,
            "<=": x <= y,
            ">=": x >= y,
        }[sign]
        return float(holds), holds
    if sign == "/":
        return (x / y if y else math.nan if not x else math.copysign(math.inf, x)), True
    return {"+": x + y, "-": x - y, "*": x * y}[sign], True


@lru_cache(maxsize=100_000)
def _unnamed(labels: Labels) -> Labels:
    return tuple(item for item in labels if item[0] != "__name__")


def _postfix(tokens: _Tokens) -> Node:
    if tokens.took("-"):
        negative = _postfix(tokens)
        return lambda ask: -negative(ask)
    node = _primary(tokens)
    while tokens.peek() in {"[", "offset"}:
        if tokens.took("offset"):
            node = _offset(node, tokens.seconds())
            continue
        tokens.take("[")
        length_s = tokens.seconds()
        node = _range(node, length_s, tokens.seconds() if tokens.took(":") else 0.0)
        tokens.take("]")
    return node


def _offset(node: Node, by_s: float) -> Node:
    return lambda ask: node(ask._replace(unix_s=ask.unix_s - by_s))


def _range(node: Node, length_s: float, step_s: float) -> Node:
    many: Any = _Range(node, length_s, step_s)
    return many  # type: ignore[no-any-return] # it can be called


class _Range(NamedTuple):
    """The samples of series in some seconds before a time; with ``step_s``, of an expression."""

    node: Any
    length_s: float
    step_s: float = 0.0

    def __call__(self, ask: Ask) -> Matrix:
        if self.step_s:
            return self._asked(ask)
        if not isinstance(self.node, _Selector):
            raise RefusedError("a range of something else than series")
        return self.node.range(ask, self.length_s)

    def _asked(self, ask: Ask) -> Matrix:
        since_s = ask.unix_s - self.length_s
        at_s = math.floor(since_s / self.step_s) * self.step_s
        if at_s < since_s or (ask.opens and at_s == since_s):
            at_s += self.step_s
        found: dict[Labels, tuple[list[float], list[float]]] = {}
        while at_s <= ask.unix_s:
            value = self.node(ask._replace(unix_s=at_s))
            for labels, each in [((), value)] if isinstance(value, float) else value:
                times, values = found.setdefault(labels, ([], []))
                times.append(at_s)
                values.append(each)
            at_s += self.step_s
        return [(labels, *each) for labels, each in found.items()]


class _Selector:
    def __init__(self, matchers: tuple[Matcher, ...]) -> None:
        self._matchers = matchers

    def instants(self, ask: Ask) -> Iterator[tuple[Labels, float, float]]:
        for labels, samples in ask.store.select(self._matchers):
            at = bisect_right(samples.times, ask.unix_s) - 1
            if at >= ask.first(samples.times, ask.unix_s - LOOKBACK_S):
                value = samples.values[at]
                if value is not None:
                    yield labels, samples.times[at], value

    def __call__(self, ask: Ask) -> Vector:
        return [(labels, value) for labels, _, value in self.instants(ask)]

    def range(self, ask: Ask, length_s: float) -> Matrix:
        found: Matrix = []
        for labels, samples in ask.store.select(self._matchers):
            begin = ask.first(samples.times, ask.unix_s - length_s)
            end = bisect_right(samples.times, ask.unix_s)
            times, values = samples.times[begin:end], samples.values[begin:end]
            if None in values:
                both = [each for each in zip(times, values, strict=True) if each[1] is not None]
                times, values = [one for one, _ in both], [one for _, one in both]
            if times:
                found.append((labels, times, values))  # type: ignore[arg-type] # None is out
        return found


def _primary(tokens: _Tokens) -> Node:
    if tokens.took("("):
        node = _binary(tokens, 0)
        tokens.take(")")
        return node
    if tokens.peek() == "{":
        return _selector(tokens, "")
    kind = tokens.kind
    if kind == "number":
        number = float(tokens.take())
        return lambda _: number
    if kind != "name":
        raise RefusedError(f"{tokens.peek()!r} at the beginning of an expression")
    name = tokens.take()
    if name in _AGGREGATES and tokens.peek() in {"by", "without", "("}:
        return _aggregate(tokens, name)
    if tokens.peek() == "(":
        return _call(tokens, name)
    return _selector(tokens, name)


def _selector(tokens: _Tokens, name: str) -> Node:
    matchers = [Matcher("__name__", "=", name)] if name else []
    if tokens.took("{"):
        while not tokens.took("}"):
            label, how = tokens.take(), tokens.take("=", "!=", "=~", "!~")
            matchers.append(Matcher(label, how, tokens.string()))
            tokens.took(",")
    return _Selector(tuple(matchers))


_AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "max": max,
    "min": min,
    "count": lambda many: float(len(many)),
    "avg": lambda many: math.fsum(many) / len(many),
}


def _aggregate(tokens: _Tokens, name: str) -> Node:
    word, names = "by", tuple[str, ...]()
    is_first = tokens.peek() in {"by", "without"}
    if is_first:
        word, names = tokens.take(), tokens.names()
    tokens.take("(")
    node = _binary(tokens, 0)
    tokens.take(")")
    if not is_first and tokens.peek() in {"by", "without"}:
        word, names = tokens.take(), tokens.names()

    def of(ask: Ask) -> Vector:
        groups: dict[Labels, list[float]] = {}
        for labels, value in node(ask):
            key = tuple(
                item
                for item in labels
                if (item[0] in names) == (word == "by") and (word == "by" or item[0] != "__name__")
            )
            groups.setdefault(key, []).append(value)
        return [(labels, _AGGREGATES[name](many)) for labels, many in groups.items()]

    return of


def _call(tokens: _Tokens, name: str) -> Node:
    tokens.take("(")
    arguments: list[Any] = []
    while not tokens.took(")"):
        is_text = tokens.kind == "string"
        arguments.append(tokens.string() if is_text else _binary(tokens, 0))
        tokens.took(",")
    if name not in _FUNCTIONS:
        raise RefusedError(f"{name}()")
    function = _FUNCTIONS[name]
    return lambda ask: function(ask, *arguments)


def _times(ask: Ask, selector: Node) -> Vector:
    if not isinstance(selector, _Selector):
        raise RefusedError("timestamp() of something else than series")
    return [(_unnamed(labels), at) for labels, at, _ in selector.instants(ask)]


def _clamped(ask: Ask, vector: Node, least: Node) -> Vector:
    return [(_unnamed(labels), max(value, least(ask))) for labels, value in vector(ask)]


def _quantiles(ask: Ask, part: Node, many: Node) -> Vector:
    return [(_unnamed(labels), _quantile(part(ask), values)) for labels, _, values in many(ask)]


def _over_time(name: str) -> Callable[..., Vector]:
    how = _OVER_TIME[name]
    keep = (lambda labels: labels) if name == "last_over_time" else _unnamed
    return lambda ask, many: [
        (keep(labels), value)
        for labels, times, values in many(ask)
        if (value := how(times, values)) is not None
    ]


def _slope(times: Sequence[float], values: Sequence[float]) -> float | None:
    """By least squares, as ``deriv()`` has it."""
    if len(times) < 2:
        return None
    middle_s, middle = math.fsum(times) / len(times), math.fsum(values) / len(values)
    pairs = [(x - middle_s, y - middle) for x, y in zip(times, values, strict=True)]
    return math.fsum(x * y for x, y in pairs) / math.fsum(x * x for x, _ in pairs)


_OVER_TIME: dict[str, Callable[[Sequence[float], Sequence[float]], float | None]] = {
    "last_over_time": lambda _, values: values[-1],
    "max_over_time": lambda _, values: max(values),
    "min_over_time": lambda _, values: min(values),
    "avg_over_time": lambda _, values: math.fsum(values) / len(values),
    "sum_over_time": lambda _, values: math.fsum(values),
    "count_over_time": lambda _, values: float(len(values)),
    "changes": lambda _, values: float(sum(x != y for x, y in pairwise(values))),
    "resets": lambda _, values: float(sum(y < x for x, y in pairwise(values))),
    "deriv": _slope,
}


def _grown(node: _Range, ask: Ask, *, is_rate: bool) -> Iterator[tuple[Labels, float]]:
    """``increase()`` and ``rate()``, which go on to the ends of the range where they are near."""
    since_s = ask.unix_s - node.length_s
    for labels, times, values in node(ask):
        if len(times) < 2:
            continue
        grown = values[-1] - values[0] + sum(x for x, y in pairwise(values) if y < x)
        sampled_s = times[-1] - times[0]
        mean_s = sampled_s / (len(times) - 1)
        before_s, after_s = times[0] - since_s, ask.unix_s - times[-1]
        if grown > 0 and values[0] >= 0:
            before_s = min(before_s, sampled_s * values[0] / grown)
        for beyond_s in (before_s, after_s):
            sampled_s += beyond_s if beyond_s < mean_s * 1.1 else mean_s / 2
        grown *= sampled_s / (times[-1] - times[0])
        yield _unnamed(labels), grown / node.length_s if is_rate else grown


def _label_replaced(ask: Ask, vector: Node, to: str, new: str, source: str, pattern: str) -> Vector:
    found: Vector = []
    for labels, value in vector(ask):
        known = dict(labels)
        match = re.fullmatch(pattern, known.get(source, ""))
        if match:
            text = match.expand(re.sub(r"\$(\d+)", r"\\\1", new))
            known = {**known, to: text} if text else {k: v for k, v in known.items() if k != to}
        found.append((tuple(sorted(known.items())), value))
    return found


def _quantile(part: float, values: Sequence[float]) -> float:
    rank = part * (len(values) - 1)
    ordered = sorted(values)
    low = math.floor(rank)
    high = min(low + 1, len(values) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "time": lambda ask: float(ask.unix_s),
    "vector": lambda ask, scalar: [((), scalar(ask))],
    "timestamp": _times,
    "label_replace": _label_replaced,
    "clamp_min": _clamped,
    "quantile_over_time": _quantiles,
    "rate": lambda ask, many: list(_grown(many, ask, is_rate=True)),
    "increase": lambda ask, many: list(_grown(many, ask, is_rate=False)),
    **{name: _over_time(name) for name in _OVER_TIME},
}
