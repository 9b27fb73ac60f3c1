"""The numbers of boards, which stay with them while the exporter runs. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, count

from exporter.gpus.amd.discovery import VENDOR, FoundBoard
from exporter.model import FIRST_INDEX


class Numbers:
    """Remembers which board has which number, those that are gone too: they may come back.

    A board that is put where one is gone takes over its number, whatever it is called.
    """

    def __init__(self) -> None:
        self._seats: dict[str, tuple[int, str]] = {}  # number and PCI address, by UUID

    def given(self, boards: Iterable[FoundBoard]) -> list[FoundBoard]:
        """The boards with their numbers; new ones by their place, if that is nobody's."""
        found = list(boards)
        here = {board.whole.device.uuid for board in found}
        return [_numbered(board, self._of(board, here)) for board in found]

    def _of(self, board: FoundBoard, here: set[str]) -> int:
        device = board.whole.device
        before = [u for u, (_, pci) in self._seats.items() if pci == device.pci_bus_id]
        gone = [uuid for uuid in before if uuid not in here]
        if device.uuid in self._seats:
            number = self._seats[device.uuid][0]
        elif gone:
            number = self._seats.pop(gone[0])[0]
        else:
            taken = {number for number, _ in self._seats.values()}
            wanted = chain((device.index,), count(FIRST_INDEX[VENDOR]))
            number = next(number for number in wanted if number not in taken)
        self._seats[device.uuid] = number, device.pci_bus_id
        return number


def _numbered(board: FoundBoard, number: int) -> FoundBoard:
    whole, parts = board.whole, board.parts
    return board._replace(
        whole=whole._replace(device=replace(whole.device, index=number)),
        parts=tuple(p._replace(device=replace(p.device, index=number)) for p in parts),
    )
