"""The runbooks of the alerts: no network is needed to read them.

They stand in docs/runbooks, and are a part of this package by a link. They name nobody. The query
of their address says what an alert is about, and its commands are then about that::

    /runbooks/MgpuGpuLost?node=gpu-node-1&uuid=GPU-5dda2825
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlencode

from aiohttp import web

from exporter.agent.web.access import Access, Gate, Route
from exporter.agent.web.landing import STYLE
from exporter.agent.web.markdown import Block, TextSpan, blocks
from exporter.agent.web.page.templates import written
from exporter.apiserver.client import SERVICE_ACCOUNT

PATH = "/runbooks/"
KNOWN = ("node", "instance", "uuid", "gpu", "namespace", "pod", "quantity")
_USUAL = "mgpu-exporter"
INSTALLED: Mapping[str, Sequence[str]] = {
    "exporters": ("-n mgpu-exporter ", "account:mgpu-exporter:", "namespace `mgpu-exporter`"),
    "app": ("kubernetes.io/name=mgpu-exporter",),
    "daemonset": ('pod=~"mgpu-exporter.', ":mgpu-exporter\n"),
}
"""Where the usual names of an installation stand, by what an address calls another one: the
exporters' namespace, the label of their pods, what the pods' names begin with."""
_VARIABLE = re.compile(r"\$([A-Z]+)\b")
_LEGEND = re.compile(r"^Alert labels: .*?\n\n", re.DOTALL | re.MULTILINE)
# What people copy into a shell: nothing that a shell, PromQL or kubectl reads as more than a name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,252}")


@cache
def runbooks() -> Mapping[str, str]:
    """Name → text in Markdown."""
    folder = files("exporter.agent.web.page") / "runbooks"
    return {
        file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".md")
    }


def runbook(name: str, query: Mapping[str, str]) -> str | None:
    """The page of a runbook, or of their list for ""; None if there is no such runbook.

    ``query`` says what the variables stand for. What is not a name is left out.
    """
    named = {key: value for key, value in query.items() if _NAME.fullmatch(value)}
    said = {key: named[key] for key in KNOWN if key in named}
    installed = {key: named[key] for key in INSTALLED if key in named}
    more = f"?{urlencode({**said, **installed})}" if said or installed else ""
    if not name:
        spans = [TextSpan(known, "link", f"{known}.md") for known in runbooks()]
        shown = [Block("h1", [[[TextSpan("Runbooks")]]]), Block("ul", [[[span]] for span in spans])]
    elif (text := runbooks().get(name)) is None:
        return None
    else:
        # The legend says what the variables are. With names in their places it is left out, and the
        # page begins with the names.
        names = dict(said)
        if one := said.get("node", said.get("instance")):  # the same, as the chart has it
            names = {"node": one, "instance": one} | names
        text = _LEGEND.sub("", text, count=1) if said else text
        filled = _VARIABLE.sub(lambda found: names.get(found[1].lower(), found[0]), text)
        for key, own in installed.items():
            for place in INSTALLED[key]:
                filled = filled.replace(place, place.replace(_USUAL, own))
        shown = list(blocks(filled))
    return written(
        "runbook",
        title=name or "Runbooks",
        said=said,
        more=more,
        blocks=shown,
        targets={f"{each}.md": each for each in runbooks()},  # links to other runbooks
        style=STYLE,
    )


def routes(gate: Gate, service_account: Path = SERVICE_ACCOUNT) -> Iterator[Route]:
    """Whoever may see the landing page may see them.

    Their commands are about the exporter's own namespace, unless the address names another.
    """
    try:
        own = (service_account / "namespace").read_text(encoding="utf-8").strip()
    except OSError:  # not in a pod
        own = ""

    async def serve(request: web.Request) -> web.Response:
        page = runbook(request.match_info["name"], {"exporters": own, **request.query})
        if page is None:
            raise web.HTTPNotFound(text=f"no such runbook; {PATH} has their list\n")
        return web.Response(text=page, content_type="text/html")

    yield Route(PATH + "{name:[^/]*}", serve, Access.OPEN if gate.views is None else Access.VIEW)
