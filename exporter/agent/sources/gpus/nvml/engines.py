"""Reads the engines of one device (NVML's sample rings and rates) and the energy of its board.

Energy comes from the board's counter (Volta and newer), or else from its power, integrated.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from exporter.agent.sources.gpus.board_energy import BoardEnergy
from exporter.agent.sources.gpus.energy import EnergyUse
from exporter.agent.sources.gpus.nvml.calls import DeviceCalls
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.nvml.refusals import PROCESS_SAMPLES, Refusals, rate_of, samples_of
from exporter.agent.sources.gpus.samples import WHOLE, BusySample, ProcessRow
from exporter.model import QUANTITIES, Clock

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
        self.bind(handle)

    def bind(self, handle: Any) -> None:  # noqa: ANN401 - pynvml's pointer
        self._handle = handle
        self._calls = DeviceCalls(self._library, handle)

    @property
    def coreless(self) -> bool:
        """Whether this device refuses both the samples and the rate of its core."""
        return SAMPLES["core"] in self._refusals and RATES["core"] in self._refusals

    def try_core(self) -> bool:
        """Asks again for the core if it is time. Returns whether it is measured now."""
        self.busy_samples("core", 0)
        self.utilization("core")
        return not self.coreless

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[BusySample] | None:
        return self._ask(engine, SAMPLES[engine], self._calls.samples, engine, newer_than_us)

    def utilization(self, engine: str) -> float | None:
        """Percent of the newest sample only; None: this device does not report it.

        A rate above 100 % is discarded, see ``take_impossible``.
        """
        percent = self._ask(engine, RATES[engine], self._rate, engine)
        if percent is not None and percent > WHOLE:
            self._impossible.append(engine)
            return None
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

    def __init__(self, engines: EngineReader, refusals: Refusals, clock: Clock) -> None:
        self._engines = engines
        self._refusals = refusals
        self._clock = clock
        self._board = BoardEnergy(compares=False)

    @property
    def method(self) -> str:
        return self._board.method

    def take(self, core_ns: int | None) -> EnergyUse:
        """Energy since the last window. Called once a window."""
        counter_uj = self._engines.energy_uj()
        if "energy" in self._refusals:
            self._board.lose_counter()
        mono_ns = self._clock.monotonic_ns()
        return self._board.take(counter_uj, self._engines.power_mw, mono_ns, core_ns)
