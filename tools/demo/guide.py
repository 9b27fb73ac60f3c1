"""What the demo says: where to look, and commands to copy."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tools.demo.access import NAMESPACE, OPERATOR, TENANT
from tools.demo.fleet import ALERTS, GRAFANA_PORT, GUARDED, NODES

WAITING = "inference/chat-13b-0"  # does not get its share
LOST = "research/train-0"  # its card is lost
LATER = "For the rest a day of history is made: half a minute, or more on a busy machine …"
LAST = "Ctrl-C ends all of it."


class Places(NamedTuple):
    """Where all of it is: ports, the page of the alerts if there is one, the tokens' folder."""

    ports: Mapping[str, int]
    prometheus: int
    alerts: str | None
    tokens: Path
    has_grafana: bool


def pages(ports: Mapping[str, int]) -> Iterator[str]:
    """What can be looked at as soon as the nodes are there."""
    yield "Pages of four simulated nodes:"
    for name, port in ports.items():
        if name != GUARDED:
            yield f"  http://localhost:{port}  {name}: {NODES[name].about}"
    port = ports[GUARDED]
    yield f"  {GUARDED}, {NODES[GUARDED].about}, wants a token as the password of any user:"
    yield f"  http://me:{OPERATOR}@localhost:{port}  as an operator, who sees all"
    yield f"  http://me:{TENANT}@localhost:{port}  as a tenant, who sees the namespace {NAMESPACE}"
    yield ""
    yield LATER


def where_to_look(places: Places) -> Iterator[str]:
    """What can be looked at with a day of history, in a Prometheus with the rules."""
    yield ""
    url = f"http://localhost:{places.prometheus}"
    yield "Alerts and boards:"
    if places.alerts:
        yield f"  {url}{places.alerts}  Prometheus; queries to try: docs/questions.md"
    else:
        yield f"  {url}/api/v1/alerts  Prometheus; this one has no pages"
    yield f"  {', '.join(ALERTS)}"
    yield "  fire within five minutes: their 'for' is 10 s here."
    if places.has_grafana:
        yield f"  http://localhost:{GRAFANA_PORT}  Grafana with the boards, once its image is here"
    else:
        yield "  No Grafana: no Docker, or its port is taken. The boards are dashboards/*.json."
    yield ""
    yield "Commands, for another terminal in this folder:"
    yield from (f"  {command}  # {about}" for command, about in commands(places))
    yield ""
    yield LAST


def commands(places: Places) -> Iterator[tuple[str, str]]:
    """Commands to copy, and what each shows."""
    program = ".venv/bin/mgpu-exporter"
    prometheus = f"--prometheus=http://localhost:{places.prometheus}"
    page = f"--url=http://localhost:{places.ports[GUARDED]}"
    yield f"{program} top {prometheus}", "the fleet in a terminal; q ends it"
    yield f"{program} why {WAITING} {prometheus}", "who takes this pod's share"
    yield f"{program} why {LOST} {prometheus}", "its card is lost"
    yield f"{program} advise --since=1d {prometheus}", "what to ask for"
    yield f"{program} bill --price=2.00 --by=owner {prometheus}", "what the last day cost"
    yield f"{program} top {page} --token-file={places.tokens / TENANT}", "what a tenant sees"
