"""The table of docs/accuracy.md: what the results come to. The picture has the scenarios."""

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

OURS, WATCHED = "this exporter", "with a viewer"
READERS = (OURS, "raw poll 1 s", "ring gauge @30 s", "1 s gauge @30 s")
COUNTED = "Busy seconds over "  # energy has nearly the same errors


class Results(NamedTuple):
    """One table of the results: its title and a mapping from heading to cell for each row."""

    title: str
    rows: Sequence[Mapping[str, str]]


def parse(results: str) -> list[Results]:
    """The tables of scenarios by title, without their rows of the worst."""
    found = []
    for part in results.split("### ")[1:]:
        title, _, text = part.partition("\n")
        lines = [line for line in text.splitlines() if line.startswith("|")]
        heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
        if heads[0] == "scenario":
            kept = [dict(zip(heads, row, strict=True)) for row in rows if "**" not in row[0]]
            found.append(Results(title, kept))
    return found


def mean(cell: str) -> float:
    """The mean error of a cell in percent; 0 for an empty one."""
    found = re.match(r"\**([0-9.]+)%", cell)
    return float(found[1]) if found else 0.0


def summary(results: str) -> str:
    """The summary in Markdown: typical and worst scenario by length and rule."""
    scrapes = re.findall(r"\| (\d+ s) \| (\S+%)", results.partition("### By scrape interval\n")[2])
    return "\n".join(
        (
            f"Busy seconds of this exporter, by length and rule:\n\n{_typical(parse(results))}",
            "By scrape interval: " + ", ".join(" ".join(pair) for pair in scrapes) + ".\n",
        )
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows))


def _typical(tables: Sequence[Results]) -> str:
    """Median and worst of the mean errors over all scenarios, by rule."""
    rules = list(dict.fromkeys(row["rule"] for row in tables[0].rows))
    rows = [
        [
            title.removeprefix(COUNTED),
            *(_range([row for row in rows if row["rule"] == rule], OURS) for rule in rules),
        ]
        for title, rows in tables
        if title.startswith(COUNTED)
    ]
    longest = [row for row in tables[0].rows if row.get(WATCHED)]
    if longest:  # the whole bench was run since it has a viewer
        watched = [
            _range([row for row in longest if row["rule"] == rule], WATCHED) for rule in rules
        ]
        rows.append([f"the first, {WATCHED}", *watched])
    return _table(["median / worst scenario", *(f"*{rule}*" for rule in rules)], rows)


def _range(rows: Sequence[Mapping[str, str]], reader: str) -> str:
    means = [mean(row[reader]) for row in rows if row.get(reader)]
    return f"{median(means):.1f}% / {max(means):.1f}%" if means else ""
