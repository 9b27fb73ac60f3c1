"""``python -m benchmarks.soak [--minutes 60] [--speed 20] [--write]``: soak, and judge.

The real ``serve`` runs on a simulated node with churn (some 40 pods a minute), devices that are
lost, stuck or failing, and sources that are away now and then, by a clock that goes faster. It is
scraped every five seconds of the node, asked for its other pages, hung up on and given other
settings. The exit status is 1 if anything grew after the warm-up, a counter fell, or the books did
not balance.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.soak.books import Books
from benchmarks.soak.judge import WARM, Look, grown, table
from benchmarks.soak.watch import Exporter
from exporter.console.progress import progress
from tests.e2e.programs import Page
from tests.e2e.scraper import measured_at

PAGE = Path(__file__).with_name("results.md")
BEGIN, END = "<!-- soak: made by python -m benchmarks.soak --write -->\n", "<!-- soak end -->\n"
SCRAPE_S = 5.0  # of the node
LOOKS = 120
LEAST_MINUTES = 20  # a third of them is longer than series of pods that ended are kept
MAX_SAID = 20


class Soak:
    """One run: ``looks`` at the process, and what was ``wrong`` with the pages."""

    def __init__(self, minutes: float, speed: float) -> None:
        self.books = Books()
        self.looks: list[Look] = []
        self.wrong: list[str] = []
        self.last: Page | None = None
        self._minutes, self._speed = minutes, speed

    def run(self, exporter: Exporter) -> None:
        """Scrape and disturb it until the time is over."""
        begun, turn, minute = time.monotonic(), 0, 0.0
        self.last = exporter.page()
        start = measured_at(self.last)
        with progress() as shown:
            while minute < self._minutes:
                self.last = exporter.page()
                minute = (measured_at(self.last) - start) / 60
                self.wrong += self.books.check(self.last)
                exporter.disturb(turn)
                turn += 1
                if minute >= len(self.looks) * self._minutes / LOOKS:
                    self.looks.append(exporter.look(minute, self.last))
                shown.say(f"minute {minute:.0f} of {self._minutes:g}: {len(self.wrong)} faults")
                time.sleep(max(begun + turn * SCRAPE_S / self._speed - time.monotonic(), 0))

    def report(self) -> str:
        """What was found, as Markdown."""
        assert self.last is not None
        figures = {
            name: self.last.value(f"mgpu_exporter_{name}") or 0.0
            for name in ("cycles_total", "cycle_overruns_total")
        }
        pods = {labels for name, labels in self.books.seen if name == "mgpu_pod_core_seconds_total"}
        return (
            f"{self._minutes:g} minutes of the node at {self._speed:g} times the speed: "
            f"{figures['cycles_total']:,.0f} cycles ({figures['cycle_overruns_total']:,.0f} late), "
            f"{len(pods):,} pods, {len(self.books.seen):,} counters, {self.books.pages:,} scrapes "
            f"({self.books.whole_pages:,} with nothing withheld); "
            f"{len(self.wrong)} counters fell or books did not balance.\n\n"
            f"{table(grown(self.looks), judged=self._minutes >= LEAST_MINUTES)}\n"
        )


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 if anything leaks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=60.0,
        help=f"of the node's life; growth is judged from {LEAST_MINUTES} minutes on",
    )
    parser.add_argument("--speed", type=float, default=20.0, help="times as fast")
    parser.add_argument("--write", action="store_true", help="write it to results.md")
    options = parser.parse_args(arguments)
    soak = Soak(options.minutes, options.speed)
    with (
        tempfile.TemporaryDirectory() as folder,
        Exporter(options.speed, Path(folder)) as exporter,
    ):
        soak.run(exporter)
    text = soak.report()
    print(text)
    print("\n".join(soak.wrong[:MAX_SAID]))
    if options.write:
        head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    leaks = [one.name for one in grown(soak.looks) if one.leaks]
    if options.minutes < LEAST_MINUTES:
        print(f"growth is not judged: a run of at least {LEAST_MINUTES} minutes is needed")
        return 1 if soak.wrong else 0
    print(f"compared from {WARM:.0%} of the run on; leaks: {', '.join(leaks) or 'none'}")
    return 1 if leaks or soak.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
