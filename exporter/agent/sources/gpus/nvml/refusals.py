"""The calls that one device refuses, and when to make them again.

A refused call is not made every second, and no refusal is final: a driver may answer later what it
refuses now. The call is made again after ``FIRST_S`` seconds, then after twice as long each time,
up to ``MAX_S``. A call that fails for ``FAILS_S`` in any other way counts as refused too, and is
made again after as long.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from exporter.agent.sources.gpus.nvml.errors import CallError, UnmeasurableError
from exporter.model import QUANTITIES, SECOND_NS, Clock, Unmeasured

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_S, MAX_S = 120.0, 960.0  # until a refused call is made again
FAILS_S = 10.0  # a failure that lasts less is the driver's moment of trouble
PROCESS_SAMPLES = "process_samples"
DEVICE_MEMORY = "device_memory"  # its size and how much is in use, beside who holds it
OTHERS = {  # topic → its group of metric families, "" if it is always wanted
    "energy": "",
    DEVICE_MEMORY: "",
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


class Backoff:
    """A wait that doubles after each failure, from ``first_s`` to ``most_s`` seconds."""

    def __init__(self, clock: Clock, first_s: float = 1.0, most_s: float = 60.0) -> None:
        self._clock = clock
        self._first_ns = int(first_s * SECOND_NS)
        self._most_ns = int(most_s * SECOND_NS)
        self.reset()

    def reset(self) -> None:
        """Forgets the failures: the next attempt is due at once."""
        self._wait_ns = self._first_ns
        self._next_ns: int | None = None

    def failed(self) -> None:
        self._next_ns = self._clock.monotonic_ns() + self._wait_ns
        self._wait_ns = min(2 * self._wait_ns, self._most_ns)

    @property
    def due(self) -> bool:
        return self._next_ns is None or self._clock.monotonic_ns() >= self._next_ns


def samples_of(engine: str) -> str:
    """The topic of an engine's sample ring."""
    return f"{engine}_samples"


def rate_of(engine: str) -> str:
    """The topic of an engine's newest rate."""
    return f"{engine}_rate"


def listing_of(kind: str) -> str:
    """The topic of a list of processes."""
    return f"{kind}_processes"


def retry_of(clock: Clock) -> Backoff:
    """The back-off of a refused call."""
    return Backoff(clock, FIRST_S, MAX_S)


_MAIN = (samples_of("core"), rate_of("core"), listing_of("compute"), DEVICE_MEMORY)


class Refusals:
    """The refusals of one device: reasons by topic.

    A topic is what is read, whatever the call is named in this driver.
    """

    def __init__(self, uuid: str, clock: Clock) -> None:
        self._uuid = uuid
        self._clock = clock
        self._reasons: dict[str, Unmeasured] = {}
        self._retries: dict[str, Backoff] = {}  # of the same topics
        self._failing_ns: dict[str, int] = {}  # topics that fail in another way, and since when
        self._logged: set[str] = set()

    def ask(self, topic: str, call: Callable[..., T], *arguments: object) -> T | None:
        """Makes the call, and returns None if it is refused or was refused a short time ago.

        Raises:
            NvmlError: the call failed in another way.

        """
        if topic in self._reasons:
            return self._ask_again(topic, call, *arguments)
        # There are three kinds of failure. If the driver or the device is gone, that concerns all
        # calls, and goes up. If the device has no such thing, that is a refusal. All else may be a
        # moment's trouble, and becomes a refusal only if it lasts.
        try:
            answer = call(*arguments)
        except UnmeasurableError as error:
            self.add(topic, error.reason)
            return None
        except CallError as error:
            self.fail(topic, error)
            if topic in self._reasons:
                return None
            raise
        self._failing_ns.pop(topic, None)
        return answer

    def attempt(self, topic: str, call: Callable[..., T], *arguments: object) -> T | None:
        """The same, and None if the call failed in another way that concerns only itself."""
        try:
            return self.ask(topic, call, *arguments)
        except CallError:
            return None

    def _ask_again(self, topic: str, call: Callable[..., T], *arguments: object) -> T | None:
        """Makes a refused call if its time has come. A failure of another kind ends no refusal."""
        retry = self._retries[topic]
        if not retry.due:
            return None
        try:
            answer = call(*arguments)
        except UnmeasurableError as error:
            self.add(topic, error.reason)
            return None
        except CallError:
            retry.failed()
            return None
        self.drop(topic)
        return answer

    def fail(self, topic: str, error: CallError) -> None:
        """Notes a failure that concerns only its topic. One that lasts is a refusal."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._failing_ns.setdefault(topic, now_ns) < FAILS_S * SECOND_NS:
            logger.debug("%s of device %s was not read this time: %s", topic, self._uuid, error)
        elif topic not in self._reasons:
            self._retries[topic] = Backoff(self._clock, FAILS_S, MAX_S)
            self.add(topic, Unmeasured.READ_FAILED, str(error))

    def add(self, topic: str, reason: Unmeasured, detail: str = "") -> None:
        """Remembers a refusal and when to ask again. The first one of a topic is logged."""
        self._retries.setdefault(topic, retry_of(self._clock)).failed()
        if self._reasons.get(topic) == reason:
            return
        self._reasons[topic] = reason
        if topic not in self._logged:
            self._logged.add(topic)
            logger.info(
                "device %s does not report %s (%s); what needs it is absent. It is asked again "
                "after some time",
                *(self._uuid, topic, detail or reason),
            )

    def drop(self, topic: str) -> None:
        """Forgets the refusal of a topic that was answered, or that it failed."""
        self._failing_ns.pop(topic, None)
        if topic in self._reasons:
            del self._reasons[topic], self._retries[topic]
            logger.info("device %s reports %s again", self._uuid, topic)

    @property
    def has_nothing(self) -> bool:
        """Whether neither the core nor the memory can be read, and not because it never could."""
        unread = self._reasons.keys() | self._failing_ns.keys()
        return unread.issuperset(_MAIN) and not self._failing_ns.keys().isdisjoint(_MAIN)

    def reason(self, topic: str) -> Unmeasured | None:
        """Why a topic is not known now, whether that lasts or not."""
        failed = Unmeasured.READ_FAILED if topic in self._failing_ns else None
        return self._reasons.get(topic, failed)

    def __contains__(self, topic: str) -> bool:
        return topic in self._reasons

    def forget(self) -> None:
        """Forgets all refusals: after a new driver or a MIG switch the device may answer."""
        self._reasons.clear()
        self._retries.clear()
        self._failing_ns.clear()

    def unmeasured(self, disabled: Collection[str] = ()) -> Mapping[str, Unmeasured]:
        """Quantity → reason, of QUANTITIES and OTHERS, without disabled groups of families."""
        # What fails is absent at once, whether it lasts or not. Energy is not: the next answer of
        # its counter has what was missed.
        failing = dict.fromkeys(self._failing_ns.keys() - {"energy"}, Unmeasured.READ_FAILED)
        absent = failing | self._reasons
        reasons = {
            topic: absent[topic]
            for topic, group in OTHERS.items()
            if topic in absent and group not in disabled
        }
        if listing_of("compute") in absent:
            reasons["memory"] = absent[listing_of("compute")]
        for engine in QUANTITIES:
            reason = self._reasons.get(PROCESS_SAMPLES)
            if samples_of(engine) in self._reasons:
                reason = reason or self._reasons.get(rate_of(engine))
            if reason:
                reasons[engine] = reason
        return reasons
