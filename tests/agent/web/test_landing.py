import base64
import hashlib
import re
from html import unescape

import pytest

from exporter import __version__
from exporter.agent.web.landing import CONTENT_SECURITY_POLICY, landing
from exporter.inputs.values import Address
from exporter.model import Snapshot, SourceStatus
from tests.agent.simulation.clock import SECOND
from tests.agent.web.serving import serving

HOSTILE = "<script>alert('x')</script>\"&"
SOURCES = (
    SourceStatus("nvml", up=False, detail="no driver"),
    SourceStatus("cgroups", up=True),
    SourceStatus(HOSTILE, up=False, detail=HOSTILE),
)


def test_it_says_what_it_is_where_the_metrics_are_and_which_sources_are_up() -> None:
    page = landing(Snapshot(version=1, sources=SOURCES), SECOND // 2, "/other")

    assert f"Version {__version__}. Measured 0.5 s ago." in page
    assert '<a href="/other">' in page
    assert 'name="viewport"' in page
    assert "<td>nvml</td><td>down</td>" in page
    assert "<td>cgroups</td><td>up</td>" in page
    assert "no driver" not in page  # it may name something
    assert unescape(page).count(HOSTILE) == 1
    assert not re.search(r"<script|style=|\son\w+=|https?://", page)


@pytest.mark.parametrize(
    ("snapshot", "age_ns", "words"),
    [
        (Snapshot(), 0, "The first collection cycle is not done yet."),
        (Snapshot(version=1), 11 * SECOND, "Nothing has been measured for 11 s"),
        (Snapshot(simulated=True), 0, "SIMULATED NODE"),
    ],
)
def test_it_says_when_nothing_is_measured(snapshot: Snapshot, age_ns: int, words: str) -> None:
    assert words in landing(snapshot, age_ns, "/metrics")
    assert words not in landing(Snapshot(version=1), 0, "/metrics")


def test_the_policy_permits_the_pages_style_and_nothing_else() -> None:
    with serving(Snapshot(sources=SOURCES), address=Address("0.0.0.0", 0)) as site:  # noqa: S104
        got = site.ask("/")
    [style] = re.findall(r"<style>(.*?)</style>", got.body.decode(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert got.headers["Content-Type"] == "text/html; charset=utf-8"
    assert got.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert f"style-src 'sha256-{digest}'" in CONTENT_SECURITY_POLICY
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none';")
