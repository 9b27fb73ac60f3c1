"""The HTTP server: metrics, JSON, the live page, health checks and the landing page, on aiohttp.

This package serves the newest Snapshot. It never collects and never waits for a source. No other
package serves HTTP.
"""

from exporter.agent.web.access import Access, Gate, Route
from exporter.agent.web.app import make_app
from exporter.agent.web.connection import ClientLimits
from exporter.agent.web.health import CollectorState, Reload
from exporter.agent.web.listening import BindError, listen
from exporter.agent.web.pages import Pages
from exporter.agent.web.server import HttpServer
from exporter.agent.web.verdicts import Reviewer, ReviewLimits, Verdicts
from exporter.agent.web.webconfig import WebConfig
from exporter.agent.web.webfile import WebFileError

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
