"""What one device has told that it cannot tell, so that it is not asked again each second."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from exporter.gpus.nvml.errors import UnmeasurableError
from exporter.model import QUANTITIES, Unmeasured

logger = logging.getLogger(__name__)

T = TypeVar("T")

PROCESS_SAMPLES = "process_samples"
OTHERS = {  # topic → the group of metric families that it is for, "" where that is always wanted
    "energy": "",
    "memory": "",
    "power": "power",
    "power_limit": "power",
    "temperature": "temperature",
    "clock": "clocks",
    "throttle": "throttle",
    "ecc_errors": "ecc",
    "remapped_rows": "ecc",
    "pcie": "pcie",
    "nvlink": "nvlink",
    "profiling": "profiling",
}


def samples_of(engine: str) -> str:
    """The topic of an engine's sample ring."""
    return f"{engine}_samples"


def rate_of(engine: str) -> str:
    """The topic of an engine's newest rate."""
    return f"{engine}_rate"


def listing_of(kind: str) -> str:
    """The topic of a list of processes."""
    return f"{kind}_processes"


class Refusals:
    """Reasons by topic. A topic is what is asked, whatever the name of the call in this driver.

    ``changes`` counts what was added or forgotten.
    """

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._reasons: dict[str, Unmeasured] = {}
        self.changes = 0
        self._logged: set[str] = set()

    def ask(self, topic: str, call: Callable[..., T], *arguments: object) -> T | None:
        """Make the call, unless the device refused it before; None where it refuses."""
        if topic in self._reasons:
            return None
        try:
            return call(*arguments)
        except UnmeasurableError as error:
            self.add(topic, error.reason)
            return None

    def add(self, topic: str, reason: Unmeasured) -> None:
        """Remember a refusal; the first one of a topic is logged."""
        self._reasons[topic] = reason
        self.changes += 1
        if topic not in self._logged:
            self._logged.add(topic)
            logger.info(
                "device %s does not tell %s (%s); what needs it stays absent",
                *(self._uuid, topic, reason),
            )

    def __contains__(self, topic: str) -> bool:
        return topic in self._reasons

    def forget(self) -> None:
        """Begin anew: another driver, or MIG switched, may answer what this one refused."""
        self._reasons.clear()
        self.changes += 1

    def unmeasured(self, disabled: Collection[str] = ()) -> Mapping[str, Unmeasured]:
        """Quantity → reason: of QUANTITIES and OTHERS, but for groups of families that are off."""
        reasons = {
            topic: self._reasons[topic]
            for topic, group in OTHERS.items()
            if topic in self._reasons and group not in disabled
        }
        if listing_of("compute") in self._reasons:
            reasons.setdefault("memory", self._reasons[listing_of("compute")])
        for engine in QUANTITIES:
            reason = self._reasons.get(PROCESS_SAMPLES)
            if samples_of(engine) in self._reasons:
                reason = reason or self._reasons.get(rate_of(engine))
            if reason:
                reasons[engine] = reason
        return reasons
