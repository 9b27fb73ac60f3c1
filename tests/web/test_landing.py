import base64
import hashlib
import re
from html import unescape

import pytest

from exporter import __version__
from exporter.model import Snapshot, SourceStatus
from exporter.web.landing import CONTENT_SECURITY_POLICY, landing

SECOND = 10**9


def test_it_says_what_it_is_and_where_the_metrics_are() -> None:
    page = landing(Snapshot(version=1), SECOND // 2, "/other")

    assert f"Version {__version__}. Measured 0.5 s ago." in page
    assert '<a href="/other">' in page
    assert 'name="viewport"' in page


@pytest.mark.parametrize("simulated", [True, False])
def test_a_simulated_node_is_called_one(simulated: bool) -> None:  # noqa: FBT001 - a table
    page = landing(Snapshot(simulated=simulated), 0, "/metrics")

    assert ("SIMULATED NODE" in page) is simulated


def test_sources_stand_with_their_state_and_without_what_it_names() -> None:
    sources = (SourceStatus("nvml", up=False, detail="no driver"), SourceStatus("cgroups", up=True))

    page = landing(Snapshot(sources=sources), 0, "/metrics")

    assert "<td>nvml</td><td>down</td>" in page
    assert "<td>cgroups</td><td>up</td>" in page
    assert "no driver" not in page


@pytest.mark.parametrize(
    ("snapshot", "age_ns", "words"),
    [
        (Snapshot(), 0, "The first collection cycle is not done yet."),
        (Snapshot(version=1), 11 * SECOND, "Nothing has been measured for 11 s"),
    ],
)
def test_it_says_when_nothing_is_measured(snapshot: Snapshot, age_ns: int, words: str) -> None:
    assert words in landing(snapshot, age_ns, "/metrics")


def test_hostile_text_is_escaped() -> None:
    hostile = "<script>alert('x')</script>\"&"
    sources = (SourceStatus(hostile, up=False, detail=hostile),)
    page = landing(Snapshot(sources=sources), 0, "/m")

    assert "<script" not in page
    assert unescape(page).count(hostile) == 1


def test_the_policy_permits_the_pages_style_and_nothing_else() -> None:
    page = landing(Snapshot(), 0, "/metrics")
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert f"style-src 'sha256-{digest}'" in CONTENT_SECURITY_POLICY
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none';")
    assert not re.search(r"<script|style=|\son\w+=|https?://", page)
