"""The runbooks, served as pages."""

import asyncio
import re
from html import unescape
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from exporter.agent.web.access import Gate
from exporter.agent.web.markdown import Block, TextSpan, blocks
from exporter.agent.web.runbooks import routes, runbook, runbooks
from exporter.agent.web.webconfig import WebConfig
from exporter.model import Snapshot
from tests.agent.simulation.clock import ManualClock
from tests.agent.web.serving import serving
from tests.agent.web.test_access import EVERYWHERE
from tests.rules.test_alerts import RUNBOOKS


def page_of(name: str, **query: str) -> str:
    page = runbook(name, query)
    assert page is not None
    return page


def words_of(page: str) -> str:
    _, _, body = page.partition("<body>")
    return unescape(re.sub(r"<[^>]+>", " ", body))


def bare(text: str) -> str:
    """A runbook without its marks."""
    text = re.sub(r"^```\w*$|^#+ |^- |^\|[-|]+\|$", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text).replace("`", " ").replace("**", " ")


def test_all_runbooks_are_served_with_all_their_words_and_no_mark() -> None:
    assert {path.stem: path.read_text() for path in RUNBOOKS.glob("*.md")} == runbooks()
    for name, text in runbooks().items():
        shown = words_of(page_of(name))
        assert set(re.findall(r"\w+", bare(text))) <= set(re.findall(r"\w+", shown)), name
        assert not re.search(r"`|\*\*|\]\(|^#|\|-", shown, re.MULTILINE), name


@pytest.mark.parametrize("name", runbooks())
def test_each_block_of_code_stands_alone_as_it_is_typed(name: str) -> None:
    code = re.findall(r"^```\w*\n(.*?)\n```$", runbooks()[name], re.MULTILINE | re.DOTALL)
    shown = re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", page_of(name), re.DOTALL)
    assert [unescape(one) for one in shown] == code


@pytest.mark.parametrize("name", ["", *runbooks()])
def test_their_links_lead_to_other_runbooks_and_to_no_other_machine(name: str) -> None:
    page = page_of(name)

    links = re.findall(r'href="([^"]+)"', page)
    assert set(links) <= {"../", "./", *runbooks()}  # relative, so that a proxy may add a path
    assert not re.search(r"<script|\ssrc=|https?://", re.sub(r"(?s)<code>.*?</code>", "", page))


def test_a_text_is_read_as_its_blocks() -> None:
    text = "# A\n\nSee [it](b.md),\nor `x`, **now**.\n\n- one\n- two\n  more\n\n"
    text += "| a | b\\|c |\n|---|---|\n| 1 | 2 |\n\n```sh\na\n\n  b <c>\n```\n2. then\n"

    assert list(blocks(text)) == [
        Block("h1", [[[TextSpan("A")]]]),
        Block(
            "p",
            [
                [
                    [
                        *(TextSpan("See "), TextSpan("it", "link", "b.md"), TextSpan(", or ")),
                        *(
                            TextSpan("x", "code"),
                            TextSpan(", "),
                            TextSpan("now", "strong"),
                            TextSpan("."),
                        ),
                    ]
                ]
            ],
        ),
        Block("ul", [[[TextSpan("one")]], [[TextSpan("two more")]]]),
        Block(
            "table", [[[TextSpan("a")], [TextSpan("b\\|c")]], [[TextSpan("1")], [TextSpan("2")]]]
        ),
        Block("pre", code="a\n\n  b <c>"),
        Block("p", [[[TextSpan("2. then")]]]),
    ]


def test_what_the_address_says_stands_in_the_commands_and_goes_on_with_the_links() -> None:
    page = page_of("MgpuGpuLost", node="gpu-node-1", uuid="GPU-5dda2825")

    assert "spec.nodeName=gpu-node-1)" in page
    assert 'sort_desc(mgpu_device_xid_last_timestamp_seconds{uuid="GPU-5dda2825"})' in unescape(
        page
    )
    assert "$NODE" not in page
    assert "$UUID" not in page
    assert "$EXPORTER" in page
    assert 'href="on-the-node?node=gpu-node-1&amp;uuid=GPU-5dda2825"' in page
    assert "For node gpu-node-1, uuid GPU-5dda2825" in page


@pytest.mark.parametrize("name", ["MgpuExporterStale", "MgpuExporterOverrun", "on-the-node"])
def test_the_names_of_an_installation_stand_in_the_commands(name: str) -> None:
    other = {"exporters": "gpus", "app": "dcgm-exporter", "daemonset": "nvidia-dcgm-exporter"}
    page = unescape(page_of(name, **other))

    assert "kubectl -n gpus " in page
    assert "name=dcgm-exporter " in page
    assert "mgpu-exporter get" not in page
    assert ("account:gpus:nvidia-dcgm-exporter" in page) == (name == "MgpuExporterStale")
    assert ('pod=~"nvidia-dcgm-exporter.*"' in page) == (name == "MgpuExporterOverrun")
    links = re.findall(r'href="([a-zA-Z-]+\?[^"]+)"', page)
    assert all("exporters=gpus" in link for link in links)


@pytest.mark.parametrize(("asked", "named"), [("", "gpus"), ("?exporters=others", "others")])
def test_in_a_pod_the_commands_are_about_its_own_namespace(
    asked: str, named: str, tmp_path: Path
) -> None:
    (tmp_path / "namespace").write_text("gpus")
    [route] = routes(Gate(WebConfig(), ManualClock()), service_account=tmp_path)
    request = make_mocked_request("GET", f"/runbooks/{asked}", match_info={"name": "on-the-node"})

    async def asking() -> web.StreamResponse:
        return await route.handler(request)

    answer = asyncio.run(asking())

    assert isinstance(answer, web.Response)
    page = unescape(str(answer.text))
    assert f"kubectl -n {named} " in page
    assert "-n mgpu-exporter" not in page


def test_the_books_that_do_not_balance_are_asked_for_by_their_own_quantity() -> None:
    page = unescape(page_of("MgpuBooksOutOfBalance", instance="n1", quantity="energy"))
    assert 'device_unattributed)_(energy)_(seconds|joules)_total",instance="n1"' in page


@pytest.mark.parametrize("name", sorted(runbooks()))
def test_what_the_variables_are_is_said_only_while_they_stand_there(name: str) -> None:
    legend = "Alert labels:"

    assert legend in page_of(name) or "$" not in runbooks()[name].partition("## ")[0]
    assert legend not in page_of(name, node="gpu-node-1")
    assert "<h2>" in page_of(name, node="gpu-node-1") or "<table>" in page_of(name)


@pytest.mark.parametrize(
    "value",
    ["$(reboot)", "a;b", "a b", "`x`", "-n", "<b>", 'a"b', "", "a" * 300, "a\nb", "\u202ea", "é"],
)
def test_what_is_not_a_name_is_left_out_of_what_people_copy(value: str) -> None:
    assert page_of("MgpuGpuLost", node=value, uuid=value) == page_of("MgpuGpuLost")


def test_whoever_sees_the_landing_page_reads_them_and_learns_no_name() -> None:
    with serving(Snapshot(), address=EVERYWHERE) as site:
        page = site.ask("/runbooks/MgpuGpuLost")
        filled = site.ask("/runbooks/MgpuGpuLost?node=n1&node=%3Cb%3E")
        all_of_them = site.ask("/runbooks/")
        none = [site.ask(f"/runbooks/{name}").status for name in ("Mgpu", "..%2freset", "a/b")]

    assert page.status == filled.status == all_of_them.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "script-src" not in page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert b"gpu=&#34;$GPU&#34;}[1h]) &gt; 0)" in page.body
    assert b'<a href="reset">' in page.body
    assert b"nodeName=n1)" in filled.body
    assert all_of_them.body.count(b"<a href") == len(runbooks()) + 2
    assert none == [404, 404, 404]
