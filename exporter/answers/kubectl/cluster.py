"""Where exporters and Prometheus are in a cluster, and the ways to them, with a user's rights."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from http import HTTPStatus
from itertools import product
from typing import Any
from urllib.parse import quote

from exporter.answers.kubectl import USUAL
from exporter.answers.kubectl.forward import Forwarder, ForwardError
from exporter.answers.reading.jsonclient import Credentials, HttpClient
from exporter.answers.reading.queryapi import Prometheus
from exporter.apiserver.client import Load, connect
from exporter.apiserver.serveranswers import ApiError
from exporter.httpclient import NoAnswerError

Json = Mapping[str, Any]

STORES = (  # labels of services that answer Prometheus' queries, the likeliest first
    "operated-prometheus=true",
    "app.kubernetes.io/name=prometheus",
    "app.kubernetes.io/name=thanos-query",
    "app.kubernetes.io/name=vmsingle",
)
_PORT = "metrics"  # the name of the exporter's port
_TIMEOUT_S = 15.0
_LARGEST = 64 << 20
_PAGE = 500  # items of a list that are asked for at once
_MOST_PAGES = 100  # more exporters than a cluster can have nodes
_NAME_IT = "name the namespace (--exporter-namespace)"
_MAX_NEAR = 5
_OURS = "count(mgpu_exporter_build_info)"
_OVER = {"Succeeded", "Failed"}  # phases of pods that run no more, such as evicted ones
_DENIED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


@dataclass(frozen=True, slots=True)
class Exporter:
    """An exporter's pod. ``why_not`` is why it cannot be asked; "" if it can."""

    namespace: str
    pod: str
    node: str
    port: int
    is_tls: bool
    why_not: str = ""

    @property
    def name(self) -> str:
        """For messages."""
        return f"the exporter on {self.node or 'no node'} ({self.namespace}/{self.pod})"


class UserCluster:
    """A cluster as one user sees it. ``credentials`` are shown to exporters, the headers to all.

    ``namespaces`` are those in which exporters and Prometheus are trusted.
    """

    def __init__(
        self,
        load: Load,
        forwarder: Forwarder,
        credentials: Callable[[], Credentials],
        namespaces: Sequence[str] = USUAL,
    ) -> None:
        self._client = connect(load)
        self._forwarder = forwarder
        self._credentials = credentials
        self._namespaces = namespaces

    def node_of(self, namespace: str, pod: str, *, elsewhere: bool = False) -> tuple[str, str]:
        """The node on which a pod is, and its namespace.

        With ``elsewhere`` that may be another one, if it is not in this and only one has it.

        Raises:
            NoAnswerError: there is no such pod, it is on no node yet, or the user may not get it.

        """
        found = None
        if namespace:
            path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}"
            found = self._get(path, f"pod {pod}")
        if found is None and elsewhere:
            found = self._anywhere(pod)
            namespace = str(_of(found or {}, "metadata").get("namespace") or namespace)
        if found is None:
            near = self._near(namespace, pod) if namespace else ""
            raise NoAnswerError(f"no pod {'/'.join(filter(None, (namespace, pod)))}{near}")
        node = str(_of(found, "spec").get("nodeName") or "")
        if not node:
            phase = _of(found, "status").get("phase", "Pending")
            raise NoAnswerError(f"{namespace}/{pod} is on no node yet ({phase})")
        return node, namespace

    def _anywhere(self, pod: str) -> Json | None:
        """The only pod of this name in the cluster; None if there is none, or he may not see it.

        Raises:
            NoAnswerError: several namespaces have one.

        """
        try:
            field = f"metadata.name={pod}"
            found = self._all("/api/v1/pods", "pods", fieldSelector=field)
        except NoAnswerError:
            return None
        if len(found) > 1:
            names = sorted(f"{_of(one, 'metadata').get('namespace')}/{pod}" for one in found)
            raise NoAnswerError(f"{' and '.join(names[:_MAX_NEAR])}: name one of them")
        return found[0] if found else None

    def exporters(self, selector: str, node: str = "") -> list[Exporter]:
        """The exporters of the cluster, or of one node. Each namespace may have a release.

        Raises:
            NoAnswerError: there is none, the user may list none, or a list does not come.

        """
        field = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
        found: list[Json] = []
        refusals = []
        for namespace in self._namespaces:
            try:
                found += self._pods(namespace, "the exporters", labelSelector=selector, **field)
            except NoAnswerError as error:
                if error.status not in _DENIED:  # who may list some of them shall not miss others
                    raise
                refusals.append(error)
        running = [_exporter(p) for p in found if _of(p, "status").get("phase") not in _OVER]
        if running:
            # Those that can be asked. Of a node without one all, so that the user sees why.
            ready = {one.node for one in running if not one.why_not}
            asked = (one for one in running if not one.why_not or one.node not in ready)
            return sorted(asked, key=lambda one: (one.node, one.pod))
        if len(refusals) == len(self._namespaces):
            raise NoAnswerError(f"{refusals[0]}; {_NAME_IT}")
        where = f"on {node}" if node else "in this cluster"
        also = f" ({refusals[0]})" if refusals else ""
        raise NoAnswerError(
            f"no exporter {where} has the label {selector} in {', '.join(self._namespaces)}{also}; "
            f"{_NAME_IT}, or another label (--selector)"
        )

    def http(self, exporter: Exporter) -> HttpClient:
        """A client of an exporter, with the user's token.

        Raises:
            NoAnswerError: it cannot be reached.

        """
        if exporter.why_not:
            raise NoAnswerError(f"{exporter.name} {exporter.why_not}")
        try:
            port = self._forwarder.open(exporter.namespace, exporter.pod, exporter.port)
        except ForwardError as error:
            raise NoAnswerError(f"{exporter.name}: {error}") from None
        scheme = "https" if exporter.is_tls else "http"
        return HttpClient(
            f"{scheme}://127.0.0.1:{port}",
            self._credentials(),
            name=exporter.name,
        )

    def prometheus(self) -> tuple[str, str]:
        """The local address and the name of a Prometheus of this cluster that scrapes exporters.

        Raises:
            NoAnswerError: none is found, or the user may not reach it.

        """
        refused: list[str] = []
        # The headers alone: the user's token is shown to exporters, and to no store.
        added = Credentials(headers=self._credentials().headers)
        for label, namespace in product(STORES, self._namespaces):
            path = f"/api/v1/namespaces/{quote(namespace)}/services"
            try:
                services = self._all(path, "services", labelSelector=label)
            except NoAnswerError as error:
                refused.append(str(error))
                continue
            for service in services:
                meta = _of(service, "metadata")
                name = f"{meta.get('namespace')}/{meta.get('name')}"
                # A store may be another team's, without one exporter in it. Its answers would be
                # empty, and look like a cluster without GPUs.
                try:
                    address = self._store(service)
                    asks = Prometheus(HttpClient(address, added, name=name))
                    if asks.at(_OURS, time.time()):
                        return address, name
                    refused.append(f"{name} has no series of the exporter")
                except (NoAnswerError, ForwardError) as error:
                    refused.append(f"{name}: {error}")
        reasons = list(dict.fromkeys(refused))[:_MAX_NEAR]
        why = f" ({'; '.join(reasons)})" if reasons else ""
        raise NoAnswerError(
            f"no Prometheus in {', '.join(self._namespaces)} has the exporter's series{why}; "
            f"{_NAME_IT}, or its address: --prometheus http://prometheus.example.org"
        )

    def _store(self, service: Json) -> str:
        """The local address of a service's first ready pod."""
        namespace = str(_of(service, "metadata").get("namespace", ""))
        spec = _of(service, "spec")
        chosen = ",".join(f"{key}={value}" for key, value in _of(spec, "selector").items())
        if not chosen:
            raise NoAnswerError("it has no selector")
        pods = self._pods(namespace, "its pods", labelSelector=chosen)
        ready = [pod for pod in pods if _is_ready(pod)]
        if not ready:
            raise NoAnswerError("none of its pods is ready")
        port = _target(spec, ready[0])
        pod = str(_of(ready[0], "metadata").get("name", ""))
        return f"http://127.0.0.1:{self._forwarder.open(namespace, pod, port)}"

    def _pods(self, namespace: str, what: str, **query: str) -> list[Json]:
        path = f"/api/v1/namespaces/{quote(namespace)}/pods"
        return self._all(path, what, **query)

    def _near(self, namespace: str, pod: str) -> str:
        try:
            pods = self._pods(namespace, "pods")
        except NoAnswerError:
            return ""
        names = [str(_of(one, "metadata").get("name", "")) for one in pods]
        begins = [name for name in names if name.startswith(pod)]
        near = list(dict.fromkeys([*begins, *get_close_matches(pod, names, _MAX_NEAR)]))
        return f"; did you mean {' or '.join(near[:_MAX_NEAR])}?" if near else ""

    def _all(self, path: str, what: str, **query: str) -> list[Json]:
        """All items of a list, asked for page by page: half of it would look like all.

        Raises:
            NoAnswerError: a page does not come, or they do not end.

        """
        found: list[Json] = []
        for _ in range(_MOST_PAGES):
            page = self._get(path, what, limit=_PAGE, **query) or {}
            found += _list(page, "items")
            query["continue"] = str(_of(page, "metadata").get("continue") or "")
            if not query["continue"]:
                return found
        raise NoAnswerError(f"the list of {what} has more than {_MOST_PAGES * _PAGE} items")

    def _get(self, path: str, what: str, **query: str | int) -> Json | None:
        """What is there; None if there is nothing.

        Raises:
            NoAnswerError: the user may not see it, or the API server does not answer.

        """
        try:
            with self._client.get(path, query, _TIMEOUT_S) as stream:
                found = json.loads(stream.read(_LARGEST))
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            if error.status in _DENIED:
                raise NoAnswerError(f"you may not see {what}: {error}", error.status) from None
            raise NoAnswerError(f"the API server gave no list of {what}: {error}") from None
        except (ValueError, RecursionError):
            raise NoAnswerError(f"the API server answers {path} with something else") from None
        return found if isinstance(found, Mapping) else None


def _exporter(pod: Json) -> Exporter:
    meta, spec = _of(pod, "metadata"), _of(pod, "spec")
    # A pod may have a proxy beside the exporter. The container with the port of this name is asked,
    # and its probe shows whether that port has TLS.
    container: Json = {}
    port = 0
    for one, of_it in ((c, p) for c in _list(spec, "containers") for p in _list(c, "ports")):
        if not port and of_it.get("name") == _PORT:
            container, port = one, int(of_it.get("containerPort", 0))
    probe = _of(_of(container, "readinessProbe"), "httpGet")
    return Exporter(
        namespace=str(meta.get("namespace", "")),
        pod=str(meta.get("name", "")),
        node=str(spec.get("nodeName") or ""),
        port=port,
        is_tls=probe.get("scheme") == "HTTPS",
        why_not=_why_not(pod),
    )


def _why_not(pod: Json) -> str:
    """Why a pod cannot be asked; "" if it can."""
    if _of(pod, "metadata").get("deletionTimestamp"):  # it may be ready until it has ended
        return "is being deleted"
    return "" if _is_ready(pod) else "is not ready"


def _target(spec: Json, pod: Json) -> int:
    """The port of a pod behind a service's first port that looks like HTTP."""
    ports = [port for port in _list(spec, "ports") if "grpc" not in str(port.get("name", ""))]
    if not ports:
        raise NoAnswerError("it has no port")
    target = ports[0].get("targetPort", ports[0].get("port"))
    if isinstance(target, int):
        return target
    containers = _list(_of(pod, "spec"), "containers")
    for port in (port for container in containers for port in _list(container, "ports")):
        if port.get("name") == target:
            return int(port["containerPort"])
    raise NoAnswerError(f"its port {target} is not known")


def _is_ready(pod: Json) -> bool:
    conditions = _list(_of(pod, "status"), "conditions")
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _of(document: Json, name: str) -> Json:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(document: Json, name: str) -> list[Json]:
    found = document.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
