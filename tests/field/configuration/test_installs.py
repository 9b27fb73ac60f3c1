"""What installers met: two releases, long names, values of others, upgrades, Argo CD and Flux."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.matrix import EVERYTHING, MATRIX
from tests.chart.rendering import CHART, KUBERNETES, ROOT, Object, Rendered, helm, render
from tests.field.configuration.test_chart import in_umbrella
from tests.field.report import report

pytestmark = pytest.mark.program("helm")

# Kinds that have no namespace.
LONGEST = {"Service": 63, "DaemonSet": 63, "CronJob": 52, "Job": 63}  # of a name; else 253
OF_CLUSTER = {"ClusterRole", "ClusterRoleBinding", "SecurityContextConstraints", "Namespace"}


@cache
def released(name: str, namespace: str) -> Rendered:
    """Everything that the chart has, as a release of this name."""
    arguments = ("template", name, str(CHART), "--namespace", namespace, "--values", "-")
    said = helm(*arguments, "--kube-version", KUBERNETES, given=json.dumps(EVERYTHING))
    return Rendered(said)


def named(rendered: Rendered) -> list[tuple[str, str, str]]:
    """Kind, namespace and name of each object."""
    return [
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in rendered.objects
    ]


def leaves(document: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of a document that is no list and no filled mapping, with its path."""
    if isinstance(document, dict) and document:
        for key, value in document.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(document, list) and document:
        for value in document:
            yield from leaves(value, f"{path}[]")
    else:
        yield path, document


@report(
    round=3,
    source="cockroachdb/helm-charts#283, emissary-ingress/emissary#3380, helm/helm#5857",
    seen="Two teams had a release of one name in a namespace each, and the second install ended "
    "with «ClusterRole exists and cannot be imported».",
    first="right",
    group="configuration",
)
def test_two_releases_of_one_name_share_no_object() -> None:
    one, other = (set(named(released("gpus", space))) for space in ("team-a", "team-b"))
    assert {kind for kind, _, _ in one} >= {"ClusterRole", "ClusterRoleBinding", "DaemonSet"}
    assert not {each for each in one & other if each[0] in OF_CLUSTER}


@report(
    round=3,
    source="mvisonneau/helm-charts#60, newrelic/helm-charts#1553",
    seen="A name was cut to 63 characters and got a prefix or suffix afterwards, so that a label "
    "was too long and the install ended.",
    first="right",
    group="configuration",
)
def test_the_longest_name_that_helm_takes_fits_into_names_and_labels() -> None:
    rendered = released("a" * 53, "observing")
    found = named(rendered)
    assert len(found) == len(set(found))
    for kind, _, name in found:
        assert len(name) <= LONGEST.get(kind, 253), (kind, name)
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9.:]*[a-z0-9])?", name), (kind, name)
    for one in rendered.objects:
        for path, value in leaves(one):
            if re.search(r"(labels|matchLabels|selector)\.[^\[]+$", path) and isinstance(
                value, str
            ):
                assert len(value) <= 63, (one["kind"], path, value)


@report(
    round=3,
    source="open-telemetry/opentelemetry-helm-charts#953, traefik/traefik-helm-chart#730",
    seen="With another namespace than the release's, the binding still named the ServiceAccount of "
    "the release's namespace: each request was forbidden.",
    first="right",
    group="configuration",
)
def test_a_binding_names_the_account_where_it_is() -> None:
    rendered = render(EVERYTHING, namespaceOverride="elsewhere")
    accounts = {
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for one in rendered.of("ServiceAccount")
    }
    own = rendered.pod["serviceAccountName"]
    assert ("elsewhere", own) in accounts
    subjects = [
        (subject["namespace"], subject["name"])
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for one in rendered.of(kind)
        for subject in one["subjects"]
        if subject["name"] == own
    ]
    assert subjects
    assert set(subjects) == {("elsewhere", own)}
    assert rendered.one("DaemonSet")["metadata"]["namespace"] == "elsewhere"


@report(
    round=3,
    source="helm/helm#6468, linkerd/linkerd2#2957, fidelity/kraan#439",
    seen="A setting or a version changed which role a binding of the same name refers to, which "
    "Kubernetes never lets happen.",
    first="right",
    group="configuration",
)
def test_a_binding_of_one_name_always_refers_to_the_same_role() -> None:
    seen: dict[tuple[str, str], Object] = {}
    for values in [{}, EVERYTHING, *list(MATRIX.values())[::12]]:
        rendered = render(values)
        for one in [*rendered.of("ClusterRoleBinding"), *rendered.of("RoleBinding")]:
            key = one["kind"], one["metadata"]["name"]
            assert seen.setdefault(key, one["roleRef"]) == one["roleRef"]
    assert seen


@report(
    round=3,
    source="qdrant/qdrant-helm#354, bitnami/charts#10798, SeldonIO/seldon-core#3966",
    seen="OpenShift's user ids have ten digits: Helm wrote 1.00064e+09, and nothing started.",
    first="right",
    group="configuration",
)
def test_a_large_number_is_written_with_its_digits() -> None:
    uid = 1_000_640_000
    rendered = render(
        {
            "podSecurityContext": {"fsGroup": uid},
            "securityContext": {"runAsUser": uid, "runAsGroup": uid},
            "settings": {"metrics": {"max-series-per-family": 1_000_000}},
            "openshift": {"securityContextConstraints": True},
        }
    )
    assert not re.search(r"\d[eE]\+\d", rendered.text)
    assert rendered.container["securityContext"]["runAsUser"] == uid
    assert rendered.pod["securityContext"]["fsGroup"] == uid
    assert yaml.safe_load(rendered.settings)["metrics"]["max-series-per-family"] == 1_000_000


@report(
    round=3,
    source="cert-manager/approver-policy#389, helm/helm#10392, "
    "mathworks-ref-arch/matlab-parallel-server-on-kubernetes#4",
    seen="A strict schema refused the «global» values that an umbrella chart gives to all its "
    "charts, so that the chart could be no dependency.",
    first="right",
    group="configuration",
)
def test_global_values_of_an_umbrella_chart_are_taken(tmp_path: Path) -> None:
    values = {
        "global": {
            "awsAccountId": "0042",
            "imageRegistry": "registry.example",
            "imagePullSecrets": ["pull"],
            "storageClass": None,
            "security": {"allowInsecureImages": True},
        }
    }
    pod = in_umbrella(tmp_path, {}, values).pod
    assert pod["containers"][0]["image"].startswith("registry.example/")
    assert pod["imagePullSecrets"] == [{"name": "pull"}]


@report(
    round=3,
    source="argoproj/argo-helm#1114, cilium/cilium#18115, prometheus-community/helm-charts#2391",
    seen="«helm upgrade --reuse-values» keeps the old version's defaults: values that are new are "
    "nil, and the upgrade ended with «nil pointer evaluating interface».",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("part", [0, 1, 2])
def test_values_that_an_older_version_did_not_have_are_their_defaults(part: int) -> None:
    """Each third of the sections is missing, as if it were new; nothing but the default results."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    sections = [name for name, value in defaults.items() if isinstance(value, dict) and value]
    rendered = render(dict.fromkeys(sections[part::3]))
    assert len(rendered.of("DaemonSet")) == 1
    assert rendered.one("DaemonSet")["metadata"]["name"]


@report(
    round=3,
    source="argoproj/argo-cd#21135, argoproj/argo-cd#16355",
    seen="An amount in a form that Kubernetes does not keep, as 1000m, or an empty field that it "
    "drops, made Argo CD see a difference for ever.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
def test_amounts_have_the_form_that_the_api_server_keeps(values: dict[str, Any]) -> None:
    amount = re.compile(r"\.(requests|limits)\.(cpu|memory)$")
    for one in render(values).objects:
        for path, value in leaves(one):
            if not amount.search(path):
                continue
            assert isinstance(value, str), (one["kind"], path, value)
            assert re.fullmatch(r"[1-9]\d*(m|Mi|Gi)?", value), (path, value)
            number = int(re.sub(r"\D", "", value))
            assert not (value.endswith("m") and number % 1000 == 0), (path, value)
            assert not (value.endswith("Mi") and number % 1024 == 0), (path, value)


@report(
    round=3,
    source="GreptimeTeam/helm-charts#362",
    seen="Who emptied the requests and limits got «requests: {}» in the pod, which Kubernetes "
    "drops: Argo CD was never in sync.",
    first="right",
    group="configuration",
)
def test_who_wants_no_requests_gets_no_empty_field() -> None:
    for resources in ({"requests": None, "limits": None}, None):
        container = render({"resources": resources}).container
        assert all(container.get("resources", {"": True}).values()), container["resources"]


@report(
    round=3,
    source="prometheus-community/helm-charts#2876, #4735, grafana/k8s-monitoring-helm#350",
    seen="A DaemonSet for all nodes had pods on Fargate's nodes too, which take none: Pending for "
    "ever, and alerts about it.",
    first="wrong",
    kind="One platform's name is taken for all",
    group="configuration",
)
def test_on_all_nodes_means_on_all_that_take_a_daemonset() -> None:
    affinity = render({"gpuNodeLabels": []}).pod["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    for term in terms:
        left_out = {
            (one["key"], value)
            for one in term["matchExpressions"]
            if one["operator"] == "NotIn"
            for value in one["values"]
        }
        assert ("eks.amazonaws.com/compute-type", "fargate") in left_out
        assert ("type", "virtual-kubelet") in left_out


@report(
    round=3,
    source="ricsanfre/pi-cluster#18, grafana/grafana#10786",
    seen="Dashboards that were exported for sharing name their data source by an input, which the "
    "sidecar does not fill in: «Datasource named ${DS_PROMETHEUS} was not found».",
    first="right",
    group="configuration",
)
def test_a_dashboard_of_the_sidecar_needs_no_input() -> None:
    rendered = render({"dashboards": {"enabled": True}})
    found = {
        name: json.loads(text)
        for one in rendered.of("ConfigMap")
        for name, text in one["data"].items()
        if name.endswith(".json")
    }
    assert len(found) >= 6
    for name, board in found.items():
        assert board == json.loads((ROOT / "dashboards" / name).read_text()), name
        assert "__inputs" not in board, name
        assert "${DS_" not in json.dumps(board), name
        variables = {one["name"] for one in board["templating"]["list"]}
        used = set(re.findall(r'"uid": "\$\{?(\w+)\}?"', json.dumps(board)))
        assert used <= variables, name


@report(
    round=3,
    source="fluxcd/flux2#2148, fluxcd/flux2-monitoring-example#44",
    seen="Flux replaces ${…} in all that a Kustomization applies: what is no variable of Flux "
    "became empty, dashboards without a data source among it.",
    first="right",
    group="configuration",
)
def test_no_manifest_has_what_flux_would_replace() -> None:
    """Those that the documents say to apply as they are; Flux leaves what Helm makes alone."""
    applied = [*sorted((ROOT / "deploy").glob("*.yaml")), *sorted((ROOT / "examples").rglob("*"))]
    for path in applied:
        if path.suffix == ".yaml" and "kind:" in (text := path.read_text()):
            assert "${" not in text, path
