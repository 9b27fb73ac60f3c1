"""The landing page, for clients that may not see the live page. Pure."""

from base64 import b64encode
from hashlib import sha256

from exporter import __version__
from exporter.agent.web.page.templates import written
from exporter.model import Snapshot

STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 46rem; padding: 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent);
  padding: .3rem .6rem .3rem 0; text-align: left; vertical-align: top; }
td + td { overflow-wrap: anywhere; }
.banner { border: 2px solid; font-weight: bold; padding: .5rem; text-align: center; }
a:focus-visible { outline: 2px solid; }
h2 { font-size: 1.1rem; }
code { font-size: .9em; }
pre { border: 1px solid color-mix(in srgb, currentColor 25%, transparent); border-radius: .3rem;
  overflow-wrap: anywhere; padding: .5rem .7rem; user-select: all; white-space: pre-wrap; }
"""

_DIGEST = b64encode(sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def landing(snapshot: Snapshot, age_ns: int, metrics_path: str) -> str:
    """The page as HTML: what this is, where the metrics are, which sources are up."""
    return written(
        "landing",
        snapshot=snapshot,
        version=__version__,
        freshness=_freshness(snapshot, age_ns),
        metrics=metrics_path,
        style=STYLE,
    )


def _freshness(snapshot: Snapshot, age_ns: int) -> str:
    seconds = age_ns / 1e9
    if age_ns > snapshot.stale_after_ns:
        return f"Nothing has been measured for {seconds:.0f} s; no stale values are served."
    if not snapshot.version:
        return "The first collection cycle is not done yet."
    return f"Measured {seconds + snapshot.figures_age_ns / 1e9:.1f} s ago."
