"""The picture on docs/performance.md, from the first table of benchmarks/cost/results.md."""

import re

from pages.costs import AGENTS, FULL, cells
from pages.drawing import SCHEMES, Colours, svg, text

# A row of the table: what is written above its bars, and the unit.
ROWS = {
    "CPU a cycle (of a second), ms": ("CPU in a second without a scrape", "ms"),
    "CPU a scrape, identity, ms": ("CPU of a scrape", "ms"),
    "CPU a scrape and sample, identity, µs": ("CPU of a scrape, by series", "µs"),
    "RSS at rest, MiB": ("Memory", "MiB"),
}
WIDTH, LEFT, RIGHT, BAR, TOP = 760, 150, 90, 18, 62
BLOCK = 30 + len(AGENTS) * (BAR + 4)


def figures(page: str) -> dict[str, dict[str, float]]:
    """Return, by row, the figure of each agent that has one.

    Raises:
        ValueError: the page lacks the table.
        KeyError: the table lacks one of its rows.

    """
    rows = cells(page, FULL)
    return {
        name: {
            agent: float(cell.replace(",", ""))
            for agent in AGENTS
            if re.fullmatch(r"[\d.,]+", cell := rows[name][agent])
        }
        for name in ROWS
    }


def performance(scheme: str, page: str) -> str:
    """Return the SVG in one colour scheme."""
    colours = SCHEMES[scheme]
    title = "Cost on a node of 8 GPUs, 512 GPU processes and 110 pods"
    parts = [
        text((20, 28), title, colours.ink, 'font-size="16" font-weight="600"'),
        text((20, 48), "Shorter is better. Each group has its own scale.", colours.faint),
    ]
    for place, (name, of) in enumerate(figures(page).items()):
        parts += _group(TOP + place * BLOCK, name, of, colours)
    return svg(WIDTH, TOP + len(ROWS) * BLOCK + 10, title, parts, colours)


def _group(top: int, name: str, of: dict[str, float], colours: Colours) -> list[str]:
    words, unit = ROWS[name]
    parts = [text((20, top + 20), words, colours.ink, 'font-weight="600"')]
    for number, agent in enumerate(AGENTS):
        y = top + 30 + number * (BAR + 4)
        parts.append(
            text((LEFT - 8, y + 13), agent, colours.ink, 'text-anchor="end" font-size="12"')
        )
        if agent not in of:
            parts.append(text((LEFT, y + 13), "no such work", colours.faint, 'font-size="12"'))
            continue
        length = of[agent] / max(of.values()) * (WIDTH - LEFT - RIGHT)
        parts += [
            (
                f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" '
                f'fill="{colours.bars[number]}"/>'
            ),
            text(
                (round(LEFT + length + 6, 1), y + 13),
                f"{of[agent]:.3g} {unit}",
                colours.ink,
                'font-size="12"',
            ),
        ]
    return parts
