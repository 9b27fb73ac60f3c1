"""Of the overview: its nodes and their cards, of all namespaces."""

from dashboards.frame import BUILD, NODE, SILENT, in_range, to, usable_memory
from dashboards.panels import (
    ANY,
    BAD,
    GOOD,
    HIGH,
    LOOK,
    QUARTERS,
    SPARE,
    UNOBSERVED,
    Panel,
    Words,
    series,
    stat,
    timeline,
)
from dashboards.tables import (
    FILLED,
    GIVEN,
    OWN_CLUSTER,
    USE,
    Column,
    bar,
    colored,
    matrix,
    table,
    tinted,
)

BY_CARD = "cluster, instance, gpu"
BY_NODE = "cluster, instance"
TO_NODE = to("overview", "node", cluster=OWN_CLUSTER, node="${__value.raw}")
# In the order of what to look at first; a part of a card's time is 0 and more.
CARD_STATE: Words = {
    "-3": ("lost", BAD),
    "-2": ("silent", BAD),
    "-1": ("?", LOOK),
}
BAND_WORDS = ("without work", "0 to 25 %", "25 to 50 %", "50 to 75 %", "75 to 100 %")
# Few steps are enough for the way of a fleet, whose series are many: 2 minutes each in an hour.
FEW_POINTS = 40


def of(family: str) -> str:
    """A family of the devices of the chosen nodes."""
    return f"mgpu_device_{family}{{{NODE}}}"


def of_cards(expr: str, by: str = BY_CARD) -> str:
    """A ratio of each card: of a partitioned one the sum, as each part's is of the whole card."""
    return f"sum by ({by}) ({expr})"


USABLE = usable_memory(NODE)
LOST = f"group by ({BY_CARD}) ({of('up')} == 0)"
OF_SILENT = f"(group by ({BY_CARD}) ({in_range(of('up'))}) and on ({BY_NODE}) {SILENT})"
# Where a number is absent that is of a fleet: then it is not zero, but not known.
UNSEEN = f"({SILENT} or {LOST})"
NODE_STATE: Words = {"1": ("read", GOOD), "0": ("silent", BAD)}
SILENT_THEN = 100  # in the timeline of lost cards: more than a node has
# A scrape that is late makes a rate of more than there is.
_RATE = f"rate({of('busy_seconds_total')}[$__rate_interval])"
BUSY = f"clamp_max({of_cards(_RATE)}, 1)"


def cards() -> Panel:
    """Which card is how busy, and which is not read: a cell for each."""
    each = (
        f"-3 * {LOST} or -2 * {OF_SILENT} or {BUSY} or -1 * group by ({BY_CARD}) ({of('up')} == 1)"
    )
    return matrix(
        "All GPUs now",
        "Of each card, by its node and its number, the part of its time with work, of all "
        "namespaces. First are nodes with a card that is lost, or that are silent; ? is a card "
        "whose work cannot be measured, and a dash is no card.",
        ("node", "Node"),
        "gpu",
        # The matrix knows a row by one label; nodes of two clusters may have one name.
        f'max by (cluster, node, gpu) (label_join({each}, "node", " ", "instance", "cluster"))',
        colored(QUARTERS, CARD_STATE),
        width=12,
    )


def bands() -> Panel:
    """How many cards were how busy over time."""
    # One pass over the cards: a count for each quarter of a card's time, 0 without any work.
    parts = f'count_values("quarter", ceil({BUSY} * 4))'
    for quarter, words in enumerate(BAND_WORDS):
        parts = f'label_replace({parts}, "part", "{words}", "quarter", "{quarter}")'
    ends = (f"{words.partition(' ')[2]}$" for words in BAND_WORDS)
    colors = {end: color for end, (_, color) in zip(ends, QUARTERS, strict=True)}
    return series(
        "All GPUs, by how busy they are",
        "How many cards had work in which part of their time, of all namespaces, and how many "
        "were lost. Those of a node are missing while it was silent.",
        {"{{part}}": parts, "lost": f"count({LOST})"},
        "short",
        stacked=True,
        few=True,
        colors={"^lost$": BAD, **colors},
        width=12,
    ).max_data_points(FEW_POINTS)


def memory() -> Panel:
    """How much of all memory is in use."""
    return stat(
        "Memory in use",
        "Device memory in use, of all GPUs whose use is known. A partitioned card counts by its "
        "partitions.",
        f"sum({of('memory_used_bytes')}) / sum({USABLE})",
        "percentunit",
        HIGH,
        unknown=UNSEEN,
        width=12,
    )


def power() -> Panel:
    """What all boards draw."""
    return stat(
        "Power",
        "What the boards draw now.",
        f"sum({of('power_watts')})",
        "watt",
        nothing="No board measures its power",
        unknown=UNSEEN,
        width=12,
    )


def lost() -> Panel:
    """When cards could not be read, by node."""
    read = f"group by ({BY_NODE}) ({BUILD})"
    silent = f"{SILENT_THEN} * (group by ({BY_NODE}) (last_over_time({BUILD}[1h])) unless {read})"
    return timeline(
        "GPUs that could not be read",
        "How many of a node, over time, and when a node was silent that was read in the hour "
        "before. Nodes whose GPUs could all be read are left out.",
        {"{{instance}}": f"count by ({BY_NODE}) ({of('up')} == 0) or {silent}"},
        {
            **{str(count): (f"{count} lost", BAD) for count in range(1, 17)},
            str(SILENT_THEN): ("silent", UNOBSERVED),
        },
        known=BUILD,
        none="no GPU",
        width=12,
    ).max_data_points(FEW_POINTS)


def nodes() -> Panel:
    """A row for each node."""
    watts = f"sum by ({BY_NODE}) ({of('power_watts')})"
    memory = f"sum by ({BY_NODE}) ({of('memory_used_bytes')})"
    total = f"sum by ({BY_NODE}) ({USABLE})"
    lost = f"count by ({BY_NODE}) ({LOST})"
    share = of_cards(of("allocated_core_ratio"))
    cards = f"count by ({BY_NODE}) (count by ({BY_CARD}) ({of('up')}))"
    last_cards = f"count by ({BY_NODE}) ({OF_SILENT})"
    columns = [
        Column(
            "State",
            f"group by ({BY_NODE}) ({BUILD}) or 0 * {SILENT}",
            "short",
            colored(words=NODE_STATE),
        ),
        Column("Core use", f"avg by ({BY_NODE}) ({BUSY})", "percentunit", USE),
        Column("Core share", f"avg by ({BY_NODE}) ({share})", "percentunit", GIVEN),
        Column("Mem. use", f"{memory} / {total}", "percentunit", FILLED),
        Column("GPUs", f"{cards} or {last_cards}", "short"),
        Column("Lost", f"{lost} or 0 * {cards}", "short", tinted(ANY)),
        Column("To look at", _wrong_cards(), "short", tinted(ANY)),
        Column("Power", watts, "watt"),
    ]
    return table(
        "Nodes now",
        "Of each node: whether it is read now (a silent one was read in the time range), its "
        "cards, how busy they are, what of them is promised, and how many to look at: lost, with "
        "an XID in the time range, a recovery or a repair that waits, or too few PCIe lanes, as "
        "far as its exporter serves it. Its page says which. A dash is what is not promised to "
        "pods, or not known.",
        {"instance": "Node", "cluster": "Cluster"},
        columns,
        links={"Node": TO_NODE},
        known=in_range(BUILD),
        lowest_of="State",
    )


def _wrong_cards() -> str:
    """How many cards of each node something is wrong with; 0 where a sign beside ``up`` is served.

    Each exporter serves what its driver knows and its settings leave: what is not served is not 0.
    An XID is found by when it was last reported. Its counters are there before there is any, a
    dozen of each card, and begin at 1 if they are not: that is no increase.
    """
    last_xid = f"max_over_time({of('xid_last_timestamp_seconds')}[$__range])"
    signs = {
        "recovery_action": f"{of('recovery_action')} > 0",
        "row_remapping": f"{of('row_remapping')} == 1",
        "retired_pages_pending": f"{of('retired_pages_pending')} == 1",
        "pcie_link_width": f"{of('pcie_link_width')} < {of('pcie_link_max_width')}",
    }
    seen = [LOST, *(f"group by ({BY_CARD}) ({sign})" for sign in signs.values())]
    seen.append(f"group by ({BY_CARD}) ({last_xid} > time() - $__range_s)")
    served = " or ".join(f"group by ({BY_NODE}) ({of(family)})" for family in signs)
    return f"count by ({BY_NODE}) ({' or '.join(seen)}) or 0 * ({served})"


def idle_cards() -> Panel:
    """The cards with the least work."""
    # An average over the samples, not over the time range: of a card that was lost, or of a node
    # that is young, the time without a sample is no idle time.
    used = of_cards(f"avg_over_time({of('utilization_ratio')}[$__range])")
    read = f"and on ({BY_CARD}) group by ({BY_CARD}) ({of('up')} == 1)"
    idlest = f"topk(20, 1 - clamp_max({used}, 1) {read})"
    return table(
        "GPUs that idle most, of all",
        "The twenty cards with the least work in that part of the time range in which they were "
        "measured, of those that are read now, and what of them is promised.",
        {"instance": "Node", "cluster": "Cluster", "gpu": "GPU"},
        [
            Column("Without work", idlest, "percentunit", bar(SPARE)),
            Column(
                "Core share",
                f"{of_cards(of('allocated_core_ratio'))} and {idlest}",
                "percentunit",
                GIVEN,
            ),
        ],
        links={"Node": TO_NODE},
        known=of("utilization_ratio"),
        width=10,
    )
