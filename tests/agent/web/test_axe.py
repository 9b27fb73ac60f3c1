"""The live page under axe-core, which finds what readers without good eyes stumble over."""

import json
from collections.abc import Callable
from importlib.resources import files

import pytest

from exporter.model import Snapshot
from tests.agent.api.nodes import crowded, demo, failing, hostile
from tests.agent.web.browser import Tab
from tests.agent.web.looking import Watched, go
from tests.agent.web.serving import Site

pytestmark = [pytest.mark.program("chromium"), pytest.mark.slow]

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
VIOLATIONS = """axe.run(document, {resultTypes: ['violations']}).then((found) =>
    found.violations.flatMap((rule) => rule.nodes.slice(0, 3).map((node) =>
        `${rule.id}: ${rule.help}: ${node.html.slice(0, 200)}`)))"""
STILL = "{ const now = performance.now(); performance.now = () => now; }"  # axe holds up the page
EVERYTHING = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def of_slurm() -> Snapshot:
    """A node of Slurm jobs, containers and users, without pods."""
    return demo(61, "hpc")


def of_partitions() -> Snapshot:
    """A node of three vendors, boards in partitions among them."""
    return demo(60, "mixed")


async def violations(tab: Tab) -> list[str]:
    """What axe says against the page as it is now: rule, meaning, element."""
    said: list[str] = json.loads(await tab.value(f"{VIOLATIONS}.then(JSON.stringify)"))
    return said


@pytest.mark.parametrize(
    "made", [Snapshot, demo, of_slurm, of_partitions, failing, hostile, crowded]
)
def test_axe_finds_nothing_against_any_state_of_the_page(
    watched: Watched, made: Callable[[], Snapshot]
) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        await tab.value(AXE)
        await tab.value(STILL)
        for width, dark in ((1366, False), (1366, True), (375, False), (375, True)):
            await tab.size(width, dark=dark)
            assert await violations(tab) == [], (width, dark)
        await tab.value(EVERYTHING)
        assert await violations(tab) == [], "all open"

    watched(made(), look)


def test_axe_finds_what_is_wrong(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        await tab.value(AXE)
        await tab.value("document.documentElement.removeAttribute('lang')")
        assert any("html-has-lang" in said for said in await violations(tab))

    watched(demo(), look)


def test_axe_finds_nothing_where_the_exporter_does_not_answer(watched: Watched) -> None:
    async def look(tab: Tab, site: Site) -> None:
        await go(tab, site)
        await tab.value(AXE)
        site.clock.now_ns += 10**12
        await tab.value("document.dispatchEvent(new Event('visibilitychange'))")
        await tab.until("document.querySelector('[role=alert]')")
        assert await violations(tab) == []

    watched(demo(), look)
