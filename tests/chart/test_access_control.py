"""Kubernetes' access control by the chart: rights, roles, and how Prometheus shows its token."""

import re
from typing import Any

import pytest

from exporter.agent.web.views import PAGE, SCRAPE
from tests.chart.matrix import REVIEWED
from tests.chart.rendering import Refused, Rendered, render
from tests.chart.test_objects import endpoint

pytestmark = pytest.mark.program("helm")


def roles(rendered: Rendered) -> dict[str, Any]:
    """The cluster roles for others than the exporter, by the last part of their names."""
    found = rendered.of("ClusterRole")
    return {r["metadata"]["name"].rpartition("-")[2]: r["rules"] for r in found}


def test_access_control_gives_the_rights_to_ask_and_the_roles_to_bind() -> None:
    rendered = render(**REVIEWED)
    assert "--web.kubernetes-access" in rendered.args
    assert "--web.kubernetes-audiences=mgpu-exporter,second" in rendered.args
    assert ("authentication.k8s.io", "tokenreviews", "create") in rendered.rules
    assert ("authorization.k8s.io", "subjectaccessreviews", "create") in rendered.rules
    assert rendered.pod["automountServiceAccountToken"] is True
    made = roles(rendered)
    assert made["scrape"] == [{"nonResourceURLs": [SCRAPE.path], "verbs": [SCRAPE.verb]}]
    assert made["page"] == [{"nonResourceURLs": [PAGE.path], "verbs": [PAGE.verb]}]
    bound = {
        one["roleRef"]["name"].rpartition("-")[2]: one["subjects"]
        for one in rendered.of("ClusterRoleBinding")
    }
    control = REVIEWED["accessControl"]
    assert (bound["scrape"], bound["page"]) == (control["scrapers"], control["viewers"])
    token = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
    assert endpoint(rendered, "serviceMonitor")["bearerTokenFile"] == token


def test_a_monitors_own_authorization_is_taken_instead_of_the_token_file() -> None:
    given = {"credentials": {"name": "token", "key": "token"}}
    monitor = {"enabled": True, "authorization": given}
    rendered = render(accessControl={"enabled": True}, podMonitor=monitor)
    assert endpoint(rendered, "podMonitor")["authorization"] == given
    assert "bearerTokenFile" not in endpoint(rendered, "podMonitor")
    assert {"scrape", "page"} <= set(roles(rendered))
    names = [one["metadata"]["name"] for one in rendered.of("ClusterRoleBinding")]
    assert len(names) == 1  # the exporter's own; nobody was named


def test_without_access_control_there_is_nothing_of_it() -> None:
    rendered = render(serviceMonitor={"enabled": True})
    assert not {"scrape", "page"} & set(roles(rendered))
    assert "bearerTokenFile" not in endpoint(rendered, "serviceMonitor")
    assert not [one for one in rendered.args if "kubernetes-" in one]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"kubeRBACProxy": {"enabled": True}}, "kubeRBACProxy.enabled: both ask"),
        ({"web": {"config": {"basic_auth_users": {"a": "b"}}}}, "basic_auth_users: a request has"),
        ({"compat": {"dropIn": "dcgm"}}, "shows no token"),
        ({"podMonitor": {"enabled": True}}, "give podMonitor.authorization"),
        ({"settings": {"web": {"kubernetes-access": True}}}, "kubernetes-access"),
    ],
)
def test_access_control_refuses_what_contradicts_it(more: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=re.escape(words)):
        render(accessControl={"enabled": True}, **more)
