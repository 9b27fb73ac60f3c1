"""An API server for tests: real HTTP on loopback, list and watch of pods, faults on demand.

It speaks the part of the Kubernetes API that a node agent uses: ``GET /api/v1/pods`` with
``fieldSelector=spec.nodeName=…``, ``watch``, ``resourceVersion``, ``allowWatchBookmarks`` and
``timeoutSeconds``, ``GET /api/v1/nodes/NAME``, ``GET /version``, bearer tokens, metav1.Status
errors, and the ERROR event 410 of a position that has been compacted. Everything is steered from
the test's process.
"""

import json
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from tests.agent.sources.pods.apihttp import HttpServer
from tests.agent.sources.pods.apistate import Account, Entry, Fault, Request, State, encoded
from tests.agent.sources.pods.documents import Document

PATIENCE_S = 60.0


class ApiServer:
    """``with ApiServer() as server: …``; after ``stop`` it can ``start`` again on the same port."""

    def __init__(self, *, certificate: Path | None = None, key: Path | None = None) -> None:
        self.changed = threading.Condition()
        self.state = State()
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        if certificate is not None:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate, key)
        self._http: HttpServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Scheme, address and port; valid once started."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    # --- life ---

    def start(self) -> None:
        """Listen; on the port of the last time, if there was one."""
        with self.changed:
            self.state.running = True
            self.state.mute = False
        self._http = HttpServer(self.port, self.state, self.changed, self.tls)
        self.port = self._http.server_port
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and drop all connections, as a killed server does."""
        if self._http is None or self._thread is None:
            return
        with self.changed:
            self.state.running = False
            self.changed.notify_all()
        self._http.shutdown()
        self._http.drop()
        self._http.server_close()
        self._thread.join()
        self._http = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # --- pods and nodes ---

    def add_pod(self, pod: Document) -> None:
        self._put("ADDED", pod)

    def modify_pod(self, pod: Document) -> None:
        """Replace the pod of the same namespace and name."""
        self._put("MODIFIED", pod)

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Delete a pod; its last state goes out with the event."""
        with self.changed:
            pod = self.state.pods.pop(f"{namespace}/{name}")
            self._record("DELETED", pod)

    def set_node(self, node: Document) -> None:
        with self.changed:
            self.state.nodes[node["metadata"]["name"]] = node

    def serve_devices(self, *versions: str) -> None:
        """Serve these versions of resource.k8s.io."""
        with self.changed:
            self.state.versions = versions

    def set_claim(self, name: str, claim: Document | None, namespace: str = "default") -> None:
        """Create, replace or delete a ResourceClaim."""
        with self.changed:
            self.state.claims.pop(f"{namespace}/{name}", None)
            if claim is not None:
                self.state.claims[f"{namespace}/{name}"] = claim

    def set_slices(self, *slices: Document) -> None:
        with self.changed:
            self.state.slices = list(slices)

    def set_taint_rules(self, *rules: Document) -> None:
        with self.changed:
            self.state.taint_rules = list(rules)

    # --- accounts and their rights ---

    def add_account(self, token: str, account: Account) -> None:
        """Create a user with a token, or replace it."""
        with self.changed:
            self.state.accounts[token] = account

    def remove_account(self, token: str) -> None:
        with self.changed:
            del self.state.accounts[token]

    def answer_reviews_with(self, kind: str, body: bytes | None) -> None:
        """Answer reviews of this kind with status 201 and these bytes; None: truthfully again."""
        with self.changed:
            self.state.review_bodies.pop(kind, None)
            if body is not None:
                self.state.review_bodies[kind] = body

    def drip_reviews(self, pause_s: float) -> None:
        """Pause after each byte of a review's answer."""
        with self.changed:
            self.state.drip_s = pause_s

    # --- what a watch may bring ---

    def bookmark(self) -> int:
        """Send a bookmark with a new resourceVersion to every watch; returns the version."""
        with self.changed:
            self._record("BOOKMARK", {"kind": "Pod", "metadata": {}})
            return self.state.version

    def line(self, line: bytes) -> None:
        """Send raw bytes, a line break added, to every open watch; it has no version."""
        with self.changed:
            self.state.history.append(Entry(self.state.version, "", line))
            self.changed.notify_all()

    def error_event(self, code: int, message: str) -> None:
        """Send an ERROR event to every open watch."""
        status = {"kind": "Status", "code": code, "message": message, "status": "Failure"}
        self.line(json.dumps({"type": "ERROR", "object": status}).encode())

    def expire(self, *, quietly: bool = False) -> None:
        """Compact: positions up to now are too old. Open watches are told so, unless quietly."""
        with self.changed:
            self.state.version += 1
            self.state.compacted = self.state.version
        if not quietly:
            self.error_event(410, "too old resource version")

    def end_watches(self) -> None:
        """End the open watches in good order, as their timeout does."""
        with self.changed:
            self.state.epoch += 1
            self.changed.notify_all()

    # --- faults ---

    def drop_connections(self) -> None:
        """Cut every open connection in the middle of what it carries."""
        if self._http is not None:
            self._http.drop()

    def mute(self) -> None:
        """Let open watches fall silent for good without closing them: half-open connections."""
        with self.changed:
            self.state.mute = True

    def unmute(self) -> None:
        """Let new watches speak again; those fallen silent stay so."""
        with self.changed:
            self.state.mute = False

    def fail(self, kind: str, status: int, message: str = "", times: int = 1) -> None:
        """Answer the next ``times`` requests of a ``Request.kind`` with an error."""
        with self.changed:
            self.state.faults.append(Fault(kind, status, message or f"status {status}", times))

    def answer_lists_with(self, body: bytes | None) -> None:
        """Answer lists with status 200 and these bytes; None: with the pods again."""
        with self.changed:
            self.state.list_body = body

    def hold(self, kind: str) -> None:
        """Let requests of ``kind`` wait without an answer until ``release``."""
        with self.changed:
            self.state.held.add(kind)

    def release(self) -> None:
        with self.changed:
            self.state.held.clear()
            self.changed.notify_all()

    def require_tokens(self, *tokens: str) -> None:
        """Accept these bearer tokens only; from now on the others get 401."""
        with self.changed:
            self.state.tokens = frozenset(tokens)

    # --- what was asked ---

    def requests(self, kind: str) -> list[Request]:
        """The requests of ``kind`` so far, the refused ones too."""
        with self.changed:
            return [request for request in self.state.requests if request.kind == kind]

    def wait_for(self, condition: Callable[[], bool], what: str = "condition") -> None:
        """Wait until ``condition`` holds; it is looked at whenever something happens here."""
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_S), f"never came: {what}"

    def wait_for_requests(self, kind: str, count: int) -> None:
        """Wait for the ``count``-th request of ``kind``."""
        self.wait_for(lambda: len(self.requests(kind)) >= count, f"{count} requests to {kind}")

    def wait_for_watches(self, count: int) -> None:
        self.wait_for(lambda: self.state.watching == count, f"{count} open watches")

    @property
    def connections(self) -> int:
        with self.changed:
            return 0 if self._http is None else len(self._http.connections)

    # --- inside ---

    def _put(self, kind: str, pod: Document) -> None:
        metadata = pod["metadata"]
        with self.changed:
            self.state.pods[f"{metadata['namespace']}/{metadata['name']}"] = pod
            self._record(kind, pod)

    def _record(self, kind: str, document: Document) -> None:
        """With the condition held: give ``document`` a new version and send it to the watches."""
        self.state.version += 1
        document["metadata"]["resourceVersion"] = str(self.state.version)
        line = encoded({"type": kind, "object": document}, self.state.escaped)
        node = document.get("spec", {}).get("nodeName", "")
        self.state.history.append(Entry(self.state.version, node, line))
        self.changed.notify_all()


def write_kubeconfig(
    path: Path,
    url: str,
    *,
    token: str | None = None,
    token_file: Path | None = None,
    authority: Path | None = None,
) -> Path:
    """Write a kubeconfig for this server and the owner of a token. Returns ``path``."""
    cluster = {"server": url}
    if authority is not None:
        cluster["certificate-authority"] = str(authority)
    user = {"token": token} if token else {}
    if token_file is not None:
        user["tokenFile"] = str(token_file)
    return write_context(path, cluster, user)


def write_context(path: Path, cluster: Mapping[str, object], user: Mapping[str, object]) -> Path:
    """Write a kubeconfig with one context; JSON, which is YAML too. Returns ``path``."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path
