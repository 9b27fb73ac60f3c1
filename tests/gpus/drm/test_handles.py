"""What there is room for: a process with very many descriptors costs no other one."""

from exporter.sources.gpus.drm.holders import MOST_HANDLES, MOST_OF_ONE, Handle, Handles

MINOR = 128


def taken(*numbers: int) -> Handles:
    """Handles after processes 1, 2, … have been looked at, which have so many each."""
    handles = Handles()
    for pid, number in enumerate(numbers, 1):
        for descriptor in range(number):
            if not handles.add(MINOR, Handle(pid, pid, descriptor)):
                break
    return handles


def test_a_process_that_has_too_many_is_cut_and_no_other() -> None:
    handles = taken(3, MOST_OF_ONE + 1, 5)

    found = [handle.pid for handle in handles.by_minor()[MINOR]]

    assert handles.cut == {2}
    assert [found.count(pid) for pid in (1, 2, 3)] == [3, MOST_OF_ONE, 5]


def test_who_has_the_most_is_cut_however_many_they_are() -> None:
    hostile = [MOST_OF_ONE] * (MOST_HANDLES // MOST_OF_ONE + 2)

    handles = taken(100, *hostile, 200)

    assert handles.cut == set(range(2, len(hostile) + 2))
    assert len(handles.by_minor()[MINOR]) <= MOST_HANDLES


def test_where_nothing_helps_who_comes_later_is_cut() -> None:
    handles = taken(*[1] * (MOST_HANDLES + 2))

    assert handles.cut == {MOST_HANDLES + 2}


def test_a_process_without_any_is_nobodys_client_however_many_files_it_has() -> None:
    handles = taken(1)
    handles.cut_off(1)
    handles.cut_off(2)

    assert handles.cut == {1}
