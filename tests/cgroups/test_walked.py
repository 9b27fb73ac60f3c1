from hypothesis import given
from hypothesis import strategies as st

from exporter.model import CgroupIdentity
from exporter.sources.cgroups.walk import ProcessList, Walk, filter_list, is_sound

POD, CONTAINER = CgroupIdentity("pod"), CgroupIdentity("pod", "container")
LINES = st.lists(
    st.one_of(st.integers(0, 99).map(b"%d".__mod__), st.binary(max_size=12), st.just(b"9" * 11))
)


@given(LINES)
def test_all_that_is_no_process_is_left_out_and_counted(lines: list[bytes]) -> None:
    content = b"".join(line + b"\n" for line in lines)
    found = filter_list(content)
    numbers = [word for word in content.split() if word.isdigit() and len(word) <= 10]
    assert list(map(int, found.lines.split())) == [int(n) for n in numbers if int(n)]
    assert is_sound(found.lines)
    assert is_sound(content) is False or found == (content, 0, 0)
    assert found.malformed == len(content.split()) - len(numbers)
    assert found.foreign == sum(int(number) == 0 for number in numbers)


def test_a_list_that_was_cut_off_in_its_last_line_keeps_the_number() -> None:
    assert filter_list(b"10\n11").lines == b"10\n11\n"


def test_a_process_in_two_places_is_where_it_was_read_last() -> None:
    walked = Walk([ProcessList(POD, b"9\n10\n"), ProcessList(CONTAINER, b"10\n110\n")])
    assert walked.by_pid == {9: POD, 10: CONTAINER, 110: CONTAINER}
    assert [walked.of(pid) for pid in (9, 10, 110, 11, 1)] == [
        POD,
        CONTAINER,
        CONTAINER,
        None,
        None,
    ]
    assert walked.tree.pods == {"pod": {"": (9, 10), "container": (10, 110)}}
