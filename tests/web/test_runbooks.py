"""The runbooks, served as they are written."""

import re
from html import unescape

import pytest

from exporter.model import Snapshot
from exporter.web.runbooks import runbook, runbooks
from tests.rules.test_alerts import RUNBOOKS
from tests.web.serving import serving
from tests.web.test_access import EVERYWHERE


def shown(page: str) -> str:
    (text,) = re.findall(r"<pre>(.*)</pre>", page, re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", "", text))


def test_all_runbooks_are_served_with_all_their_words() -> None:
    assert {path.stem: path.read_text() for path in RUNBOOKS.glob("*.md")} == runbooks()
    for name, text in runbooks().items():
        words = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text).split()
        assert set(words) <= set(re.sub(r" \(docs/[^)]+\)", "", shown(str(runbook(name)))).split())


@pytest.mark.parametrize("name", ["", *runbooks()])
def test_their_links_lead_to_other_runbooks_and_to_no_other_machine(name: str) -> None:
    page = str(runbook(name))

    links = re.findall(r'href="([^"]+)"', page)
    assert set(links) <= {"../", "./", *runbooks()}  # relative, so that a proxy may add a path
    assert not re.search(r"<script|\ssrc=|https?://", page)


def test_whoever_sees_the_landing_page_reads_them_and_learns_no_name() -> None:
    with serving(Snapshot(), address=EVERYWHERE) as site:
        page = site.ask("/runbooks/MgpuGpuLost")
        all_of_them = site.ask("/runbooks/")
        none = [site.ask(f"/runbooks/{name}").status for name in ("Mgpu", "..%2freset", "a/b")]

    assert page.status == all_of_them.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"max_over_time(mgpu_container_processes{uuid=&#34;$UUID&#34;}[1h]) &gt; 0" in page.body
    assert b'<a href="reset">' in page.body
    assert all_of_them.body.count(b"<a href") == len(runbooks()) + 2
    assert none == [404, 404, 404]
