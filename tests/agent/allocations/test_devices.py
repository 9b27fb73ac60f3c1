from dataclasses import replace

import pytest

from exporter.agent.allocations.devicenames import (
    card_by_number,
    card_by_pci,
    common_memory,
    instances,
)
from exporter.agent.allocations.terms import IndexBasis
from tests.agent.allocations.build import CARD_MEMORY, FOUR_CARDS, card, node


def test_number_of_two_cards_is_no_placement() -> None:
    doubled = node(card(0), replace(card(0), uuid="GPU-x"))
    assert card_by_number(doubled, IndexBasis.NVML_INDEX, 0) is None


@pytest.mark.parametrize(
    ("address", "uuid"),
    [
        ("0000:19:00.0", "amd-0"),
        ("00000000:19:00.0", "amd-0"),
        ("0000:AB:00.0", "amd-1"),
        ("0001:19:00.0", None),
        ("0000:19:00.1", None),
        ("19:00.0", None),
        ("0000:٣٣:00.0", None),
        ("", None),
    ],
)
def test_card_is_found_by_its_pci_address_however_it_is_written(
    address: str, uuid: str | None
) -> None:
    first = replace(card(0, vendor="amd"), pci_bus_id="00000000:19:00.0")
    second = replace(card(1, vendor="amd"), pci_bus_id="0000:ab:00.0")
    foreign = replace(card(0), pci_bus_id="0000:19:00.0")
    found = card_by_pci(node(foreign, first, second, card(2, vendor="amd")), "amd", address)
    assert (found and found.uuid) == uuid


def test_address_of_two_cards_is_no_placement() -> None:
    one = replace(card(0), pci_bus_id="0000:19:00.0")
    assert card_by_pci(node(one, replace(one, uuid="GPU-x")), "nvidia", "0000:19:00.0") is None


def test_common_memory_needs_equal_known_sizes() -> None:
    assert common_memory(FOUR_CARDS) == CARD_MEMORY
    assert common_memory((card(0), card(1, memory=None))) is None
    assert common_memory(()) is None


def test_parts_of_one_vendors_gpus_are_not_anothers() -> None:
    mig = replace(card(0), uuid="MIG-1", parent_uuid="GPU-0")
    partition = replace(card(1, vendor="amd"), uuid="GPU-a-0", parent_uuid="GPU-a")
    facts = node(mig, partition)

    assert instances(facts) == (mig,)
    assert instances(facts, "amd") == (partition,)
