"""The landing page, for clients that may not see the live page. Pure; all text is escaped."""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape

from exporter import __version__
from exporter.model import Snapshot, SourceStatus

_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 46rem; padding: 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent);
  padding: .3rem .6rem .3rem 0; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
.banner { border: 2px solid; font-weight: bold; padding: .5rem; text-align: center; }
a:focus-visible { outline: 2px solid; }
"""

_DIGEST = b64encode(sha256(_STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def landing(snapshot: Snapshot, age_ns: int, metrics_path: str) -> str:
    """The page as HTML: what this is, where the metrics are, which sources are up.

    The reason why a source is down is left out, because it may name servers and paths.
    """
    banner = (
        '<p class="banner">SIMULATED NODE: nothing here is measured</p>'
        if snapshot.simulated
        else ""
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>mgpu-exporter</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>mgpu-exporter</h1>
<p>Shows how much of each GPU every container uses, compared with its allocation.</p>
{banner}
<p>Version {escape(__version__)}. {_freshness(snapshot, age_ns)}</p>
<ul>
<li><a href="{escape(metrics_path)}">Metrics</a></li>
<li><a href="/-/healthy">Health</a></li>
<li><a href="/-/ready">Readiness</a></li>
</ul>
<p>The live page and the JSON need authentication (<code>--web.config.file</code>,
<code>--web.kubernetes-access</code>), a listener on a
loopback address (<code>--web.listen-address=127.0.0.1:10045</code>), or
<code>--web.open-page</code>.</p>
<h2>Sources</h2>
{_table(snapshot.sources)}
</body>
</html>
"""


def _freshness(snapshot: Snapshot, age_ns: int) -> str:
    seconds = age_ns / 1e9
    if age_ns > snapshot.stale_after_ns:
        return f"Nothing has been measured for {seconds:.0f} s; no stale values are served."
    if not snapshot.version:
        return "The first collection cycle is not done yet."
    return f"Measured {seconds:.1f} s ago."


def _table(sources: Iterable[SourceStatus]) -> str:
    rows = "\n".join(
        f"<tr><td>{escape(source.name)}</td><td>{'up' if source.up else 'down'}</td></tr>"
        for source in sources
    )
    if not rows:
        return "<p>No source has been polled yet.</p>"
    head = "<tr><th>Source</th><th>State</th></tr>"
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
