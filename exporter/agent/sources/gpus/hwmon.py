"""Energy, power, temperatures and clocks of one board, from the kernel's hwmon.

Sources: Documentation/ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon and
Documentation/gpu/amdgpu/thermal.rst (on an APU the power is that of the whole chip, CPU included).
Reading sensors may wake a device; the caller decides whether to. What may not be read is absent.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from exporter.agent.sources.gpus.board_energy import BoardEnergy
from exporter.agent.sources.gpus.sysfs import NotedReads
from exporter.model import Sensors, Unmeasured

_SENSORS = {"edge": "gpu", "pkg": "gpu", "junction": "hotspot", "mem": "memory", "vram": "memory"}
_CLOCKS = {"sclk": "sm", "mclk": "memory"}  # amdgpu's
_ENERGY = ("energy1_input", "energy2_input")  # of the card, or else of its package (xe)
_POWER = ("power1_average", "power1_input")
# Of Intel's, the critical power is in force too, also where no other limit is set.
_LIMIT = ("power1_cap", "power1_max", "power2_max", "power1_crit", "power2_crit")
MARGIN = 2  # times its limit: what a counter says beyond is no power
_MAX_FILES = 256
_LONGEST_LABEL = 32


class Hwmon:
    """Reads one board. ``device``: its directory. ``driver``: the name of its hwmon folder.

    That folder is looked up again when it is gone: a driver that comes back gets another number.
    ``graphics_mhz``: files with its clock in MHz, of drivers without one in hwmon; the first
    that exists counts.
    """

    def __init__(self, device: str, driver: str, graphics_mhz: Sequence[str] = ()) -> None:
        self._above = f"{device}/hwmon"
        self._driver = driver
        self._graphics_mhz = graphics_mhz
        self._folder = ""
        self._counter = ""
        self._of_energy = NotedReads()  # of the counter, and of the power beside it
        self._unread: dict[str, Unmeasured] = {}  # what could not be read of the sensors

    def energy_uj(self) -> int | None:
        """The energy counter in microjoules, if the driver has one: the same one each time."""
        self._of_energy = reads = NotedReads()
        for name in (self._counter,) if self._counter else _ENERGY:
            value = self._first(reads, (name,))
            if value is not None:
                self._counter = name
                return value
        return None

    def power_mw(self) -> int | None:
        """Board power in milliwatts: averaged by the firmware, or else the current one.

        A board that can be read draws some: 0 is no figure, as of the second die of an MI250.
        """
        microwatts = self._first(self._of_energy, _POWER, least=1)
        return None if microwatts is None else microwatts // 1000

    @property
    def unmeasured(self) -> Mapping[str, Unmeasured]:
        """Why, of the quantities of which something could not be read."""
        why = self._of_energy.reason
        return {**self._unread, **({"energy": why} if why else {})}

    def sensors(self, disabled: Collection[str], counted_watts: float | None = None) -> Sensors:
        """The sensors, without those of disabled groups of families.

        ``counted_watts``: by the energy counter, for a driver that does not report power.
        """
        watts = limit = None
        of_power, of_limit, of_heat, of_clocks = (NotedReads() for _ in range(4))
        if "power" not in disabled:
            # A limit of 0 is switched off.
            power = self._first(of_power, _POWER, least=1)
            limit = self._first(of_limit, _LIMIT, least=1)
            is_possible = not limit or (counted_watts or 0) <= MARGIN * limit / 1e6
            counted_watts = counted_watts if is_possible else None
            watts = counted_watts if power is None else power / 1e6
        heat: dict[str, float] = {}
        for label, value in () if "temperature" in disabled else self._labelled(of_heat, "temp"):
            # A driver's own word, so it is bounded. Without a label it is the GPU's.
            is_word = label.isascii() and label.isidentifier() and len(label) <= _LONGEST_LABEL
            heat[_SENSORS.get(label) or (label if is_word else "gpu")] = value / 1000
        clocks = {} if "clocks" in disabled else dict(self._clocks(of_clocks))
        reads = {
            "power": of_power,
            "power_limit": of_limit,
            "temperature": of_heat,
            "clock": of_clocks,
        }
        self._unread = {name: each.reason for name, each in reads.items() if each.reason}
        return Sensors.of(
            power_watts=watts,
            power_limit_watts=None if limit is None else limit / 1e6,
            temperature_celsius=heat,
            clock_hertz=clocks,
        )

    def _clocks(self, reads: NotedReads) -> Iterator[tuple[str, int]]:
        values = map(reads.number, self._graphics_mhz)
        mhz = next((value for value in values if value is not None), None)
        if mhz is not None:
            yield "graphics", mhz * 1_000_000
        for label, hertz in self._labelled(reads, "freq"):
            if label in _CLOCKS and hertz >= 0:
                yield _CLOCKS[label], hertz

    def _labelled(self, reads: NotedReads, kind: str) -> Iterator[tuple[str, int]]:
        """The label and the value of each channel of a kind."""
        folder = self._found(reads)
        for name in reads.names(folder)[:_MAX_FILES] if folder else ():
            if name.startswith(kind) and name.endswith("_input"):
                value = reads.number(f"{folder}/{name}")
                if value is not None:
                    yield reads.text(f"{folder}/{name.removesuffix('input')}label"), value

    def _first(self, reads: NotedReads, wanted: tuple[str, ...], least: int = 0) -> int | None:
        """The first of these files with a number of so much or more."""
        folder = self._found(reads)
        values = (reads.number(f"{folder}/{name}") for name in wanted) if folder else ()
        return next((value for value in values if value is not None and value >= least), None)

    def _found(self, reads: NotedReads) -> str:
        """The folder of the whole device; i915 has others for its parts (``i915_gt0``)."""
        name = reads.word(f"{self._folder}/name") if self._folder else ""
        if name != self._driver and f"{self._folder}/name" not in reads.unread:
            found = (f"{self._above}/{each}" for each in reads.names(self._above))
            named = (path for path in found if reads.word(f"{path}/name") == self._driver)
            self._folder, self._counter = next(named, ""), ""
        return self._folder


def unmeasured(
    sensors: Sensors,
    energy: BoardEnergy,
    disabled: Collection[str],
    unread: Mapping[str, Unmeasured],
) -> Mapping[str, Unmeasured]:
    """The quantities that a board does not report, without disabled groups of families.

    ``unread``: why, of those that could not be read; the board may have the others not.
    """
    unread = {**unread, **energy.unmeasured}
    is_away = energy.method == "none" or bool(energy.unmeasured)
    absent = {
        "energy": ("", is_away),
        "power": ("power", sensors.value("power_watts") is None),
        "power_limit": ("power", sensors.value("power_limit_watts") is None),
        "temperature": ("temperature", not sensors.by_label("temperature_celsius")),
        "clock": ("clocks", not sensors.by_label("clock_hertz")),
        "throttle": ("throttle", not sensors.by_label("throttle_seconds_total")),
        "ecc_errors": ("ecc", not sensors.by_label("ecc_errors_total")),
        "pcie": ("pcie", True),
    }
    return {
        quantity: unread.get(quantity, Unmeasured.NOT_SUPPORTED)
        for quantity, (group, is_absent) in absent.items()
        if is_absent and group not in disabled
    }
