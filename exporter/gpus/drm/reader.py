"""Asks the clients of one device what they have used and hold."""

from collections.abc import Iterator, Sequence

from exporter.gpus.drm.fdinfo import LONGEST, Client, parse
from exporter.gpus.drm.files import read
from exporter.gpus.drm.handles import Handle
from exporter.gpus.drm.holders import Sight


class ClientReader:
    """Reads ``fdinfo`` of the device with these minor numbers of its nodes, and this PCI address.

    A client that several processes hold is the youngest's: whoever opens a device for another one
    - a login manager, a broker, a parent - was there before it.
    """

    def __init__(self, minors: frozenset[int], pci: str, proc_root: str) -> None:
        self._minors = minors
        self._pci = pci
        self._proc = proc_root
        self._known: dict[Handle, int] = {}  # client id
        self._known_of: Sight | None = None

    def ask(self, sight: Sight) -> dict[int, tuple[int, Client]]:
        """Each client by its id, with the pid of the youngest process that has it open.

        One descriptor of each is read; all of them after a new look at the processes, because a
        descriptor may have been closed and its number taken by another one.
        """
        if sight is not self._known_of:
            self._known, self._known_of = {}, sight
        asked: dict[int, tuple[int, Client]] = {}
        for handle in self._handles(sight):
            if self._known.get(handle) in asked:
                continue
            client = self._client(handle)
            if client is None:
                self._known.pop(handle, None)
                continue
            self._known[handle] = client.client_id
            asked.setdefault(client.client_id, (handle.pid, client))
        return asked

    def holders(self, sight: Sight) -> frozenset[int]:
        """Pids of all processes that have the device open."""
        return frozenset(handle.pid for handle in self._handles(sight))

    def _handles(self, sight: Sight) -> Sequence[Handle]:
        """Youngest process first."""
        several = [sight.handles[m] for m in self._minors if m in sight.handles]
        return several[0] if len(several) == 1 else sorted(_chained(several), reverse=True)

    def _client(self, handle: Handle) -> Client | None:
        try:
            path = f"{self._proc}/{handle.pid}/fdinfo/{handle.descriptor}"
            client = parse(read(path, LONGEST))
        except OSError:
            return None
        is_ours = client is not None and client.pdev in {self._pci, ""}
        return client if is_ours else None


def _chained(several: Sequence[Sequence[Handle]]) -> Iterator[Handle]:
    for handles in several:
        yield from handles
