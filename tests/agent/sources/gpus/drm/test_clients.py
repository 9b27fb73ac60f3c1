"""The accounts of clients: true sums, whatever steps back, closes, or is passed on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.gpus.drm.drmclients import MAX_CLIENTS, ClientAccounts, by_process
from exporter.agent.sources.gpus.drm.fdinfo import DrmClient, EngineUsage

SECOND = 10**9
BEGAN = 1000 * SECOND


def client(client_id: int = 1, driver: str = "i915", **engines: EngineUsage) -> DrmClient:
    return DrmClient(driver, client_id, engines=engines)


def used(
    clients: ClientAccounts, one: DrmClient, at_s: float, since_s: float | None = 0.0
) -> dict[str, int]:
    """What this client, alone, has used by now."""
    since_ns = None if since_s is None else BEGAN + int(since_s * SECOND)
    return clients.take([one], BEGAN + int(at_s * SECOND), since_ns)[one.client_id]


def test_what_was_used_before_the_first_look_is_not_ours() -> None:
    clients = ClientAccounts()

    assert used(clients, client(render=EngineUsage(10**12)), 0, None) == {"core": 0}
    assert used(clients, client(render=EngineUsage(10**12 + 7)), 1) == {"core": 7}


def test_a_new_client_has_used_no_more_than_the_time_it_can_have_been_there() -> None:
    assert used(ClientAccounts(), client(render=EngineUsage(9 * SECOND)), 2) == {"core": 2 * SECOND}


@given(st.lists(st.integers(0, 10 * SECOND), min_size=1, max_size=30))
def test_whatever_steps_back_the_sum_is_the_largest_value(told: list[int]) -> None:
    clients = ClientAccounts()
    used(clients, client(render=EngineUsage(0)), 0, None)
    later = [max(told)] * 11  # in which what had no room has its turn

    spent = [
        used(clients, client(render=EngineUsage(v)), at + 1)["core"]
        for at, v in enumerate(told + later)
    ]

    assert sum(spent) == max(told)
    assert min(spent) >= 0


@given(st.lists(st.integers(0, SECOND), max_size=30), st.integers(1, 7))
def test_of_several_engines_the_sum_is_over_their_number_to_the_nanosecond(
    parts: list[int], capacity: int
) -> None:
    clients, total, spent = ClientAccounts(), 0, 0
    used(clients, client(compute=EngineUsage(0, capacity=capacity)), 0, None)
    for at, part in enumerate(parts):
        total += part
        now = client(compute=EngineUsage(total, capacity=capacity))
        spent += used(clients, now, at + 1)["core"]

    assert spent == total // capacity


def test_the_time_of_copy_engines_is_that_of_all_of_them_together() -> None:
    """As KFD's sdma is: what the family says of itself holds for each vendor."""
    clients = ClientAccounts()
    used(clients, client(copy=EngineUsage(0, capacity=4)), 0, None)

    assert used(clients, client(copy=EngineUsage(3 * SECOND, capacity=4)), 1) == {
        "copy": 3 * SECOND
    }
    fresh = client(2, copy=EngineUsage(9 * SECOND, capacity=4))
    assert used(clients, fresh, 2, 1) == {"copy": 4 * SECOND}  # four were there for a second


@pytest.mark.parametrize(
    ("driver", "quantities"),
    [
        ("i915", "render=core compute=core video=decoder copy=copy video-enhance="),
        ("xe", "rcs=core ccs=core vcs=decoder bcs=copy vecs="),
        ("amdgpu", "gfx=core compute=core dma=copy dec=decoder jpeg=decoder enc=encoder vpe="),
        ("amdgpu", "enc_1=encoder"),
        ("panfrost", "fragment=core vertex-tiler=core"),
        ("panthor", "panthor=core"),
        ("lima", "gp=core pp=core"),
        ("msm", "gpu=core"),
        ("v3d", "bin=core render=core csd=core tfu="),
        ("etnaviv", "2D=core 3D=core"),
        ("unheard-of", "shader=core dma=copy"),
        ("nouveau", "gr=core"),
    ],
)
def test_each_engine_counts_as_what_it_is_for(driver: str, quantities: str) -> None:
    for engine, _, quantity in (pair.partition("=") for pair in quantities.split()):
        spent = used(ClientAccounts(), client(1, driver, **{engine: EngineUsage(7)}), 1)

        assert spent == ({quantity: 7} if quantity else {})


def test_a_clock_that_steps_back_and_returns_is_as_fast_as_before() -> None:
    """All that was read for a moment was lower. The leap back is no time that went by."""
    clients, hz = ClientAccounts(), 19_200_000
    totals = [5, 6, 7, 4, 9, 10]

    spent = [
        used(clients, client(1, "xe", rcs=EngineUsage(None, t * hz // 2, t * hz)), at, None)["core"]
        for at, t in enumerate(totals)
    ]

    assert spent == [0, SECOND // 2, SECOND // 2, 0, SECOND, SECOND // 2]


def test_a_clock_that_began_anew_is_learned_again_after_a_minute() -> None:
    clients, hz = ClientAccounts(), 19_200_000
    read = [(0, 900 * hz), (1, 901 * hz), (2, 0), *((at, 2 * at * hz) for at in range(3, 70))]

    spent = [
        used(clients, client(at, "xe", rcs=EngineUsage(None, hz, total)), at, at - 1)["core"]
        for at, total in read
    ]

    assert (spent[3], spent[-1]) == (SECOND, SECOND // 2)


def test_whose_counter_is_lower_than_it_was_is_behind_but_for_rounding() -> None:
    clients, behind = ClientAccounts(), []
    for at, value in enumerate([10 * SECOND, 10 * SECOND - 7, 5 * SECOND, 11 * SECOND]):
        used(clients, client(render=EngineUsage(value)), at, None)
        behind.append(set(clients.behind))

    assert behind == [set(), set(), {1}, set()]


def test_cycles_are_time_by_the_devices_own_clock() -> None:
    """19.2 MHz, the reference clock of many of Intel's: 1 s is 19,200,000 cycles."""
    clients, hz = ClientAccounts(), 19_200_000
    steps = [(0, 0), (4_800_000, hz), (4_800_000, 2 * hz), (24_000_000, 3 * hz)]

    spent = [
        used(clients, client(1, "xe", rcs=EngineUsage(None, cycles, total)), at, None)["core"]
        for at, (cycles, total) in enumerate(steps)
    ]

    assert spent == [0, SECOND // 4, 0, SECOND]


def test_the_first_client_of_a_device_is_counted_from_when_it_was_opened() -> None:
    """Its clock is compared with ours from one reading to the next; so it waits for the second."""
    clients = ClientAccounts()
    first = used(clients, client(1, "xe", rcs=EngineUsage(None, 500, 10_000)), 1, 0)
    second = used(clients, client(1, "xe", rcs=EngineUsage(None, 700, 11_000)), 2, 1)

    assert (first, second) == ({"core": 0}, {"core": 7 * SECOND // 10})


def test_a_clock_that_was_set_back_costs_no_cycles() -> None:
    clients, told = ClientAccounts(), [(0, 5000), (500, 6000), (600, 100), (1100, 1100)]
    spent = [
        used(clients, client(1, "xe", rcs=EngineUsage(None, cycles, total)), at, None)["core"]
        for at, (cycles, total) in enumerate(told)
    ]

    assert spent == [0, SECOND // 2, SECOND // 10, SECOND // 2]


def test_a_client_on_its_way_from_one_process_to_another_goes_on() -> None:
    clients = ClientAccounts()
    used(clients, client(render=EngineUsage(5)), 0, None)
    clients.take([], BEGAN + SECOND, BEGAN)

    assert used(clients, client(render=EngineUsage(9)), 2, 1) == {"core": 4}


def test_closed_clients_are_forgotten_where_they_are_too_many_and_open_ones_never() -> None:
    clients, many = ClientAccounts(), range(2, MAX_CLIENTS + 50)
    first = client(1, render=EngineUsage(5))
    clients.take([first, *(client(n, render=EngineUsage(7)) for n in many[:50])], BEGAN, None)
    clients.take([first, *(client(n) for n in many[50:])], BEGAN + SECOND, BEGAN)

    again = [client(n, render=EngineUsage(9)) for n in (1, 2)]
    spent = clients.take(again, BEGAN + 2 * SECOND, BEGAN + SECOND)

    assert spent == {1: {"core": 4}, 2: {"core": 9}}  # the second is taken for a new one


def test_a_process_has_what_its_clients_used() -> None:
    spent = {1: {"core": 5, "decoder": 1}, 2: {"core": 7}, 3: {"core": 9}}

    assert by_process(spent, {1: 40, 2: 40, 3: 41}) == {
        40: {"core": 12, "decoder": 1},
        41: {"core": 9},
    }
