"""Views of namespaces while pods of all of them come and go under many clients at once."""

import json
import threading
from dataclasses import replace
from itertools import count

import pytest

from exporter.model import Facts, PodFacts, Snapshot
from tests.agent.api.nodes import demo
from tests.agent.web.reviewing import PAGES, SNAPSHOT, Guarded, ask
from tests.agent.web.serving import Site

CLIENTS = ("tenant", "viewer", "everywhere", "elsewhere", "nobody")
ROUNDS = 16
OTHERS = "others"


def made(number: int) -> Snapshot:
    """A node whose pods are all others than a moment ago; the tenant's is not always there."""
    spaces = [f"{OTHERS}-{number}-{each}" for each in range(5)]
    spaces += ["inference"] * (number % 3 != 0)
    facts = Facts(pods=tuple(PodFacts(namespace=each, name=f"p-{number}") for each in spaces))
    return replace(demo(), version=number, measured=lambda: facts)


@pytest.mark.slow
def test_no_tenant_sees_anothers_rows_while_pods_come_and_go(guarded: Guarded) -> None:
    leaks: list[tuple[str, str]] = []
    statuses: dict[str, set[int]] = {name: set() for name in CLIENTS}
    ended = threading.Event()

    def look(site: Site, name: str) -> None:
        for number in range(ROUNDS):
            path = PAGES[number % len(PAGES)]
            got = ask(site, path, name)
            statuses[name].add(got.status)
            if name in {"tenant", "elsewhere", "nobody"} and OTHERS.encode() in got.body:
                leaks.append((name, path))

    def change(site: Site) -> None:
        for number in count(1):
            site.show(made(number))
            if ended.wait(0.005):  # pods come and go by themselves
                return

    with guarded.site(made(0)) as site:
        changing = threading.Thread(target=change, args=(site,))
        looking = [threading.Thread(target=look, args=(site, name)) for name in CLIENTS * 2]
        for thread in (changing, *looking):
            thread.start()
        for thread in looking:
            thread.join()
        ended.set()
        changing.join()
        site.show(made(1))
        control = json.loads(ask(site, SNAPSHOT, "tenant").body)

    assert leaks == []
    assert control["namespaces_shown"] == ["inference"]
    assert statuses["viewer"] == {200}
    assert statuses["everywhere"] == {200}
    assert statuses["tenant"] <= {200, 403}  # 403 where nothing of his is there
    assert statuses["nobody"] == statuses["elsewhere"] == {403}
