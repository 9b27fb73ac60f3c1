"""Checks of the pod sources (API server, kubelet, log files) and of the node's other sources."""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from exporter.agent.collector.wiring import places_of
from exporter.agent.doctor import privileges
from exporter.agent.doctor.evidence import (
    CheckResult,
    CheckVerdict,
    ProbeResults,
    note,
    ok,
    problem,
)
from exporter.agent.doctor.privileges import POD_RESOURCES
from exporter.agent.doctor.taints import taints
from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.node.kubeletcalls import SOCKET, Kubelet, KubeletError
from exporter.agent.sources.node.podresources import AUTO, NONE
from exporter.agent.sources.node.resourceentries import WireError, decode_list
from exporter.agent.sources.pods.apiserverpods import PODS
from exporter.agent.sources.pods.claims import GROUP, VERSIONS, served_version
from exporter.agent.sources.pods.kubeletpods import PODS as KUBELETS_PODS
from exporter.agent.sources.pods.logfilepods import MAX_PODS
from exporter.agent.sources.pods.podfactory import node_name
from exporter.agent.sources.pods.wire import JsonError
from exporter.apiserver.client import KubeClient
from exporter.apiserver.serveranswers import ApiError, ServerKind, explanation
from exporter.shown.words import plural

TIMEOUT_S = 5.0

Query = dict[str, str | int]
Ask = Callable[[str, Query], bytes]


class _Rule(NamedTuple):
    """One rule of the ClusterRole, and the request that needs it."""

    subject: str
    path: str
    query: Query
    privilege: str
    without: str
    needed: bool = True


def pods(evidence: ProbeResults, usual: str = SOCKET) -> Iterator[CheckResult]:
    """The pod sources that the settings name."""
    settings = evidence.settings
    if settings.simulate:
        return
    status = evidence.status("pods_api")
    if status is not None and status.up and status.detail:
        remedy = "give the name that 'kubectl get nodes' shows"
        yield problem("node name", status.detail, remedy, privileges.NODE_NAME)
    else:
        yield ok("node name", node_name(settings.node_name))
    if not _on_kubernetes(evidence, usual):
        found = "none here: no ServiceAccount, no kubeconfig, no kubelet, no logs of pods"
        remedy = "on a node of a cluster, give --kubeconfig; otherwise nothing to do"
        yield note("Kubernetes", found, remedy)
        return
    kind = settings.pods_source
    places = places_of(settings)
    if kind == "none":
        yield note("pods", "off (--pods.source=none): pods, if any, are groups by their uids")
        return
    if kind in {"auto", "api"}:
        if kind == "auto" and places.credentials() is None:
            found = "no ServiceAccount and no kubeconfig: the API server is not asked"
            remedy = "on a node of a cluster, give --kubeconfig; otherwise nothing to do"
            privilege = ""
            # In a pod only the token is missing. Elsewhere there may be no cluster at all.
            if "KUBERNETES_SERVICE_HOST" in places.environ:
                remedy = "let the pod's ServiceAccount token be mounted"
                privilege = privileges.SERVICE_ACCOUNT
            yield note("API server", found, remedy, privilege)
        else:
            yield from _api(evidence, places.to_api())
    if kind in {"auto", "kubelet"} and (places.credentials() is not None or places.kubelet):
        yield _kubelet(places.to_kubelet(), places.kubelet_url(), needed=kind == "kubelet")
    if kind in {"auto", "files"}:
        yield _files(evidence, needed=kind == "files")


def _on_kubernetes(evidence: ProbeResults, usual: str) -> bool:
    """Whether anything here is of Kubernetes, or the settings ask for it."""
    settings, places = evidence.settings, places_of(evidence.settings)
    return (
        settings.pods_source != AUTO
        or "KUBERNETES_SERVICE_HOST" in places.environ
        or places.credentials() is not None
        or bool(places.kubelet)
        or not door.is_gone(places.logs / "pods")
        or not door.is_gone(Path(usual).parent)
    )


def _api(evidence: ProbeResults, connect: Callable[[], KubeClient]) -> Iterator[CheckResult]:
    try:
        client = connect()
    except ApiError as error:
        remedy = "give a kubeconfig that can be read, or the pod's ServiceAccount token"
        yield problem("API server", str(error), remedy, privileges.SERVICE_ACCOUNT)
        return
    try:
        node = node_name(evidence.settings.node_name)
        # One pod proves the right to list, and costs a busy server nothing. To watch is a right of
        # its own in RBAC; this watch ends by itself after a second.
        own: Query = {"fieldSelector": f"spec.nodeName={node}"}
        # From version 0 a watch begins with what the server has cached.
        watch: Query = {**own, "watch": "true", "resourceVersion": "0", "timeoutSeconds": 1}
        names = "pods have no names: their usage is counted for groups by pod uid"
        labels = "the node labels about GPU sharing are not known"
        for rule in (
            _Rule("pods: list", PODS, {**own, "limit": 1}, privileges.PODS, names),
            _Rule("pods: watch", PODS, watch, privileges.PODS, names),
            _Rule(
                "nodes: get", f"/api/v1/nodes/{quote(node, safe='')}", {}, privileges.NODES, labels
            ),
        ):
            finding = _tried(client, rule)
            yield finding
            if finding.subject == "API server":
                return
        if evidence.settings.pods_claims == "auto":
            yield from _claims(client, evidence)
    finally:
        client.close()


def _tried(client: KubeClient, rule: _Rule) -> CheckResult:
    try:
        with client.get(rule.path, rule.query, TIMEOUT_S):
            return ok(rule.subject, "allowed")
    except ApiError as error:
        # No answer, and a token that is not accepted, are the server's problem and not this
        # rule's: the subject says so, and the caller tries no other rule.
        if error.status is None:
            remedy = "check that the address and the network policy let this pod reach it"
            return problem("API server", explanation(error), remedy)
        if error.status == HTTPStatus.UNAUTHORIZED:
            remedy = "check that the token or the kubeconfig is still valid"
            return problem("API server", explanation(error), remedy, privileges.SERVICE_ACCOUNT)
        if error.status == HTTPStatus.NOT_FOUND:
            remedy = "see --node.name: 'kubectl get nodes' shows the node's name in the cluster"
            return problem(rule.subject, str(error), remedy, privileges.NODE_NAME)
        if error.status == HTTPStatus.FORBIDDEN:
            make = problem if rule.needed else note
            found = f"forbidden: {error}"
            return make(rule.subject, found, f"grant it; without it {rule.without}", rule.privilege)
        return problem(rule.subject, explanation(error), "see the API server's log")


def _claims(client: KubeClient, evidence: ProbeResults) -> Iterator[CheckResult]:
    """Dynamic resource allocation, which is needed only if a pod of this node refers to a claim."""
    claimed = any(c.claims for pod in evidence.table.pods.values() for c in pod.containers)
    try:
        version = served_version(client)
    except (ApiError, JsonError) as error:
        if isinstance(error, ApiError) and error.status == HTTPStatus.NOT_FOUND:
            yield ok("resource claims", "the cluster does not serve resource.k8s.io")
        else:
            make = problem if claimed else note
            found = f"whether the cluster serves resource.k8s.io is not known: {error}"
            yield make("resource claims", found, "see the API server's log")
        return
    if not version:
        yield note("resource claims", f"served in none of the versions {', '.join(VERSIONS)}")
        return
    node = node_name(evidence.settings.node_name)
    without = "devices of claims (DRA) are not placed; or set --pods.claims=off"
    grant = privileges.CLAIMS
    # A claim is asked for in a namespace. The right is a ClusterRole's, and is the same in each.
    nobody = f"{GROUP}/{version}/namespaces/default/resourceclaims/mgpu-exporter-check"
    slices: Query = {"fieldSelector": f"spec.nodeName={node}", "limit": 1}
    get = _tried(client, _Rule("resourceclaims: get", nobody, {}, grant, without, needed=claimed))
    # There is no such claim, so "not found" means that the request is allowed. ``_tried`` names
    # this privilege where the answer is 404.
    missing = get.privilege == privileges.NODE_NAME
    yield ok(get.subject, "allowed") if missing else get
    path = f"{GROUP}/{version}/resourceslices"
    tried = _tried(client, _Rule("resourceslices: list", path, slices, grant, without, claimed))
    yield tried
    if tried.verdict is CheckVerdict.OK:
        yield from taints(client, version, node)


def _kubelet(connect: Callable[[], KubeClient], url: str, *, needed: bool) -> CheckResult:
    make = problem if needed else note
    meanwhile = "" if needed else "; it replaces the API server while that is down"
    try:
        client = connect()
        try:
            with client.get(KUBELETS_PODS, {}, TIMEOUT_S):
                return ok("kubelet", f"{url} lists its pods")
        finally:
            client.close()
    except ApiError as error:
        found = explanation(error, ServerKind.KUBELET)
        remedy, privilege = "see the kubelet's log", ""
        if error.status == HTTPStatus.FORBIDDEN:
            remedy, privilege = "grant what is missing", privileges.KUBELET
        elif error.status is None:
            remedy = "check --kubelet.address, and that the network policy lets this pod reach it"
        return make("kubelet", f"{url}: {found}", f"{remedy}{meanwhile}", privilege)


def _files(evidence: ProbeResults, *, needed: bool) -> CheckResult:
    make = problem if needed else note
    folder = places_of(evidence.settings).logs / "pods"
    listed = door.names(folder, MAX_PODS)
    match listed:
        case Whole(names) | Cut(names):
            said = "1 name of a pod" if len(names) == 1 else f"{len(names)} names of pods"
            more = f"; {listed.by}" if isinstance(listed, Cut) else ""
            return ok("log files", f"{said} in {folder}{more}")
        case Absent() | Refused() | Failed():
            remedy = "mount it; it has the names of pods while no server answers"
            return make("log files", f"{folder}: {door.why(listed)}", remedy, privileges.LOGS)


# Sources with checks of their own.
ELSEWHERE = frozenset(
    {
        *("cgroups", "podresources", "pods_api", "pods_kubelet", "pods_files", "pods_none"),
        *("users", "containers"),
    }
)
_WITHOUT = (
    "without it containers of plugins that write no annotation (NVIDIA, GKE, AMD, Intel) are "
    "bound to a device only when their first process is found"
)


def node(evidence: ProbeResults, usual: str = SOCKET) -> Iterator[CheckResult]:
    """The kubelet's PodResources, then the status of the other sources."""
    setting = evidence.settings.kubelet_pod_resources_socket
    if evidence.settings.simulate:
        return
    expected = evidence.settings.pods_source != NONE and _on_kubernetes(evidence, usual)
    expected = expected or not door.is_gone(Path(usual).parent)
    if setting != NONE and (setting != AUTO or expected):
        yield _pod_resources(usual if setting == AUTO else setting, asked_for=setting != AUTO)
    elsewhere = ELSEWHERE | {reading.status.name for reading in evidence.readings}
    for source in evidence.sources:
        if source.name in elsewhere:
            continue
        if source.up:
            yield ok(source.name, source.detail or "answers")
        else:
            yield problem(source.name, source.detail or "does not answer", "see the log")


def _pod_resources(socket: str, *, asked_for: bool) -> CheckResult:
    # The exporter looks for it by itself. Where it was not asked for, a folder that is not mounted
    # may be intended.
    if not asked_for and door.is_gone(Path(socket).parent):
        folder = str(Path(socket).parent)
        return note("PodResources", f"{folder} is not mounted", _WITHOUT, POD_RESOURCES)
    try:
        with Kubelet(socket).connected() as kubelet:
            answer = decode_list(kubelet.list())
    except (KubeletError, WireError) as error:
        return problem("PodResources", str(error), _WITHOUT, POD_RESOURCES)
    grants = sum(len(entry.grants) for entry in answer.entries.values())
    hold = "holds" if len(answer.entries) == 1 else "hold"
    found = f"{plural(len(answer.entries), 'pod')} {hold} {plural(grants, 'grant')}"
    left_out = ", ".join(f"{reason} {n}" for reason, n in sorted(answer.rejected.items()))
    if left_out:
        found = f"{found}; left out: {left_out}"
    return ok("PodResources", f"{found}, by {socket}")
