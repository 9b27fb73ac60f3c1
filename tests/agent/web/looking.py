"""The live page of a snapshot in a tab of a browser, and another snapshot in its place."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from exporter.model import Snapshot
from tests.agent.web.browser import LIVE, Tab
from tests.agent.web.serving import Site

Watched = Callable[[Snapshot, Callable[[Tab, Site], Awaitable[None]]], None]


async def go(tab: Tab, site: Site, query: str = "") -> None:
    await tab.open(f"http://127.0.0.1:{site.port}/{query}")
    await tab.until(LIVE)


async def answered(tab: Tab, action: str) -> None:
    """Do something that makes the page ask the server, and wait until it shows the answer."""
    await tab.value(f"""new Promise((done) => {{
        const send = XMLHttpRequest.prototype.send;
        XMLHttpRequest.prototype.send = function () {{
            XMLHttpRequest.prototype.send = send;
            this.addEventListener('loadend', () => done());
            send.call(this);
        }};
        {action};
    }})""")


async def show(tab: Tab, site: Site, snapshot: Snapshot) -> None:
    """Let the page fetch another snapshot at once, as a tab does that comes to the front."""
    site.show(replace(snapshot, version=snapshot.version + 1000))
    await answered(tab, "document.dispatchEvent(new Event('visibilitychange'))")
