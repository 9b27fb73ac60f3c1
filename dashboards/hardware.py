"""The hardware of GPUs: a table of what is wrong with which, and its fans, links and states."""

from dashboards.boards import GPU, LINE, STATE, of, of_each, of_silent, rate
from dashboards.frame import to
from dashboards.panels import (
    ANY,
    BAD,
    GOOD,
    IDLE,
    LOOK,
    NOBODY,
    USED,
    Panel,
    Words,
    series,
    timeline,
)
from dashboards.tables import Column, colored, table

BY = "cluster, instance, gpu"
# What the driver asks for (NVML field 230), by its number; see mgpu_device_recovery_action.
NEEDS: Words = {
    "0": ("nothing", GOOD),
    "1": ("reset", BAD),
    "2": ("restart", BAD),
    "3": ("drain P2P", IDLE),
    "4": ("drain, reset", BAD),
    "5": ("IMEX", IDLE),
    "6": ("bus reset", BAD),
    "7": ("restart", BAD),
}
REPAIR: Words = {
    "0": ("none", GOOD),
    "1": ("at reset", LOOK),
    "2": ("failed", BAD),
    "3": ("failed", BAD),
}
LANES = ((None, IDLE), (1, GOOD))  # fewer than there could be is slow, not broken
HEAT = ((None, GOOD), (0.01, IDLE), (0.5, BAD))
WORKING, WAITING = range(3), range(3, 8)  # of NVIDIA's sixteen states
STATES: Words = {
    str(state): (f"P{state}", USED if state in WORKING else LOOK if state in WAITING else NOBODY)
    for state in range(16)
}
SENT_AGAIN = ',kind=~"replay|recovery"'
AT_WORK = f"and on (job, cluster, instance, uuid) ({of('performance_state')} <= 2)"


def _worst(expr: str) -> str:
    """The highest of a card and its partitions."""
    return f"max by ({BY}) ({expr})"


def _of_range(family: str, more: str = "") -> str:
    return f"round(sum by ({BY}) (increase({of(family, more)}[$__range])))"


def _lanes() -> str:
    return f"{of('pcie_link_width')} / {of('pcie_link_max_width')}"


def wrong() -> Panel:
    """A row for each card, a coloured cell for each thing that can be wrong with it."""
    pending = _worst(of("row_remapping", ',state="pending"'))
    failed = _worst(of("row_remapping", ',state="failed"'))
    repair = f"({pending} + 2 * {failed}) or {_worst(of('retired_pages_pending'))}"
    heat = rate("throttle_seconds_total", ',reason=~"hw_thermal|sw_thermal|hw_power_brake"')
    state = f"min by ({BY}) ({of('up')}) or -1 * group by ({BY}) ({of_silent('up')})"
    return table(
        "What is wrong with which GPU",
        "Each card: what the driver asks for, repairs of its memory that wait for a reset, its "
        "PCIe lanes of those it could have, the time now in which heat or the power brake held "
        "its clocks down, and errors of the time range. NVLink counts what was sent again and "
        "recoveries. A dash is what the card does not say.",
        {"instance": "Node", "gpu": "GPU"},
        [
            Column("State", state, "short", colored(words=STATE)),
            Column("Needs", _worst(of("recovery_action")), "short", colored(words=NEEDS)),
            Column("Repair", repair, "short", colored(words=REPAIR)),
            Column("Lanes", f"min by ({BY}) ({_lanes()})", "percentunit", colored(LANES)),
            Column("Heat", f"sum by ({BY}) ({heat})", "percentunit", colored(HEAT)),
            Column("XIDs", _of_range("xid_errors_total"), "short", colored(ANY)),
            Column(
                "ECC",
                _of_range("ecc_errors_total", ',kind="uncorrected"'),
                "short",
                colored(ANY),
            ),
            Column("NVLink", _of_range("nvlink_errors_total", SENT_AGAIN), "short", colored(ANY)),
            Column("Replays", _of_range("pcie_replays_total"), "short"),
        ],
        links={"Node": to("node", "node", node="${__value.raw}")},
        lowest_of="State",
    )


def details() -> list[Panel]:
    """What a board does beside its work: states, links, fans, the window of its memory."""
    generation = f"{of('pcie_link_generation')} / {of('pcie_link_max_generation')}"
    return [
        timeline(
            "What the driver asks for",
            "The recovery that a GPU needs; the runbook MgpuGpuRecoveryAction says what to do. "
            "Drivers before 570 do not say it.",
            {LINE: f"{_worst(of('recovery_action'))}"},
            NEEDS,
            known=of("recovery_action"),
        ),
        timeline(
            "Performance state",
            "P0 is the highest, P15 the lowest. A board that works in a low state is held there.",
            {LINE: f"min by ({BY}) ({of('performance_state')})"},
            STATES,
            known=of("performance_state"),
        ),
        timeline(
            "PCIe link",
            "Lanes of those it could have, and its generation of the highest while the board is "
            "in a high performance state: a board that waits lowers it on purpose.",
            {
                f"{LINE} lanes": f"min by ({BY}) ({_lanes()})",
                f"{LINE} generation": f"min by ({BY}) ({generation} {AT_WORK})",
            },
            ((0, "less than there could be", IDLE), (1, "all", GOOD)),
            known=of("pcie_link_width"),
        ),
        series(
            "Errors of links",
            "Packets that were sent again over PCIe, and errors of NVLink by kind, a second.",
            of_each(
                {
                    f"{GPU} PCIe": rate("pcie_replays_total"),
                    f"{GPU} NVLink {{{{kind}}}}": rate("nvlink_errors_total"),
                }
            ),
            "cps",
            nothing="No GPU here counts errors of its links",
        ),
        series(
            "Fans",
            "Speed that is asked for, of the most.",
            of_each({GPU: of("fan_speed_ratio")}),
            "percentunit",
            most=1,
            nothing="No board here has a fan of its own",
        ),
        series(
            "BAR1",
            "The part in use of the window by which CPUs and other devices reach a GPU's memory.",
            of_each({GPU: f"{of('bar1_used_bytes')} / {of('bar1_total_bytes')}"}),
            "percentunit",
            most=1,
            nothing="No GPU here has BAR1",
        ),
    ]
