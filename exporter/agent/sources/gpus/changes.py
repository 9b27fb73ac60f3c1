"""The log lines about devices that can or cannot be read any more, of all sources alike."""

import logging
from collections.abc import Mapping, Sequence

from exporter.model import DeviceReading, DeviceState

logger = logging.getLogger(__name__)


class DeviceChanges:
    """Logs each change of a device's state once: one line for all of one cause."""

    def __init__(self) -> None:
        self._states: Mapping[str, DeviceState] = {}

    def log(self, readings: Sequence[DeviceReading]) -> None:
        """Compares these readings with those before. A device that is new counts as read before."""
        before, self._states = self._states, {r.device.uuid: r.state for r in readings}
        for uuid in before.keys() - self._states.keys():
            logger.info("device %s is no longer there", uuid)
        changed: dict[tuple[DeviceState, DeviceState], list[DeviceReading]] = {}
        for reading in readings:
            was = before.get(reading.device.uuid, DeviceState.UP)
            if reading.state is not was:
                changed.setdefault((was, reading.state), []).append(reading)
        for (was, state), of_these in changed.items():
            uuids = ", ".join(reading.device.uuid for reading in of_these)
            if state is DeviceState.UP:
                logger.info("devices are read again (before: %s): %s", was, uuids)
            else:
                logger.warning(
                    "devices are not read (%s): %s: %s; series are withheld until this ends",
                    *(state, uuids, of_these[0].detail),
                )
