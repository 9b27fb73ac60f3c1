"""The HTTP side: metrics, health and the landing page, on aiohttp.

This room only serves what the newest Snapshot holds. It never collects, never waits for a source,
and is the only one that speaks HTTP to the outside.
"""

from exporter.web.app import Limits, make_app
from exporter.web.health import Health
from exporter.web.pages import Pages
from exporter.web.server import BindError, Server, listen

__all__ = ["BindError", "Health", "Limits", "Pages", "Server", "listen", "make_app"]
