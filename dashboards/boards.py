"""How a GPU's board is: its power, its engines and traffic, its errors."""

from dashboards.frame import DEVICE
from dashboards.panels import BAD, Column, Panel, series, table

GPU = "{{instance}} GPU {{gpu}}"


def of(family: str, more: str = "") -> str:
    """A family of the chosen devices."""
    return f"mgpu_device_{family}{{{DEVICE}{more}}}"


def rate(family: str, more: str = "") -> str:
    """What a counter of theirs rises by in a second."""
    return f"rate({of(family, more)}[$__rate_interval])"


def power() -> list[Panel]:
    """What it draws, and what heat and power do to its clocks."""
    return [
        series("Power", "What each board draws.", {GPU: of("power_watts")}, "watt"),
        series(
            "Temperature",
            "Of the GPU and of its memory.",
            {f"{GPU} {{{{sensor}}}}": of("temperature_celsius")},
            "celsius",
        ),
        series(
            "Clocks",
            "What the clocks are at.",
            {f"{GPU} {{{{clock}}}}": of("clock_hertz")},
            "hertz",
        ),
        series(
            "Held down",
            "Share of the time in which clocks were held down, by reason. The power cap is normal "
            "under load; heat and the power brake are not.",
            {f"{GPU} {{{{reason}}}}": rate("throttle_seconds_total")},
            "percentunit",
            colors={"thermal|brake": BAD},
        ),
    ]


def engines() -> list[Panel]:
    """What its parts do, and what goes over its links."""
    return [
        series(
            "Memory traffic, encoder, decoder",
            "Share of the time in which each was in use.",
            {
                f"{GPU} memory": rate("memory_active_seconds_total"),
                f"{GPU} encoder": rate("encoder_seconds_total"),
                f"{GPU} decoder": rate("decoder_seconds_total"),
            },
            "percentunit",
        ),
        series(
            "SM and tensor activity",
            "Share of the SMs that were busy, of the warps that fit on them, and of the time that "
            "tensor cores were in use. Hopper and newer only.",
            {
                f"{GPU} SM": of("sm_active_ratio"),
                f"{GPU} occupancy": of("sm_occupancy_ratio"),
                f"{GPU} tensor": of("tensor_active_ratio"),
            },
            "percentunit",
            nothing="No GPU here measures it: Hopper and newer do",
        ),
        series(
            "PCIe traffic",
            "As the device sees it.",
            {f"{GPU} {{{{direction}}}}": rate("pcie_bytes_total")},
            "Bps",
        ),
        series(
            "NVLink traffic",
            "Payload over all links of a device.",
            {f"{GPU} {{{{direction}}}}": rate("nvlink_bytes_total")},
            "Bps",
        ),
    ]


def _counted(label: str, expr: str) -> str:
    """A count by GPU and a label."""
    return f"sum by (instance, gpu, {label}) ({expr})"


def errors() -> list[Panel]:
    """What went wrong, and what cannot be measured."""
    return [
        table(
            "XIDs",
            "Errors that the driver reported in the time range, by number. The runbooks "
            "MgpuXidHardware and MgpuXidError say what they mean.",
            {"instance": "Node", "gpu": "GPU", "xid": "XID"},
            [
                Column(
                    "Errors",
                    _counted("xid", f"increase({of('xid_errors_total')}[$__range])") + " > 0",
                    "short",
                )
            ],
            nothing="No XID in the time range",
            width=8,
        ),
        table(
            "Memory errors",
            "Errors of the memory in the time range, and rows of it that are replaced.",
            {"instance": "Node", "gpu": "GPU", "kind": "Kind"},
            [
                Column(
                    "Errors",
                    _counted("kind", f"increase({of('ecc_errors_total')}[$__range])"),
                    "short",
                ),
                Column("Replaced rows", _counted("kind", of("remapped_rows")), "short"),
            ],
            nothing="No GPU here counts memory errors",
            width=8,
        ),
        table(
            "What cannot be measured of devices",
            "Quantities whose series are absent, and why; docs/troubleshooting.md has a line for "
            "each reason.",
            {"instance": "Node", "gpu": "GPU", "quantity": "Quantity", "reason": "Reason"},
            [
                Column(
                    "Devices",
                    f"sum by (instance, gpu, quantity, reason) ({of('unmeasured')})",
                    "short",
                )
            ],
            nothing="Nothing here is unmeasured",
            width=8,
        ),
    ]
