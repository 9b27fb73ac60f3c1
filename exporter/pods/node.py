"""What the cluster says of this node: labels, annotations, what it can hand out. Optional."""

import logging
from http import HTTPStatus
from urllib.parse import quote

from exporter.model import NodeFacts
from exporter.pods.client import Client
from exporter.pods.decode import KEEP_NOTHING, Keep, decode_node
from exporter.pods.failure import ApiError
from exporter.pods.health import SECOND_NS, Health
from exporter.pods.wire import MAX_OBJECT, JsonError, decode


class NodeReader:
    """Reads ``/api/v1/nodes/NAME`` at most every ``period_s`` and keeps the last answer."""

    def __init__(
        self, name: str, period_s: float, health: Health, keep: Keep = KEEP_NOTHING
    ) -> None:
        self.facts = NodeFacts()
        self._keep = keep
        self._name, self._health = name, health
        self._period_ns = int(period_s * SECOND_NS)
        self._due_ns: int | None = None

    def read(self, client: Client, now_ns: int, timeout_s: float) -> None:
        """Ask if it is time to. Never raises an ApiError.

        Not being answered is no fault: pods are what this connection is for. Who may not, or has
        no such node, asks again after the period; whatever else failed is tried with the next
        connection.
        """
        if self._due_ns is not None and now_ns < self._due_ns:
            return
        self._due_ns = now_ns + self._period_ns
        try:
            with client.get(f"/api/v1/nodes/{quote(self._name, safe='')}", {}, timeout_s) as stream:
                self.facts = decode_node(decode(stream.read(MAX_OBJECT)), self._keep)
        except JsonError as error:
            self._health.reject("node_unusable", f"node {self._name}: {error}")
        except ApiError as failure:
            if failure.status not in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
                self._due_ns = None
            level = logging.WARNING if failure.status == HTTPStatus.NOT_FOUND else logging.INFO
            self._health.once(level, f"labels of node {self._name} are not known: {failure}")
