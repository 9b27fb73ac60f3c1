import pytest

from exporter.web.peers import UNIX, Shares, peer_of


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


def test_the_peer_with_most_gives_way_to_one_with_fewer() -> None:
    shares: Shares[int] = Shares()
    for peer, item in (("a", 1), ("b", 2), ("a", 3), ("a", 4)):
        shares.add(peer, item)

    assert (len(shares), shares.largest()) == (4, ("a", [1, 3, 4]))
    assert [shares.must_give_way(peer) for peer in ("a", "b", "c")] == [False, True, True]
    shares.remove("a", 1)
    shares.remove("a", 1)
    assert [shares.must_give_way(peer) for peer in ("b", "c")] == [False, True]


def test_peers_have_their_turns_whatever_each_of_them_holds() -> None:
    shares: Shares[str] = Shares()
    for item in ("a1", "a2", "a3", "b1", "c1", "c2"):
        shares.add(item[0], item)

    turns = iter(shares.take_turn, None)

    assert list(turns) == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert len(shares) == 0
