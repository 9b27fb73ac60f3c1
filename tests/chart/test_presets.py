"""The presets of platforms: their files, what they make, and which nodes they are for."""

import json
from typing import Any

import pytest
import yaml

from charts.table.labels import LABELS
from charts.table.presets import PRESETS, Preset
from exporter.agent.allocations.registry import SCHEMES
from tests.chart.matrix import PROFILES
from tests.chart.rendering import CHART, NAMESPACE, Rendered, render, template

pytestmark = pytest.mark.program("helm")

FILES = {preset.name: CHART / "presets" / f"{preset.name}.yaml" for preset in PRESETS}
STACK, PAGE = "kube-prometheus-stack", "page"
OF_OTHER_VENDORS = {"amd-device-plugin", "intel-device-plugin"}  # presets of their own

presets = pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)


def with_files(*names: str, **values: Any) -> Rendered:
    """Rendered as a user does: with files, and what the user sets."""
    files = [word for name in names for word in ("--values", str(FILES[name]))]
    own = ["--set-json", json.dumps(values)] if values else []
    return Rendered(template(CHART, "{}", *files, *own))


@presets
def test_a_file_has_its_values(preset: Preset) -> None:
    assert yaml.safe_load(FILES[preset.name].read_text()) == preset.values


def leaves(values: Any, *path: str) -> set[tuple[str, ...]]:
    """Where values stand that are no mappings."""
    if not isinstance(values, dict):
        return {path}
    return {found for key, value in values.items() for found in leaves(value, *path, key)}


def test_no_platform_sets_what_the_monitoring_stack_sets() -> None:
    values = {preset.name: leaves(preset.values) for preset in PRESETS}
    platforms = values.keys() - {STACK, PAGE}
    assert {name: both for name in platforms if (both := values[name] & values[STACK])} == {}


@pytest.mark.parametrize("platform", ["gpu-operator", "openshift"])
def test_a_platform_and_the_monitoring_stack_go_together(platform: str) -> None:
    rendered = with_files(platform, STACK)
    assert rendered.one("DaemonSet") == with_files(platform).one("DaemonSet")
    for kind in ("PodMonitor", "PrometheusRule"):
        assert rendered.one(kind)["metadata"]["labels"]["release"] == STACK
    assert any("grafana_dashboard" in c["metadata"]["labels"] for c in rendered.of("ConfigMap"))


def test_the_page_is_opened_beside_the_stack_whose_prometheus_shows_its_own_token() -> None:
    rendered = with_files("gpu-operator", STACK, PAGE)
    monitor = rendered.one("ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == STACK
    assert not rendered.of("PodMonitor")
    assert "--web.kubernetes-access" in rendered.args
    bound = [one["subjects"][0]["name"] for one in rendered.of("ClusterRoleBinding")]
    assert "system:serviceaccounts:monitoring" in bound


def test_what_the_user_sets_goes_before_a_preset() -> None:
    rendered = with_files("gke", priorityClassName="")
    assert "priorityClassName" not in rendered.pod
    assert with_files("gke").pod["priorityClassName"] == "system-node-critical"


@pytest.mark.slow
@presets
def test_only_gke_is_privileged_and_there_still_as_its_own_user(preset: Preset) -> None:
    context = with_files(preset.name).container["securityContext"]
    assert context.get("privileged", False) is (preset.name == "gke")
    if preset.name == "gke":
        assert (context["runAsUser"], context["runAsNonRoot"]) == (61045, True)
        assert context["readOnlyRootFilesystem"] is True


@presets
def test_a_runtime_class_is_named_only_where_the_platform_has_one(preset: Preset) -> None:
    named = "runtimeClassName" in with_files(preset.name).pod
    assert named is (preset.name in {"gpu-operator", "talos", "openshift"})


def test_the_default_names_no_runtime_class_that_helm_has_not_seen() -> None:
    rendered = render()
    assert "runtimeClassName" not in rendered.pod
    assert rendered.env["NVIDIA_VISIBLE_DEVICES"] == "all"


# --- OpenShift ------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_openshifts_constraints_allow_what_the_pod_has_and_no_more(profile: str) -> None:
    rendered = with_files("openshift", profile=profile)
    allowed = rendered.one("SecurityContextConstraints")
    context = rendered.container["securityContext"]
    assert allowed["allowHostPID"] is rendered.pod["hostPID"] is True
    assert allowed["allowHostNetwork"] is rendered.pod["hostNetwork"] is False
    assert allowed["allowPrivilegedContainer"] is False
    assert allowed["allowPrivilegeEscalation"] is context["allowPrivilegeEscalation"] is False
    assert allowed["allowedCapabilities"] == context["capabilities"].get("add", [])
    kinds = {next(key for key in volume if key != "name") for volume in rendered.pod["volumes"]}
    assert kinds <= set(allowed["volumes"])
    users = allowed["runAsUser"]
    if context["runAsUser"] == 0:
        assert users == {"type": "RunAsAny"}
    else:
        assert users["uidRangeMin"] <= context["runAsUser"] <= users["uidRangeMax"]


def test_openshifts_constraints_allow_what_is_added_to_the_pods() -> None:
    """With constraints that lack it no pod would come at all."""
    context = {
        "runAsUser": 0,
        "allowPrivilegeEscalation": True,
        "readOnlyRootFilesystem": False,
        "capabilities": {"add": ["NET_RAW"]},
    }
    added = {"name": "more", "image": "busybox", "securityContext": context}
    plain = {"name": "plain", "image": "busybox"}
    for extra in ({"extraContainers": [plain, added]}, {"initContainers": [added]}):
        allowed = with_files("openshift", **extra).one("SecurityContextConstraints")
        assert allowed["runAsUser"] == {"type": "RunAsAny"}
        assert allowed["allowPrivilegeEscalation"] is True
        assert allowed["readOnlyRootFilesystem"] is False
        assert allowed["allowedCapabilities"] == ["NET_RAW"]
    plainly = with_files("openshift", extraContainers=[plain]).one("SecurityContextConstraints")
    assert plainly == with_files("openshift").one("SecurityContextConstraints")


def test_the_pods_ask_for_the_constraints_and_their_account_may_use_them() -> None:
    rendered = with_files("openshift")
    name = rendered.one("SecurityContextConstraints")["metadata"]["name"]
    account = {
        "kind": "ServiceAccount",
        "name": rendered.pod["serviceAccountName"],
        "namespace": NAMESPACE,
    }
    (rule,) = rendered.one("Role")["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == ([name], ["use"])
    assert rendered.one("RoleBinding")["subjects"] == [account]
    assert (
        rendered.one("RoleBinding")["roleRef"]["name"] == rendered.one("Role")["metadata"]["name"]
    )
    test = rendered.one("Pod")
    assert test["spec"]["serviceAccountName"] == account["name"]
    for annotations in (rendered.annotations, test["metadata"]["annotations"]):
        assert annotations["openshift.io/required-scc"] == name


def test_no_other_cluster_is_asked_for_openshifts_objects() -> None:
    rendered = render()
    assert not rendered.of("SecurityContextConstraints")
    assert "openshift.io/required-scc" not in rendered.annotations
    assert "serviceAccountName" not in rendered.one("Pod")["spec"]


# --- nodes ----------------------------------------------------------------------------------------


def test_every_sharing_system_has_a_label_of_its_nodes() -> None:
    known = {scheme for one in LABELS for scheme in one.schemes}
    assert known == {scheme.name for scheme in SCHEMES} - OF_OTHER_VENDORS


def test_the_defaults_have_every_label_of_the_table_once() -> None:
    found = [
        (one["key"], "".join(one.get("values", [])))
        for one in yaml.safe_load((CHART / "values.yaml").read_text())["gpuNodeLabels"]
    ]
    assert sorted(found) == sorted({pair for one in LABELS for pair in one.labels})
