"""The runbooks of the alerts, served as they are written: no network is needed to read them.

They stand in docs/runbooks, and are a part of this package by a link. They name nobody.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from aiohttp import web

from exporter.web.access import Access, Gate, Route
from exporter.web.landing import STYLE
from exporter.web.page.templates import written

PATH = "/runbooks/"
_LINK = re.compile(r"\[([^]]+)\]\(([\w./#-]+)\)")


@cache
def runbooks() -> Mapping[str, str]:
    """Name → text in Markdown."""
    folder = files("exporter.web.page") / "runbooks"
    return {
        file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".md")
    }


def runbook(name: str) -> str | None:
    """The page of a runbook, or of their list for ""; None if there is no such runbook."""
    if not name:
        parts = [part for known in runbooks() for part in ((known, known), ("\n", ""))]
        return written("runbook", title="Runbooks", parts=parts, style=STYLE)
    text = runbooks().get(name)
    if text is None:
        return None
    return written("runbook", title=name, parts=list(_parts(text)), style=STYLE)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Pieces of text, each with the runbook that it leads to, or ""."""
    end = 0
    for link in _LINK.finditer(text):
        yield text[end : link.start()], ""
        words, target = link.groups()
        name = target.removesuffix(".md")
        if name in runbooks():
            yield words, name
        else:
            yield f"{words} ({target.replace('../', 'docs/')})", ""
        end = link.end()
    yield text[end:], ""


def routes(gate: Gate) -> Iterator[Route]:
    """Whoever may see the landing page may see them."""
    access = Access.OPEN if gate.views is None else Access.VIEW
    yield Route(PATH + "{name:[^/]*}", _serve, access)


async def _serve(request: web.Request) -> web.Response:
    page = runbook(request.match_info["name"])
    if page is None:
        raise web.HTTPNotFound(text=f"no such runbook; {PATH} has their list\n")
    return web.Response(text=page, content_type="text/html")
