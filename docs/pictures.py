"""Makes the pictures of the documents: ``python docs/pictures.py [NAME …]``; without names, all.

Each is of the shipped simulated node after eleven minutes, which pass in seconds by a clock of its
own, so that a picture made again shows the same figures. Another kind of picture is another entry
of ``PICTURES``. Needs Chromium.
"""

import asyncio
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from exporter.api import About
from exporter.collector import Collector, Pulse
from exporter.model import Snapshot
from exporter.settings import Address, load
from exporter.web import Pages, Server, listen, make_app
from exporter.wiring import make_collector, open_sources

FOLDER = Path(__file__).parent / "pictures"
SECONDS = 660
START_NS = 1_767_225_600 * 10**9  # the first moment of 2026
SECOND = 10**9
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Clock:
    """A clock that moves when it is told to."""

    now_ns: int = START_NS

    def monotonic_ns(self) -> int:
        """The time set."""
        return self.now_ns

    def time_ns(self) -> int:
        """The time set."""
        return self.now_ns


@dataclass(frozen=True, slots=True)
class Shown:
    """What the web server asks of a collector."""

    snapshot: Snapshot
    pulse: Pulse


def simulated(clock: Clock) -> Collector:
    """The shipped scenario after eleven minutes."""
    settings = load({"simulate": ["demo"]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    for _ in range(SECONDS):
        clock.now_ns += SECOND
        collector.cycle()
    clock.now_ns += SECOND // 2
    return collector


async def photograph(
    snapshot: Snapshot, clock: Clock, file: Path, size: str, options: Sequence[str] = ()
) -> None:
    """Serve the snapshot and let a browser take a picture of its page."""
    settings = load({}, {})
    shown = Shown(snapshot, Pulse(clock.now_ns, 1))
    pages = Pages(lambda: snapshot, clock)
    about = About("gpu-node-1", settings.collection_window_ns)
    [sock] = listen([Address("127.0.0.1", 0)])
    server = Server(make_app(pages, shown, settings, clock, about=about))
    await server.start([sock])
    try:
        await browse(_url(sock), file, size, options)
    finally:
        await server.stop()


def _url(sock: socket.socket) -> str:
    return f"http://127.0.0.1:{sock.getsockname()[1]}/"


async def browse(url: str, file: Path, size: str, options: Sequence[str]) -> None:
    """Take a picture of a page."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise SystemExit(f"none of {', '.join(CHROMIUM)} was found")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = await asyncio.create_subprocess_exec(
            *(program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={profile}", f"--window-size={size}", "--virtual-time-budget=2500"),
            *(f"--screenshot={file}", *options, url),
            stderr=asyncio.subprocess.DEVNULL,
        )
        if await browser.wait():
            raise SystemExit(f"{program} made no picture")


def page(file: Path, size: str = "1440,1000", *options: str) -> None:
    """The live page."""
    clock = Clock()
    snapshot = simulated(clock).snapshot
    asyncio.run(photograph(replace(snapshot), clock, file, size, options))


PICTURES: dict[str, Callable[[Path], None]] = {
    "page.png": page,
}


def main(names: Sequence[str]) -> int:
    """Make these pictures, or all; 1 if there is none of a name."""
    unknown = set(names) - PICTURES.keys()
    if unknown:
        print(f"no such picture: {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
        return 1
    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        PICTURES[name](FOLDER / name)
        print(f"{FOLDER / name}: {(FOLDER / name).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
