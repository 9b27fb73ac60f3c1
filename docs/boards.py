"""Takes the pictures of the dashboards: ``python -m docs.boards URL [QUERY]``.

URL is a Grafana that has the dashboards and lets one in without a password; the project has none.
QUERY is added to each address, such as ``var-datasource=uid-of-the-prometheus`` or ``from`` and
``to``. What is seen is
what that Grafana's Prometheus has: for the pictures in ``docs/pictures``, simulated nodes. Needs
Chromium.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.agent.web.browser import browsing

FOLDER = Path(__file__).parent / "pictures"
WIDTH = 1366
# File: board, height in pixels, dark, and what is chosen on it.
PICTURES = {
    "overview.png": ("mgpu-overview", 1400, False, ""),
    "overview-dark.png": ("mgpu-overview", 1400, True, ""),
    "node.png": ("mgpu-node", 2055, False, "&var-node=gpu-node-2"),
    "pod.png": ("mgpu-pod", 1280, False, "&var-node=gpu-node-1&var-namespace=inference"),
}
# A chart, or a table's cell: the first screen of the overview has no chart.
DRAWN = "document.querySelector('.react-grid-item :is(canvas, [role=cell], [role=gridcell])')"
ASKED = "!document.querySelector('[aria-label=\"Panel loading bar\"]')"  # nothing is asked any more
SETTLING = 8.0  # seconds, in which tables and charts take their sizes


async def photograph(url: str, query: str, name: str) -> None:
    """One picture."""
    board, height, dark, chosen = PICTURES[name]
    theme = "dark" if dark else "light"
    async with browsing() as tab:
        await tab.size(WIDTH, height, dark=dark)
        span = "" if "&from=" in query else "&from=now-15m&to=now"
        await tab.open(f"{url}/d/{board}?orgId=1&theme={theme}{span}{chosen}{query}")
        await tab.until(DRAWN)
        await tab.until(ASKED)
        await asyncio.sleep(SETTLING)
        await tab.until(ASKED)  # a board asks again each 30 s
        await tab.picture(FOLDER / name, whole=False)


def main(arguments: Sequence[str]) -> int:
    """Take all pictures from the Grafana that is named."""
    if not arguments:
        print(__doc__)
        return 2
    url, query = arguments[0].rstrip("/"), "".join(f"&{one}" for one in arguments[1:])
    for name in PICTURES:
        asyncio.run(photograph(url, query, name))
        print(FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
