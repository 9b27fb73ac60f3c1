"""A site whose clients Kubernetes judges: accounts, tokens, and requests with them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from exporter.agent.sources.pods.reviews import ApiReviewer
from exporter.agent.web import ReviewLimits, Verdicts
from exporter.apiserver.client import connect, from_kubeconfig
from exporter.inputs.values import Address
from exporter.model import Snapshot
from tests.agent.api.nodes import demo
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.web.serving import PATIENCE_S, Answer, Site, serving

EVERYWHERE = Address("0.0.0.0", 0)  # noqa: S104 - who is let in is the test
GET_PAGE = ("get", "/mgpu-exporter/page")
ACCOUNTS = {
    "scraper": {("get", "/metrics")},
    "viewer": {GET_PAGE},
    "tenant": {("get", "pods/inference")},
    "everywhere": {("get", "pods/")},
    "elsewhere": {("get", "pods/nothing-here")},
    "reloader": {("post", "/mgpu-exporter/reload")},
    "nobody": set(),
}
PATIENT = ReviewLimits(wait_s=PATIENCE_S, request_s=PATIENCE_S)
SNAPSHOT = "/api/v1/snapshot"
PAGES = ("/", "/api/v1/snapshot", "/api/v1/devices", "/api/v1/history")


def user(name: str) -> dict[str, object]:
    return {"username": name, "uid": name, "groups": ["system:authenticated"]}


class Guarded:
    """Serves with reviews by ``server``."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self._config = write_kubeconfig(folder / "kubeconfig", server.url, token="exporter")  # noqa: S106

    def verdicts(
        self, limits: ReviewLimits | None = None, clock: ManualClock | None = None
    ) -> Verdicts:
        """Verdicts by the server."""
        load = from_kubeconfig(str(self._config))
        reviewer = ApiReviewer(partial(connect, load), timeout_s=PATIENCE_S)
        return Verdicts(reviewer, clock or ManualClock(), limits or PATIENT)

    @contextmanager
    def site(
        self,
        snapshot: Snapshot | None = None,
        limits: ReviewLimits | None = None,
        **options: object,
    ) -> Iterator[Site]:
        """A site whose verdicts follow its clock."""
        verdicts = self.verdicts(limits, clock := ManualClock())
        options = {"address": EVERYWHERE, **options}
        with serving(snapshot or demo(), verdicts=verdicts, **options) as site:  # type: ignore[arg-type]
            site.clock.__dict__ = clock.__dict__  # one time for both
            yield site
        verdicts.close()

    def asked(self, kind: str) -> int:
        """How many reviews of a kind were asked for."""
        return len(self.server.requests(kind))


def bearer(name: str) -> str:
    return f"Bearer token-of-{name}"


def ask(site: Site, path: str, name: str, method: str = "GET") -> Answer:
    return site.ask(path, method, Authorization=bearer(name))


def of(site: Site, path: str, name: str) -> Any:
    got = ask(site, path, name)
    assert got.status == 200
    return json.loads(got.body)
