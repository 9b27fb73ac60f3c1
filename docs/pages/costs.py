"""The figures of benchmarks/cost/results.md on the pages that name them, between marks."""

import re
from collections.abc import Mapping

from pages.tables import table

MARKED = re.compile(r"(<!-- cost: ([\w ',-]+) -->).*?(<!-- end of cost -->)", re.DOTALL)
END_OF_TABLE = re.compile(r"^(?:###|\| the floor|\| target)", re.MULTILINE)
FULL = "8 x 64 x 110"
OURS = "this exporter"
AGENTS = (OURS, "nvitop-exporter", "node_exporter")
SECOND, SCRAPE = "CPU a cycle (of a second), ms", "CPU a scrape, identity, ms"
STARTS = "the same, one pod starts in each, ms"
GPU_STARTS = "the same, one pod that uses a GPU starts in each, ms"
HANGING = "the same, 1 scraper, driver hangs, ms"
MEMORY, SERIES = "RSS at rest, MiB", "series"
PRICED, ONE_PRICED = "8 x 3 x 110, an H100's prices", "1 x 3 x 10, an H100's prices"
CHURN = "the same, a process of 1.5 s on each card each 10 s, ms"
WHOLE, DRIVER = "CPU in a second, the driver's included, ms", "the driver's part of it, ms"
NODES = {
    "1 x 4 x 10": "1 GPU, 4 processes on it, 10 pods",
    FULL: "8 GPUs, 64 processes on each, 110 pods",
    "16 x 128 x 250": "16 GPUs, 128 processes on each, 250 pods",
}
FIGURES = {
    "CPU in a second, without a scrape": (SECOND, "ms"),
    "CPU of a scrape": (SCRAPE, "ms"),
    "memory": (MEMORY, "MiB"),
    "series": (SERIES, ""),
}

Cells = Mapping[str, Mapping[str, str]]


def with_costs(page: str, results: str) -> str:
    """Return the page with what stands between its marks as it was measured.

    Raises:
        ValueError: the results lack a table, or the page asks for what is not known.

    """
    known = _texts(results)

    def written(found: re.Match[str]) -> str:
        if found[2] not in known:
            raise ValueError(f"no cost is called {found[2]}: {', '.join(known)}")
        return f"{found[1]}{known[found[2]]}{found[3]}"

    return MARKED.sub(written, page)


def cells(results: str, size: str) -> Cells:
    """Return the cells of one node's first table, by row and agent.

    Raises:
        ValueError: the results lack the table.

    """
    _, found, rest = results.partition(f"### {size}\n")
    table_of = END_OF_TABLE.split(rest)[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table_of.splitlines()
        if line.startswith("|")
    ]
    if not found or not rows:
        raise ValueError(f"{size} is not in the results")
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


def _texts(results: str) -> Mapping[str, str]:
    full = cells(results, FULL)
    ours = {row: of[OURS] for row, of in full.items()}
    by_node = {size: cells(results, size) for size in NODES}
    of_nodes = [
        (node, *(_shown(by_node[size][row][OURS], unit) for row, unit in FIGURES.values()))
        for size, node in NODES.items()
    ]
    of_agents = [
        (words, *(_shown(full[row].get(agent, ""), unit) for agent in AGENTS))
        for words, (row, unit) in FIGURES.items()
    ]
    priced, one = cells(results, PRICED), cells(results, ONE_PRICED)
    return {
        "eight cards": f"{float(priced[WHOLE][OURS]):.0f} ms",
        "eight cards' driver": f"{float(priced[DRIVER][OURS]):.0f} ms",
        "eight cards, nvitop-exporter": f"{float(priced[WHOLE]['nvitop-exporter']):.0f} ms",
        "busy cards": f"{float(priced[CHURN][OURS]):.0f} ms",
        "busy cards, nvitop-exporter": f"{float(priced[CHURN]['nvitop-exporter']):.0f} ms",
        "one card": f"{float(one[WHOLE][OURS]):.1f} ms",
        "second": f"{float(ours[SECOND]):.0f} ms",
        "scrape": f"{float(ours[SCRAPE]):.0f} ms",
        "memory": f"{float(ours[MEMORY]):.0f} MiB",
        "pod": f"{float(ours[STARTS]) - float(ours[SECOND]):.1f} ms",
        "gpu pod": f"{float(ours[GPU_STARTS]) - float(ours[SECOND]):.1f} ms",
        "hanging": f"{ours[HANGING].partition(' / ')[2]} ms",
        "nodes": f"\n\n{table(('node', *FIGURES), of_nodes)}\n",
        "agents": f"\n\n{table(('', *AGENTS), of_agents)}\n",
    }


def _shown(cell: str, unit: str) -> str:
    return f"{cell} {unit}".strip() if cell else "none"
