"""The CPU that calls of real boards take, as ``benchmarks.device.driver`` measured it.

Of the calling thread, in microseconds, medians with a process at work; for each process more, from
60 processes on one board. What a field or a kind of sample takes is in a line with its number.
"""

from tests.fakenvml.scenario import Field, Gpu, Price

LATER = frozenset({"nvmlDeviceGetMemoryLimits_v1"})  # what driver 580 does not have
_GET = "nvmlDeviceGet"
_SAMPLES, _FIELDS = f"{_GET}Samples", f"{_GET}FieldValues"

# NVIDIA H100 80GB HBM3, driver 580.159.04, alone in a virtual machine, 2026-11-27. nvmlInit is of
# 2026-11-26.
H100 = (
    *(Price(name, 13_470) for name in ("nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags")),
    Price(f"{_GET}TotalEnergyConsumption", 2_650, 3),
    *(Price(_SAMPLES, 1_400, 4, key) for key in (1, 2, 3, 4)),  # core, memory, encoder, decoder
    Price(_SAMPLES, 325, 1, 0),  # power
    Price(f"{_GET}ProcessUtilization", 1_410, 4),
    Price(f"{_GET}ProcessesUtilizationInfo", 1_425, 4),
    Price(f"{_GET}ComputeRunningProcesses_v3", 90, 48),
    Price(f"{_GET}GraphicsRunningProcesses_v3", 16, 28),
    Price(f"{_GET}MPSComputeRunningProcesses_v3", 14, 20),
    Price(_FIELDS, 5),
    *(Price(_FIELDS, 2_650, 3, key) for key in (83, 191)),  # energy
    *(Price(_FIELDS, 110, 0, key) for key in (74, 76, 269, 270, 271)),  # throttling
    *(Price(_FIELDS, 70, 0, key) for key in (29, 30, 31)),  # retired pages
    *(Price(_FIELDS, 165, 0, key) for key in (197, 198)),  # PCIe bytes
    Price(_FIELDS, 190, 0, 94),  # PCIe replays
    *(Price(_FIELDS, 30, 0, key) for key in (185, 186)),  # power
    *(Price(_FIELDS, 10, 0, key) for key in (3, 4, 138, 139, 230)),
    *(Price(_FIELDS, 3, 0, key) for key in (38, 45, 52, 59, 82, 142, 143, 144, 145)),
    Price("nvmlGpmSampleGet", 245),
    Price("nvmlGpmMetricsGet", 1_060),
    Price(f"{_GET}PcieThroughput", 490),
    Price(f"{_GET}BAR1MemoryInfo", 225),
    Price(f"{_GET}PowerManagementLimit", 205),
    Price(f"{_GET}GridLicensableFeatures_v4", 200),
    Price(f"{_GET}MigMode", 185),
    Price(f"{_GET}CurrPcieLinkWidth", 128),
    Price(f"{_GET}MemoryInfo_v2", 65),
    Price(f"{_GET}PersistenceMode", 25),
    Price(f"{_GET}UUID", 22),
    Price(f"{_GET}PowerUsage", 16),
    Price(f"{_GET}MemoryInfo", 13),
    *(Price(f"{_GET}{name}", 12) for name in ("TemperatureV", "PciInfo_v3")),
    *(
        Price(f"{_GET}{name}", 6)
        for name in (
            *("EnforcedPowerLimit", "PerformanceState", "UtilizationRates", "Temperature"),
            *("CurrPcieLinkGeneration", "MaxPcieLinkGeneration", "MaxPcieLinkWidth", "ClockInfo"),
            *("EncoderUtilization", "DecoderUtilization", "CurrentClocksEventReasons", "Name"),
        )
    ),
)

# The same board by the exporter's own counters: twelve cycles, each call after a second of sleep.
# Those above are of calls one after the other. A node that does nothing else pays these.
_COUNTED = {
    f"{_GET}TotalEnergyConsumption": 4_690,
    f"{_GET}ProcessUtilization": 1_482,
    "nvmlGpmMetricsGet": 1_815,
    f"{_GET}BAR1MemoryInfo": 600,
    f"{_GET}FanSpeed": 385,
    f"{_GET}GridLicensableFeatures_v4": 347,
    f"{_GET}ComputeRunningProcesses_v3": 219,
    f"{_GET}GraphicsRunningProcesses_v3": 76,
    f"{_GET}MPSComputeRunningProcesses_v3": 35,
    f"{_GET}ClockInfo": 98,
    f"{_GET}PowerUsage": 75,
    f"{_GET}PerformanceState": 50,
    f"{_GET}TemperatureV": 32,
    f"{_GET}MemoryInfo": 43,
}
H100_COLD = (
    *(price for price in H100 if price.function not in {*_COUNTED, _SAMPLES, _FIELDS}),
    *(Price(name, us) for name, us in _COUNTED.items()),
    *(Price(_SAMPLES, 1_495, 0, key) for key in (1, 2, 3, 4)),
    Price(_FIELDS, 835),
)


def h100(index: int) -> Gpu:
    """Such a board: a sample each 0.2 s, of which it keeps 14 s."""
    return Gpu(index, ring=71, sample_period=0.2)


def traffic(gpu: int) -> list[Field]:
    """PCIe traffic, which GPM has on such a board, and field values too."""
    return [Field(gpu, number, rate=1e6, type="uint") for number in (197, 198)]
