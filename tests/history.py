"""What a Prometheus stored of exporters, as blocks that promtool makes and a real server reads."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.store import Store

Labels = Mapping[str, str]


class Scrape(NamedTuple):
    """What a Prometheus stored: of which target, when, and the page."""

    labels: Labels
    at_s: int
    page: str


def openmetrics(scrapes: Sequence[Scrape]) -> str:
    """The samples as promtool takes them, with the labels that a target has."""
    lines: list[tuple[str, int, str]] = []
    for labels, at_s, page in scrapes:
        target = ",".join(f'{name}="{value}"' for name, value in labels.items())
        lines.append((f"up{{{target}}}", at_s, "1"))
        for line in page.splitlines():
            series, _, value = line.rpartition(" ")
            name, _, own = series.partition("{")
            both = ",".join(filter(None, (own.removesuffix("}"), target)))
            lines.append((f"{name}{{{both}}}", at_s, value))
    text = "".join(f"{series} {value} {at_s}\n" for series, at_s, value in sorted(lines))
    return f"{text}# EOF\n"


@contextmanager
def backfilled(folder: Path, program: str, scrapes: Sequence[Scrape]) -> Iterator[str]:
    """The address of a server of blocks that hold these samples."""
    text = folder / "history.om"
    text.write_text(openmetrics(scrapes))
    command = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=100000h"]
    history = ["openmetrics", str(text), str(folder / "tsdb")]
    subprocess.run([*command, *history], check=True, capture_output=True)
    with Store(folder, program=program) as store:
        yield store.address
