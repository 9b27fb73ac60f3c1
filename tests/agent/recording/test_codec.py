"""Values of the model as JSON and back."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.agent.recording.codec import CodecError, from_json, to_json
from exporter.agent.recording.recordedcycle import Cycle, Failure, Head
from exporter.model import (
    CgroupIdentity,
    Device,
    Engines,
    PodSlot,
    Unattributed,
    Unit,
)


class Colour(StrEnum):
    """A word of a closed list."""

    RED = "red"


class Pair(NamedTuple):
    """A list."""

    left: int
    right: str = "r"


@dataclass(frozen=True, slots=True)
class Everything:
    """Each form that a field of the model may have."""

    number: int
    ratio: float = 0.0
    flag: bool = False
    text: str = ""
    colour: Colour = Colour.RED
    pair: Pair | None = None
    many: tuple[Pair, ...] = ()
    kinds: frozenset[str] = frozenset()
    by_pid: Mapping[int, str] = field(default_factory=dict)
    by_name: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    by_pair: Mapping[Pair, int | float] = field(default_factory=dict)
    who: CgroupIdentity | Unattributed | None = None


TEXTS = st.text(st.characters(), max_size=5)
NUMBERS = st.integers(-(2**79), 2**79 - 1)
PAIRS = st.builds(Pair, NUMBERS, TEXTS)
UIDS = st.integers(0, 2**32 - 1)  # the kernel's uid_t: no source reports a larger one
WHO = st.one_of(
    st.none(),
    st.sampled_from(Unattributed),
    st.builds(
        CgroupIdentity,
        TEXTS,
        enclosing=st.tuples(st.builds(PodSlot, TEXTS, TEXTS)),
        unit=st.none() | st.builds(Unit, TEXTS, TEXTS, TEXTS, st.none() | UIDS),
    ),
)
LARGEST_UID = CgroupIdentity(unit=Unit("user", "nfsnobody", uid=2**32 - 1))
VALUES = st.builds(
    Everything,
    NUMBERS,
    ratio=st.floats(allow_nan=False) | NUMBERS,
    flag=st.booleans(),
    text=TEXTS,
    pair=st.none() | PAIRS,
    many=st.lists(PAIRS, max_size=2).map(tuple),
    kinds=st.frozensets(TEXTS, max_size=2),
    by_pid=st.dictionaries(NUMBERS, TEXTS, max_size=2),
    by_name=st.dictionaries(TEXTS, st.tuples(TEXTS, NUMBERS), max_size=2),
    by_pair=st.dictionaries(PAIRS, NUMBERS | st.floats(allow_nan=False), max_size=2),
    who=WHO,
)


def through_text(value: object) -> Any:
    return json.loads(json.dumps(to_json(value)))


@given(VALUES)
@example(Everything(1, who=LARGEST_UID))
def test_what_was_written_is_read_as_it_was(value: Everything) -> None:
    again = from_json(Everything, through_text(value))

    assert again == value
    assert repr(again.ratio) == repr(value.ratio)
    assert list(again.by_name) == list(value.by_name)


def test_a_text_of_half_a_surrogate_pair_is_kept() -> None:
    slot = CgroupIdentity(container_id="job\udcff")

    assert from_json(CgroupIdentity, through_text(slot)) == slot


def test_a_field_with_its_default_is_not_written_and_need_not_be_there() -> None:
    assert to_json(Everything(1)) == {"number": 1}
    assert from_json(Everything, {"number": 1}) == Everything(1)
    assert (to_json(Pair(3)), from_json(Pair, {"left": 3})) == ({"left": 3}, Pair(3))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({}, "number is missing"),
        ({"number": 1, "size": 2}, "'size' is unknown; made by another version?"),
        ({"number": "1"}, "number: whole number expected"),
        ({"number": 1.0}, "number: whole number expected"),
        ({"number": True}, "number: whole number expected"),
        ({"number": 2**79}, "number: number of 80 bits expected"),
        ({"number": 1, "ratio": "0"}, "ratio: number expected"),
        ({"number": 1, "ratio": 10**30}, "ratio: number of 80 bits expected"),
        ({"number": 1, "flag": 1}, "flag: boolean expected"),
        ({"number": 1, "colour": "blue"}, "colour: one of red expected"),
        ({"number": 1, "many": [{"left": 1}, {"left": "x"}]}, "many.1.left: whole number expected"),
        ({"number": 1, "many": [{}]}, "many.0: left is missing"),
        ({"number": 1, "many": {}}, "many: list expected"),
        ({"number": 1, "by_pid": {"x": ""}}, "by_pid.x: whole number expected"),
        ({"number": 1, "by_pid": {"٣": ""}}, "by_pid.٣: whole number expected"),
        ({"number": 1, "by_name": {"a": ["b"]}}, "by_name.a: list of 2 expected"),
        ({"number": 1, "who": 7}, "who: object or text or null expected"),
        ({"number": 1, "who": {"pod_uid": 7}}, "who.pod_uid: text or null expected"),
        (
            {"number": 1, "who": {"unit": {"kind": "user", "name": "u", "uid": 2**80}}},
            "who.unit.uid: number of 80 bits expected",
        ),
        ([], "object expected"),
    ],
)
def test_what_is_not_of_its_type_is_refused_with_its_place(data: Any, complaint: str) -> None:
    with pytest.raises(CodecError) as refusal:
        from_json(Everything, data)

    assert str(refusal.value) == complaint


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["moments", "gpus", "identities", "1", "status", "devices", "page"]),
            inner,
        )
    ),
)


@given(JSON)
def test_any_json_is_a_cycle_or_is_refused(data: Any) -> None:
    for kind in (Cycle, Head):
        with suppress(CodecError):
            assert isinstance(from_json(kind, data), kind)


def test_a_failure_and_a_value_are_told_apart() -> None:
    cycle = Cycle((), gpus=(Failure("gone", restart=True),), identities=Failure("no /proc"))

    assert from_json(Cycle, through_text(cycle)) == cycle


@pytest.mark.parametrize("value", [object(), Device, {"a": b""}])
def test_what_is_no_value_of_the_model_is_not_written(value: object) -> None:
    with pytest.raises(TypeError, match="has no form in a recording"):
        to_json(value)


def test_types_that_json_could_not_tell_apart_are_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Unclear:
        who: PodSlot | Engines

    with pytest.raises(TypeError, match="are a JSON object"):
        from_json(Unclear, {"who": {}})
