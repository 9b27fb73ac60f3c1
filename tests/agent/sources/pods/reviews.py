"""The test API server's answers to reviews, of the shape that Kubernetes 1.36 gives them.

Seen on a real kube-apiserver: an empty ``user`` for a token that is not valid, fields of Go's zero
value left out, ``allowed`` always there.
"""

from tests.agent.sources.pods.apistate import Request, State
from tests.agent.sources.pods.documents import Document

OWN_AUDIENCE = "https://kubernetes.default.svc"


def answer(request: Request, state: State) -> Document:
    """The request's document, with its status."""
    status = (
        _identified(request, state) if request.kind == "identify" else _permitted(request, state)
    )
    return {**request.document, "metadata": {}, "status": status}


def _identified(request: Request, state: State) -> Document:
    spec = request.document["spec"]
    account = state.accounts.get(spec["token"])
    wanted = spec.get("audiences", [OWN_AUDIENCE])
    common = [one for one in wanted if account is not None and one in account.audiences]
    if account is None or not common:
        return {"user": {}, "error": "[invalid bearer token, token lookup failed]"}
    return {"authenticated": True, "user": account.user, "audiences": common}


def _permitted(request: Request, state: State) -> Document:
    spec = request.document["spec"]
    url, named = spec.get("nonResourceAttributes"), spec.get("resourceAttributes", {})
    keys = {f"{named.get('resource')}/{named.get('namespace', '')}", f"{named.get('resource')}/"}
    asked = {(url["verb"], url["path"])} if url else {(named["verb"], key) for key in keys}
    for account in state.accounts.values():
        if account.user["username"] == spec["user"] and asked & account.rights:
            return {"allowed": True, "reason": "RBAC: allowed by a test"}
    return {"allowed": False}
