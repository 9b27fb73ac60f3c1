"""The DRM source: finds the devices and their processes, and reads them as a fleet."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

from exporter.model import Clock
from exporter.sources.gpus.drm.device import DrmDevice
from exporter.sources.gpus.drm.discovery import DrmCard, discover
from exporter.sources.gpus.drm.holders import WorkerScans
from exporter.sources.gpus.fleet import Fleet, Readings

logger = logging.getLogger(__name__)

Found = tuple[tuple[DrmCard, ...], Collection[str]]
"""The devices, and the PCI addresses of those that other sources read."""


class DrmSource(Fleet[Found, DrmDevice]):
    """GPUs of the kernel's DRM drivers, as a ``GpuSource``.

    ``taken`` returns the PCI addresses of devices that other sources read; they are left out.
    ``computing`` returns the pids of processes with queues of KFD, whose time amdgpu does not
    count. ``any_driver``: also devices of drivers that are not known to report their clients.
    """

    name = "drm"
    look_every_s = 10.0
    no_device = "no device of a DRM driver that reports its clients, or another source has it"
    up_if_empty = False

    def __init__(
        self,
        sys_root: str = "/sys",
        proc_root: str = "/proc",
        *,
        clock: Clock = time,
        taken: Callable[[], Collection[str]] = tuple,
        computing: Callable[[], Collection[int]] = tuple,
        any_driver: bool = False,
    ) -> None:
        super().__init__(clock)
        self._sys, self._proc = sys_root, proc_root
        self._taken = taken
        self._computing = computing
        self._any_driver = any_driver
        self._scans = WorkerScans(proc_root, clock, self._workers)

    def _look(self, *, attached: bool) -> Found:
        del attached
        taken = self._taken()
        cards = discover(self._sys, self._proc, taken=taken, any_driver=self._any_driver)
        return cards, taken

    def _trouble(self) -> str:
        return self._scans.trouble if self._devices else ""

    def _jobs(self) -> Mapping[str, Callable[[], Readings]]:
        demand = self._demand
        scan = self._scans.newest(demand) if self._devices else None
        return {uuid: partial(each.read, demand, scan) for uuid, each in self._devices.items()}

    def _restart(self) -> None:
        self._scans.restart()
        for device in self._devices.values():
            device.restart()

    def _sync(self, found: Found, busy: Collection[str]) -> None:
        """Keeps unchanged devices; what happened while one was gone is unobserved."""
        del busy
        cards, taken = found
        before, self._devices = {**self._gone, **self._devices}, {}
        for card in cards:
            uuid = card.device.uuid
            known = before.pop(uuid, None)
            if known is None or known.found != card:
                logger.info("device %s: %s, %s", uuid, card.device.model, card.driver)
                uncounted = self._computing if card.driver == "amdgpu" else tuple
                known = DrmDevice(card, self._proc, self._clock, uncounted)
            elif uuid in self._gone:
                known.restart()
            self._devices[uuid] = known
        self._gone = {u: d for u, d in before.items() if d.found.device.pci_bus_id not in taken}
