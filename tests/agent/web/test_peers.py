from typing import NamedTuple

import pytest

from exporter.agent.web.peers import UNIX, gives_way, peer_of


class Item(NamedTuple):
    """What a peer holds."""

    peer: str
    number: int


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("192.0.2.7", 40000), "192.0.2.7"),
        (("::ffff:192.0.2.7", 40000, 0, 0), "192.0.2.7"),
        (("2001:db8:1:2:3:4:5:6", 40000, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 40000, 0, 2), "fe80::/64"),
        ("", UNIX),  # Linux has no name for the client's end
    ],
)
def test_a_peer_is_an_address_or_a_network_of_one_machine(address: object, peer: str) -> None:
    assert peer_of(address) == peer


@pytest.mark.parametrize(
    ("held", "newcomer", "free", "number"),
    [
        ("", "a", (), None),
        ("abaa", "c", (), 0),  # the peer with most, and of that the oldest
        ("abaa", "b", (), 0),
        ("abaa", "b", (2,), 2),  # a free one first
        ("abaa", "b", (1,), 0),  # though not of another peer
        ("abaa", "a", (), None),
        ("abaa", "a", (2, 3), 2),
        ("aba", "b", (), None),  # it would hold fewer than the newcomer
        ("abaa", None, (), None),
        ("abaa", None, (3,), 3),
    ],
)
def test_the_peer_with_most_gives_way_to_one_with_fewer(
    held: str, newcomer: str | None, free: tuple[int, ...], number: int | None
) -> None:
    items = [Item(peer, number) for number, peer in enumerate(held)]

    chosen = gives_way(items, newcomer, lambda item: item.number in free)

    assert chosen == (None if number is None else items[number])
