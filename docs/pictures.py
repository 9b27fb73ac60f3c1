"""Makes the pictures of the documents: ``python -m docs.pictures [NAME …]``; without names, all.

Each is of the shipped simulated node after eleven minutes, which pass in seconds by a clock of its
own, so that a picture made again shows the same figures. Another kind of picture is another entry
of ``PICTURES``. Needs Chromium.
"""

import asyncio
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from exporter.agent import api
from exporter.agent.api import About
from exporter.agent.collector import Collector, Pulse
from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.agent.web import HttpServer, Pages, listen, make_app
from exporter.answers.reading.feeds import FeedResult
from exporter.answers.reading.feeds.nodedocument import node_of_document
from exporter.answers.top.liveview import Top
from exporter.inputs.values import Address
from exporter.model import Snapshot
from tests.agent.web.browser import LIVE, browsing

FOLDER = Path(__file__).parent / "pictures"
SECONDS = 660
START_NS = 1_767_225_600 * 10**9  # the first moment of 2026
SECOND = 10**9
HOUR_S = 3700
WIDTH, HEIGHT = 1280, 1190
OPENED = "details.entry summary"  # the first pod, to show its container and process


@dataclass
class Clock:
    """A clock that moves only when a test moves it."""

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


def simulated(clock: Clock, seconds: int = SECONDS) -> Collector:
    """The shipped scenario after eleven minutes, or another time."""
    settings = load({"simulate": ["demo"]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    for _ in range(seconds):
        clock.now_ns += SECOND
        collector.cycle()
    clock.now_ns += SECOND // 2
    return collector


@dataclass(frozen=True, slots=True)
class View:
    """How the page is looked at. ``opened`` is what is clicked, ``shown`` what that shows."""

    width: int = WIDTH
    height: int = HEIGHT
    dark: bool = False
    query: str = ""
    opened: str = OPENED
    shown: str = "table.parts"


async def photograph(snapshot: Snapshot, clock: Clock, file: Path, view: View) -> None:
    """Serve the snapshot and let a browser take a picture of the page's first screen."""
    settings = load({}, {})
    pages = Pages(lambda: snapshot, clock)
    about = About("gpu-node-1", settings.collection_window_ns)
    shown = Shown(snapshot, Pulse(clock.now_ns, 1))
    [sock] = listen([Address("127.0.0.1", 0)])
    server = HttpServer(make_app(pages, shown, settings, clock, about=lambda: about))
    await server.start([sock])
    try:
        async with browsing() as tab:
            await tab.size(view.width, view.height, dark=view.dark)
            await tab.open(f"http://127.0.0.1:{sock.getsockname()[1]}/{view.query}")
            await tab.until(LIVE)
            await tab.value(f"document.querySelector('{view.opened}').click()")
            await tab.until(f"document.querySelector('{view.shown}')")
            await tab.picture(file, whole=False)
    finally:
        await server.stop()


def page(file: Path) -> None:
    """The live page."""
    clock = Clock()
    asyncio.run(photograph(simulated(clock).snapshot, clock, file, View()))


def dark_page(file: Path) -> None:
    """The same where the browser prefers it dark."""
    clock = Clock()
    asyncio.run(photograph(simulated(clock).snapshot, clock, file, View(dark=True)))


def phone(file: Path) -> None:
    """The same on a phone."""
    clock = Clock()
    view = View(390, 844, opened="h1", shown=".cards")
    asyncio.run(photograph(simulated(clock).snapshot, clock, file, view))


def hour(file: Path) -> None:
    """One pod and its last hour."""
    clock = Clock()
    view = View(1280, 1340, query="?q=transcode", opened=".entry .hour-of", shown="figure")
    snapshot = simulated(clock, HOUR_S).snapshot
    asyncio.run(photograph(snapshot, clock, file, view))


class Standing:
    """A feed of the terminal that always says the same."""

    name = "gpu-node-1"

    def __init__(self, snapshot: Snapshot) -> None:
        about = About(self.name, SECOND)
        document, history = api.snapshot(snapshot, about, 0), api.history(snapshot, about, 0)
        self._result = FeedResult([node_of_document(document, history)])

    def read(self) -> FeedResult:
        """The snapshot and its last minutes."""
        return self._result

    def close(self) -> None:
        """Nothing is held."""


async def draw(size: tuple[int, int], keys: Sequence[str], file: Path) -> None:
    """Let the live view of the terminal draw itself, and a browser take a picture of it."""
    app = Top(Standing(simulated(Clock()).snapshot), 1.0)
    async with app.run_test(size=size) as pilot:
        while not app.lines_shown:
            await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        drawing = app.export_screenshot(title="mgpu-exporter top")
    # Its own style sheet would fetch a font from elsewhere.
    drawing = re.sub(r"@font-face \{.*?\}", "", drawing, flags=re.DOTALL)
    drawing = drawing.replace("Fira Code", "DejaVu Sans Mono")
    found = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', drawing)
    assert found is not None  # noqa: S101 - a script
    page = f'<body style="margin:0">{drawing}</body>'
    async with browsing() as tab:
        await tab.size(math.ceil(float(found[1])), math.ceil(float(found[2])), dark=False)
        await tab.open(f"data:text/html;charset=utf-8,{quote(page)}")
        await tab.picture(file, whole=False)


def top(file: Path) -> None:
    """The live view of the terminal, sorted by use."""
    asyncio.run(draw((116, 34), ("c", "down", "down"), file))


def small_top(file: Path) -> None:
    """The same where a terminal has 80 columns and 24 rows."""
    asyncio.run(draw((80, 24), (), file))


PICTURES: dict[str, Callable[[Path], None]] = {
    "page.png": page,
    "page-dark.png": dark_page,
    "page-phone.png": phone,
    "page-hour.png": hour,
    "top.png": top,
    "top-small.png": small_top,
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
