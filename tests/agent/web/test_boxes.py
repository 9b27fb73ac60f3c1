"""On the page no text lies over another, at any width and in fonts of three families: in a browser.

The families are Debian's packages fonts-dejavu-core, fonts-liberation and fonts-roboto-unhinted.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.agent.api import About
from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.agent.web import HttpServer, Pages, listen, make_app
from exporter.inputs.values import Address
from tests.agent.simulation.clock import ManualClock
from tests.agent.web.browser import LIVE, Tab, browsing

ROOT = Path(__file__).parents[3]
SCENARIOS = {
    "demo": "demo",
    "hpc": "hpc",
    "mig": str(ROOT / "examples/demo/mig.yaml"),
    "trouble": str(ROOT / "examples/demo/trouble.yaml"),
}
WIDTHS = (320, 390, 500, 640, 1024, 1280, 1920)
# Of a plain Linux desktop; of Arial's widths; of Android.
FONTS = ("DejaVu Sans", "Liberation Sans", "Roboto")
SECONDS = 90
# The boxes of all lines of text that can be seen, cut by whatever cuts them; then those pairs that
# share more than two pixels each way. The short form of a name lies over its long one on purpose.
OVERLAPS = """
(() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const of = node.parentElement;
    if (!node.textContent.trim() || of.closest('.cut, .sr, .skip, .defs, .top, svg, script, style'))
      continue;
    if (!of.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      let [left, top, right, bottom] = [box.left, box.top, box.right, box.bottom];
      for (let up = of; up && up !== document.body; up = up.parentElement) {
        if (getComputedStyle(up).overflowX === 'visible') continue;
        const cut = up.getBoundingClientRect();
        left = Math.max(left, cut.left); right = Math.min(right, cut.right);
        top = Math.max(top, cut.top); bottom = Math.min(bottom, cut.bottom);
      }
      if (right - left > 1 && bottom - top > 1)
        found.push({left, top, right, bottom, node, text: node.textContent.trim().slice(0, 30)});
    }
  }
  found.sort((a, b) => a.top - b.top);
  const over = [];
  found.forEach((a, at) => {
    for (let next = at + 1; next < found.length && found[next].top < a.bottom; next++) {
      const b = found[next];
      if (a.node === b.node) continue; // one line, cut with an ellipsis, has two boxes
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - b.top;
      if (wide > 2 && high > 4) over.push(`${a.text} | ${b.text}: ${wide.toFixed(0)} px`);
    }
  });
  const beyond = document.documentElement.scrollWidth - innerWidth;
  if (beyond > 1) over.push(`the page is ${beyond} px wider than the window`);
  return over;
})()
"""
# A font that is not there has the widths of whichever stands after it.
IS_THERE = """
((font) => {
  const pen = document.createElement('canvas').getContext('2d');
  const wide = (after) => {
    pen.font = `50px "${font}", ${after}`;
    return pen.measureText('Core 12.5 % of iiii, WWWW').width;
  };
  return wide('serif') === wide('monospace');
})
"""


async def measured(tab: Tab, url: str, widths: Sequence[int]) -> dict[str, list[str]]:
    """What lies over what, by width and font; nothing is there where nothing does."""
    found: dict[str, list[str]] = {}
    await tab.size(1280)
    await tab.open(url)
    await tab.until(LIVE)
    await tab.value("document.querySelectorAll('details').forEach(each => each.open = true)")
    for font in FONTS:
        if not await tab.value(f"{IS_THERE}('{font}')"):
            pytest.skip(f"needs the font {font}")
        await tab.value(f"document.body.style.fontFamily = '{font}'")
        for width in widths:
            await tab.size(width)
            over: list[str] = await tab.value(OVERLAPS)
            if over:
                found[f"{width} px, {font}"] = over
    return found


async def look(scenario: str, pictures: Path | None = None) -> dict[str, list[str]]:
    """The page of a simulated node, measured at all widths; ``pictures``: the widths as files."""
    clock = ManualClock()
    settings = load({"simulate": [SCENARIOS[scenario]]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    for _ in range(SECONDS):
        collector.cycle()
        clock.move(1)
    pages = Pages(lambda: collector.snapshot, clock)
    about = About("gpu-node-1", settings.collection_window_ns)
    [sock] = listen([Address("127.0.0.1", 0)])
    server = HttpServer(make_app(pages, collector, settings, clock, about=lambda: about))
    await server.start([sock])
    try:
        async with browsing() as tab:
            found = await measured(tab, f"http://127.0.0.1:{sock.getsockname()[1]}/", WIDTHS)
            for width in WIDTHS if pictures else ():
                await tab.size(width, 1400)
                assert pictures is not None
                await tab.picture(pictures / f"{scenario}-{width}.png", whole=False)
            return found
    finally:
        await server.stop()


@pytest.mark.slow
@pytest.mark.program("chromium")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_text_lies_over_another(scenario: str) -> None:
    assert asyncio.run(look(scenario)) == {}
