"""The command ``replay``: runs the cycle over a recording and prints the resulting page."""

import logging
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from dataclasses import replace

from exporter.agent.collector import Collector
from exporter.agent.collector.cyclerules import rules_of
from exporter.agent.collector.wiring import make_collector
from exporter.agent.recording.player import Player
from exporter.agent.recording.recordedcycle import Head
from exporter.agent.recording.recordedsettings import restored
from exporter.agent.recording.recordingfile import RecordingError, RecordingReader, digest
from exporter.agent.settings import Settings
from exporter.agent.sources.gpus.gpusource import RestartRequiredError
from exporter.console.output import say
from exporter.console.progress import progress
from exporter.metrics.families import families_without
from exporter.metrics.text import Format, Renderer
from exporter.model import Snapshot

logger = logging.getLogger(__name__)

LAST, EACH = "last", "each"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own arguments."""
    group = parser.add_argument_group("recording")
    group.add_argument("file", metavar="FILE", help="a file that record has written")
    group.add_argument(
        "--format",
        choices=[form.value for form in Format],
        default=Format.TEXT.value,
        help="the page's text format [default text]",
    )
    group.add_argument(
        "--cycle",
        metavar="N",
        type=_which,
        default=LAST,
        help=f"print the page after this cycle: a number from 1, {LAST} or {EACH} [default last]",
    )


def _which(text: str) -> str:
    if text in {LAST, EACH} or (text.isascii() and text.isdecimal() and int(text) > 0):
        return text
    raise ArgumentTypeError(f"{text!r} is not a number from 1, {LAST} or {EACH}")


def replay(_: Settings, arguments: Namespace) -> int:
    """Print the page. The exit status is 0 unless the recording cannot be used."""
    try:
        with RecordingReader(arguments.file) as reader:
            run = Replay(reader)
            form = Format(arguments.format)
            # The renderer leaves the end to its caller, who may have more to add.
            end = b"# EOF\n" if form is Format.OPENMETRICS else b""
            renderer = run.renderer()
            newest: Snapshot | None = None
            with progress() as shown:
                for newest in run.snapshots():
                    if arguments.cycle == EACH:
                        say(f"# cycle {run.cycles}\n")
                    if arguments.cycle in {EACH, str(run.cycles)}:
                        say((renderer.render(newest, form) + end).decode())
                    shown.say(f"cycle {run.cycles}")
            if arguments.cycle == LAST and newest is not None:
                say((renderer.render(newest, form) + end).decode())
            if reader.broken_off:
                logger.warning("%s is cut off; what precedes that was replayed", arguments.file)
            if run.cycles == 0:
                logger.error("the recording has no whole cycle, so no page is printed")
                return 1
            logger.info("%s", run.verdict)
            if arguments.cycle not in {LAST, EACH} and int(arguments.cycle) > run.cycles:
                logger.error(
                    "cycle %s is not in the recording, which has %d", arguments.cycle, run.cycles
                )
                return 1
            return 0
    except RecordingError as error:
        logger.error("%s", error)  # noqa: TRY400 - the message says it all
        return 1


class Replay:
    """Runs the cycle over a recording's sources. ``cycles`` counts the finished ones.

    Raises:
        RecordingError: its settings, or its sharing systems, do not fit this version.

    """

    def __init__(self, reader: RecordingReader) -> None:
        self.cycles = 0
        self._reader = reader
        self._head = reader.head
        self._player = Player(reader.head)
        try:
            self._settings = restored(reader.head.settings)
        except ValueError as error:
            raise RecordingError(f"its settings do not fit this version: {error}") from error
        try:
            # For its error only. The first cycle makes them again, and nobody catches a ValueError
            # there.
            rules_of(self._settings)
        except ValueError as error:
            raise RecordingError(f"its sharing systems do not fit this version: {error}") from error
        self._collector: Collector | None = None
        self._renderer = self.renderer()
        self._differing: list[int] = []

    def renderer(self) -> Renderer:
        """A renderer of the pages that the recorded exporter served."""
        return Renderer(families_without(self._settings.metrics_left_out))

    def snapshots(self) -> Iterator[Snapshot]:
        """The Snapshot after each cycle; after a failed cycle it is the previous one."""
        for cycle in self._reader.cycles():
            self.cycles += 1
            self._player.turn_to(cycle)
            # It is made at the first recorded moment, because it reads the clock: pages say when it
            # began.
            if self._collector is None:
                sources, clock = self._player.sources, self._player.clock
                self._collector = make_collector(self._settings, sources, clock)
            try:
                self._collector.cycle()
            except RestartRequiredError as error:
                logger.warning("cycle %d: only a restart helps: %s", self.cycles, error)
            except Exception:
                logger.exception("cycle %d failed", self.cycles)
            snapshot = as_recorded(self._collector.snapshot, self._head)
            page = self._renderer.render(snapshot, Format.TEXT)
            # An older version may rightly have made another page. So this is counted, and no error.
            if cycle.page and digest(page) != cycle.page:
                self._differing.append(self.cycles)
            yield snapshot

    @property
    def verdict(self) -> str:
        """A sentence: whether the pages are those of the recording, byte for byte."""
        if not self._differing:
            return f"{self.cycles} cycles replayed; every page is as it was recorded"
        return (
            f"{self.cycles} cycles replayed; {len(self._differing)} pages are not as they were "
            f"recorded by version {self._head.version}, the first after cycle {self._differing[0]}"
        )


def as_recorded(snapshot: Snapshot, head: Head) -> Snapshot:
    """The Snapshot with the version of the recording exporter in place of this version."""
    if snapshot.exporter is None:
        return snapshot
    own = replace(snapshot.exporter, version=head.version, python=head.python)
    return replace(snapshot, exporter=own)
