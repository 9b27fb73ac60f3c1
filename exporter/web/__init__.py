"""The HTTP server: metrics, JSON, the live page, health checks and the landing page, on aiohttp.

This package serves the newest Snapshot. It never collects and never waits for a source. No other
package serves HTTP.
"""

from exporter.web.access import Access, Gate, Route
from exporter.web.app import make_app
from exporter.web.connection import ClientLimits
from exporter.web.health import CollectorState, Reload
from exporter.web.listening import BindError, listen
from exporter.web.pages import Pages
from exporter.web.server import HttpServer
from exporter.web.verdicts import Reviewer, ReviewLimits, Verdicts
from exporter.web.webconfig import WebConfig
from exporter.web.webfile import WebFileError

__all__ = [
    "Access",
    "BindError",
    "ClientLimits",
    "CollectorState",
    "Gate",
    "HttpServer",
    "Pages",
    "Reload",
    "ReviewLimits",
    "Reviewer",
    "Route",
    "Verdicts",
    "WebConfig",
    "WebFileError",
    "listen",
    "make_app",
]
