"""The command ``record``: runs the cycle and writes what the sources returned."""

import logging
import os
import platform
import secrets
import signal
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import BinaryIO, Literal

from exporter import __version__
from exporter.agent.collector import FIRST_LIST_S, Collector, Sources
from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.recording.boardrecording import BoardMask, boards_only
from exporter.agent.recording.pseudonyms import Pseudonyms
from exporter.agent.recording.recordedcycle import FORMAT, Cycle, Head
from exporter.agent.recording.recordedsettings import disguised, recordable
from exporter.agent.recording.recorder import Recorder
from exporter.agent.recording.recordingfile import RecordingError, RecordingWriter, digest
from exporter.agent.settings import Settings
from exporter.agent.simulation import ScenarioError
from exporter.agent.sources.gpus.gpusource import RestartRequiredError
from exporter.console.commandline import argument
from exporter.console.output import OutputError, binary, warn
from exporter.console.progress import progress
from exporter.inputs.valuekinds import duration
from exporter.inputs.values import count
from exporter.metrics.families import families_without
from exporter.metrics.text import Format, Renderer
from exporter.model import SECOND_NS, Clock, Snapshot

logger = logging.getLogger(__name__)

STDOUT = "-"
SHARED = "board.rec.gz"
TEMPLATE = 'the template "A board for the atlas" (.github/ISSUE_TEMPLATE/board.yml)'


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    group = parser.add_argument_group("recording")
    group.add_argument(
        "--output",
        metavar="FILE",
        help=f"the file to write; {STDOUT} is standard output; with --share it has a default",
    )
    group.add_argument("--force", action="store_true", help="replace an existing file")
    group.add_argument(
        "--duration",
        metavar="TIME",
        type=argument(duration("1s", "24h")),
        default="60s",
        help="how long to record; a signal ends it earlier [default 60s]",
    )
    group.add_argument(
        "--max-bytes",
        metavar="N",
        type=argument(count(4096, 999_999_999_999)),
        default="16000000",
        help="file size at which the recording ends [default 16000000]",
    )
    group.add_argument(
        "--anonymise",
        action="store_true",
        help="replace names and ids by pseudonyms, and leave out free text",
    )
    group.add_argument(
        "--share",
        action="store_true",
        help="record the boards alone, masked, for the project's collection of real boards; say "
        "what is in the file and where to send it",
    )


def record(settings: Settings, arguments: Namespace) -> int:
    """Record until the time ends, the file is full or a signal comes. Returns the exit status."""
    arguments.output = arguments.output or (SHARED if arguments.share else "")
    if not arguments.output:
        logger.error("--output FILE is missing; it may be left out with --share only")
        return 2
    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # A signal ends the recording as its time does: what was recorded so far is a whole file.
        signal.signal(number, lambda *_: stop.set())
    try:
        with ExitStack() as stack:
            sources = open_sources(settings)
            opened = sources.all
            # All that were opened, also those that a shared recording leaves out below.
            for source in opened:
                stack.callback(source.close)
            sources = boards_only(sources) if arguments.share else sources
            # The key is this recording's own, and nobody keeps it: two cannot be joined by it.
            names = Pseudonyms(secrets.token_bytes(32)) if arguments.anonymise else None
            # A shared file shows a board to everybody: no name of the node, its pods or its users
            # is in it.
            names = BoardMask() if arguments.share else names
            session = Session(settings, sources, time, names)
            # After the sources: where one cannot be opened, no empty file is left.
            file = stack.enter_context(_opened(arguments.output, session, force=arguments.force))
            logger.info("%s", _intent(session.head, arguments))
            for listener in sources.listening:
                listener.start()
            writer = RecordingWriter(file, arguments.max_bytes, session.head)
            session.run(writer, arguments.duration, stop)
    except FileExistsError:
        logger.error("%s already exists; --force replaces it", arguments.output)  # noqa: TRY400 - the message says it all
        return 1
    except OSError as error:
        if arguments.output == STDOUT:
            raise OutputError(error) from None
        advice = "; make its folder first" if isinstance(error, FileNotFoundError) else ""
        logger.error("cannot write %s: %s%s", arguments.output, error.strerror, advice)  # noqa: TRY400 - as above
        return 1
    except (ScenarioError, RecordingError) as error:
        logger.error("%s", error)  # noqa: TRY400 - as above
        return 1
    return _ended(arguments, session, writer)


def _ended(arguments: Namespace, session: "Session", writer: RecordingWriter) -> int:
    """Say what is in the file. Returns the exit status."""
    logger.info("recorded %d cycles in %d bytes", writer.cycles, writer.bytes)
    if not session.read:
        logger.error("no GPU was read: %s", session.why)
    elif arguments.share:
        warn(_contents(arguments.output, session.collector.snapshot).rstrip())
    return 0 if session.read else 1


def _contents(path: str, snapshot: Snapshot) -> str:
    """What a shared file holds, and where to send it."""
    boards = Counter(
        f"{device.model or device.vendor}, driver {device.driver_version or 'unknown'}"
        for device in (facts.device for facts in snapshot.facts.devices)
    )
    listed = "".join(f"  {count} x {board}\n" for board, count in sorted(boards.items()))
    return (
        f"{path} holds, second by second:\n{listed}"
        "  the driver's samples and process rows as they came, the windows and shares made of\n"
        "  them, memory, sensors, and what the driver refuses\n"
        "It holds no names, no host, no pods, no paths, no serials and no PCI addresses. Process\n"
        "ids are counted from 1001 on, ids of devices are pseudonyms. Look for yourself: zcat.\n"
        f"To add the board to the atlas, attach the file to an issue: {TEMPLATE}\n"
    )


def _intent(head: Head, arguments: Namespace) -> str:
    """A log message: what is recorded, and where."""
    gpus = ", ".join(head.gpus)
    names = "pseudonyms" if head.disguised else "the names of this node's pods"
    where = "standard output" if arguments.output == STDOUT else arguments.output
    seconds = arguments.duration / SECOND_NS
    return (
        f"recording GPUs by {gpus}, processes by {head.processes}, pods by {head.pods}, with "
        f"{names}, for {seconds:g} s into {where}"
    )


@contextmanager
def _opened(path: str, session: "Session", *, force: bool) -> Iterator[BinaryIO]:
    """The file, readable by its owner only, because it names the node's pods.

    A new one in which no GPU was read is removed, so that it does not refuse the next try.
    """
    if path == STDOUT:
        yield binary()
        return
    mode: Literal["wb", "xb"] = "wb" if force else "xb"
    # The mode is given as the file is made: changed afterwards, others could open it in between.
    with open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        try:
            yield file
        finally:
            if not (force or session.read):
                Path(path).unlink(missing_ok=True)


class Stop:
    """A flag that a signal handler sets, and that the interrupted thread waits for.

    A ``threading.Event`` can hang here: ``set`` takes the lock that the interrupted ``wait`` may
    hold. ``SimpleQueue.put`` may be called at any moment.
    """

    def __init__(self) -> None:
        self._orders: SimpleQueue[None] = SimpleQueue()
        self._is_set = False

    def set(self) -> None:
        """Set the flag and end the wait."""
        self._is_set = True
        self._orders.put(None)

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._is_set

    def wait(self, timeout_s: float) -> None:
        """Wait until the flag is set, or for ``timeout_s``."""
        if not self._is_set:
            with suppress(Empty):
                self._orders.get(timeout=max(timeout_s, 0))


class Session:
    """A collector over recorded sources. ``names``: what replaces names in the recording.

    ``read``: whether any device was read in any cycle; ``why`` is the reason if not.
    """

    def __init__(
        self,
        settings: Settings,
        sources: Sources,
        clock: Clock,
        names: Pseudonyms | None = None,
    ) -> None:
        self.read = False
        self.why = "the first cycle was not done"
        # The cycle has these, too: a replay knows no others, and has to make the same pages.
        settings = disguised(settings) if names else settings
        self._recorder = Recorder(sources, clock, names)
        self._interval_ns = settings.collection_interval_ns
        self._clock = clock
        self._renderer = Renderer(families_without(settings.metrics_left_out))
        self.collector: Collector = make_collector(
            settings, self._recorder.sources, self._recorder.clock
        )
        self.head = Head(
            mgpu_recording=FORMAT,
            version=__version__,
            python=platform.python_version(),
            gpus=tuple(source.name for source in sources.gpus),
            processes=sources.processes.name,
            pods=sources.pods.name,
            nodes=tuple(source.name for source in sources.nodes),
            settings=recordable(settings),
            disguised=names is not None,
            groups=tuple(source.name for source in sources.groups),
        )

    def cycle(self) -> Cycle:
        """Do one cycle, even if something fails, and return what the sources returned in it."""
        # A cycle that fails has no page. Its replay is then compared with none.
        page = ""
        self._recorder.begin()
        try:
            page = digest(self._renderer.render(self.collector.cycle(), Format.TEXT))
        except RestartRequiredError:
            raise
        except Exception:
            logger.exception("the cycle failed; the next one starts again")
        snapshot = self.collector.snapshot
        self.read = self.read or any(device.is_up for device in snapshot.facts.devices)
        gpus = (source for source in snapshot.sources if source.name in self.head.gpus)
        self.why = "; ".join(filter(None, (source.detail for source in gpus))) or "no device is up"
        return self._recorder.finish(page)

    def run(self, writer: RecordingWriter, length_ns: int, stop: Stop) -> None:
        """Cycle at the interval for this time, until ``stop`` is set or only a restart helps."""
        # As the collector itself does: use of the first cycle would else be under pods' ids.
        self._recorder.sources.pods.wait(FIRST_LIST_S)
        begun_ns = due_ns = self._clock.monotonic_ns()
        with progress() as shown:
            while not stop.is_set() and due_ns - begun_ns < length_ns:
                try:
                    cycle = self.cycle()
                except RestartRequiredError as error:
                    logger.error("%s", error)  # noqa: TRY400 - the message says it all
                    # The cycle that failed is written too, so that a replay has the same error.
                    writer.write(self._recorder.finish())
                    break
                if not writer.write(cycle):
                    said = "the file is full after %d cycles; see --max-bytes"
                    logger.warning(said, writer.cycles)
                    break
                now_ns = self._clock.monotonic_ns()
                # A cycle that took longer than the interval delays the next; none is made up for.
                due_ns = max(due_ns + self._interval_ns, now_ns)
                done = f"{(now_ns - begun_ns) / SECOND_NS:.0f} of {length_ns / SECOND_NS:g} s"
                shown.say(f"{done}: {writer.cycles} cycles, {writer.bytes} bytes")
                stop.wait((due_ns - now_ns) / 1e9)
        writer.end()
