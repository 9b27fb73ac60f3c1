"""Reads the engines of one device (NVML's sample rings and rates) and the energy of its board.

Energy comes from the board's counter (Volta and newer), or else from its power, integrated.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from exporter.agent.sources.gpus.board_energy import BoardEnergy
from exporter.agent.sources.gpus.counter_bridge import CounterBridge
from exporter.agent.sources.gpus.energy import EnergyUse
from exporter.agent.sources.gpus.nvml.calls import DeviceCalls
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.nvml.refusals import (
    DEVICE_MEMORY,
    PROCESS_SAMPLES,
    Refusals,
    rate_of,
    samples_of,
)
from exporter.agent.sources.gpus.samples import WHOLE, BusySample, ProcessRow
from exporter.model import QUANTITIES, Clock, Unmeasured

MODULES = ("GH200",)
"""Boards whose counter is their module's, with its processor and memory (zeus#172)."""

SAMPLES = {engine: samples_of(engine) for engine in QUANTITIES}
RATES = {engine: rate_of(engine) for engine in QUANTITIES}
T = TypeVar("T")


class EngineReader:
    """The ``SampleReader`` of one device.

    Only failures of the core are raised: a window needs its core, and can do without an encoder.
    """

    def __init__(
        self,
        library: Library,
        handle: Any,  # noqa: ANN401 - pynvml's pointer
        refusals: Refusals,
    ) -> None:
        self._library = library
        self._refusals = refusals
        self._impossible: list[str] = []  # engines whose rate was above 100 %
        self._has_worked = False  # a rate of the core was not 0
        self._has_traffic = False  # a sample or rate of the memory was not 0
        self.bind(handle)

    def bind(self, handle: Any) -> None:  # noqa: ANN401 - pynvml's pointer
        self._handle = handle
        self._calls = DeviceCalls(self._library, handle)

    @property
    def coreless(self) -> bool:
        """Whether this device refuses both the samples and the rate of its core.

        A rate that was never anything but 0 is refused too, where the driver knows neither power
        nor memory of the board: on Jetson it answers 0 for good (nv-monitor#17).
        """
        refusals = self._refusals
        if SAMPLES["core"] not in refusals:
            return False
        knows_nothing = "power" in refusals and DEVICE_MEMORY in refusals
        return RATES["core"] in refusals or (knows_nothing and not self._has_worked)

    @property
    def trafficless(self) -> bool:
        """Whether memory traffic was always 0 on a board that shares its host's (rezolus#1196)."""
        is_shared = self._refusals.reason(DEVICE_MEMORY) is Unmeasured.NOT_SUPPORTED
        return is_shared and not self._has_traffic

    def try_core(self) -> bool:
        """Asks again for the core if it is time. Returns whether it is measured now."""
        self.busy_samples("core", 0)
        self.utilization("core")
        return not self.coreless

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[BusySample] | None:
        samples = self._ask(engine, SAMPLES[engine], self._calls.samples, engine, newer_than_us)
        if engine == "memory_active" and not self._has_traffic:
            self._has_traffic = any(percent for _, percent in samples or ())
        return samples

    def utilization(self, engine: str) -> float | None:
        """Percent of the newest sample only; None: this device does not report it.

        A rate above 100 % is discarded, see ``take_impossible``.
        """
        percent = self._ask(engine, RATES[engine], self._rate, engine)
        if percent is not None and percent > WHOLE:
            self._impossible.append(engine)
            return None
        self._has_worked = self._has_worked or (engine == "core" and bool(percent))
        self._has_traffic = self._has_traffic or (engine == "memory_active" and bool(percent))
        return percent

    def take_impossible(self) -> Sequence[str]:
        """The engines whose rates were above 100 % since the last call, one entry a rate."""
        if not self._impossible:
            return ()
        impossible, self._impossible = self._impossible, []
        return impossible

    def process_samples(self, newer_than_us: int) -> Sequence[ProcessRow] | None:
        return self._refusals.ask(PROCESS_SAMPLES, self._calls.process_samples, newer_than_us)

    def energy_uj(self) -> int | None:
        """Microjoules since the driver was loaded; None: they are not known now."""
        return self._refusals.attempt("energy", self._calls.energy_uj)

    def power_mw(self) -> int | None:
        """Milliwatts now; None: they are not known."""
        ask: Callable[..., int] = self._library.ask
        return self._refusals.attempt("power", ask, "nvmlDeviceGetPowerUsage", self._handle)

    def _ask(self, engine: str, topic: str, call: Callable[..., T], *arguments: object) -> T | None:
        ask = self._refusals.ask if engine == "core" else self._refusals.attempt
        return ask(topic, call, *arguments)

    def _rate(self, engine: str) -> float:
        ask, handle = self._library.ask, self._handle
        if engine == "encoder":
            return float(ask("nvmlDeviceGetEncoderUtilization", handle)[0])
        if engine == "decoder":
            return float(ask("nvmlDeviceGetDecoderUtilization", handle)[0])
        rates = ask("nvmlDeviceGetUtilizationRates", handle)
        return float(rates.gpu if engine == "core" else rates.memory)


class NvmlEnergy:
    """The energy of a board between two windows. It survives lost handles and driver restarts."""

    def __init__(
        self, engines: EngineReader, refusals: Refusals, clock: Clock, model: str = ""
    ) -> None:
        self._engines = engines
        self._has_counter = not any(name in model for name in MODULES)
        self._refusals = refusals
        self._clock = clock
        self._board = BoardEnergy(compares=False)
        self._bridge = CounterBridge()

    @property
    def method(self) -> str:
        return self._board.method

    @property
    def unmeasured(self) -> Mapping[str, Unmeasured]:
        """Why energy is not known, once its counter, or the power in its place, fails for long."""
        return self._board.unmeasured

    def look(self) -> None:
        """Notes the power between two windows, where that says how far a costly counter is."""
        if self._bridge.is_costly:
            begun_ns = self._clock.monotonic_ns()
            milliwatts = self._engines.power_mw()
            now_ns = self._clock.monotonic_ns()
            self._bridge.add_power(milliwatts, now_ns - begun_ns, now_ns)

    def take(self, core_ns: int | None) -> EnergyUse:
        """Energy since the last window. Called once a window."""
        counter_uj = self._counter() if self._has_counter else None
        if "energy" in self._refusals:
            self._board.lose_counter()
        mono_ns = self._clock.monotonic_ns()
        return self._board.take(counter_uj, self._engines.power_mw, mono_ns, core_ns)

    def _counter(self) -> int | None:
        self.look()
        begun_ns = self._clock.monotonic_ns()
        counter_uj = self._bridge.continued(begun_ns)
        if counter_uj is not None:
            return counter_uj
        counter_uj = self._engines.energy_uj()
        now_ns = self._clock.monotonic_ns()
        return self._bridge.read(counter_uj, now_ns - begun_ns, now_ns)
