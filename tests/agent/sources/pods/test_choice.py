from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.agent.sources.pods.apiserverpods import ApiPods
from exporter.agent.sources.pods.chain import ChainedPods
from exporter.agent.sources.pods.kubeletpods import KubeletPods
from exporter.agent.sources.pods.logfilepods import FilePods
from exporter.agent.sources.pods.podfactory import PodAccess, node_name, open_pod_source
from exporter.agent.sources.pods.podsource import NoPods, SimulatedPods
from exporter.model import PodTable
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import pod_document

POD_ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "192.0.2.1", "KUBERNETES_SERVICE_PORT": "443"}


ADDRESS = "http://127.0.0.1:10255"


@pytest.mark.parametrize(
    ("kind", "kubeconfig", "environ", "token", "expected"),
    [
        ("none", "given", POD_ENVIRONMENT, "t", NoPods),
        ("auto", None, {}, None, NoPods),
        ("auto", None, {}, "t", NoPods),
        ("auto", None, POD_ENVIRONMENT, None, NoPods),
        ("auto", None, {"KUBERNETES_SERVICE_HOST": ""}, "t", NoPods),
        ("auto", None, POD_ENVIRONMENT, "t", ChainedPods),
        ("auto", "given", {}, None, ChainedPods),
        ("auto", None, {"KUBECONFIG": "/some/where"}, None, ChainedPods),
        ("api", None, {}, None, ApiPods),
        ("kubelet", None, {}, None, KubeletPods),
        ("files", None, POD_ENVIRONMENT, "t", FilePods),
    ],
)
def test_the_source_follows_from_the_setting_and_what_is_found(
    tmp_path: Path,
    kind: str,
    kubeconfig: str | None,
    environ: dict[str, str],
    token: str | None,
    expected: type,
) -> None:
    if token:
        (tmp_path / "token").write_text(token)
    assert type(open_pod_source(kind, "node-1", places(tmp_path, environ, kubeconfig))) is expected


def places(folder: Path, environ: Mapping[str, str], kubeconfig: str | None = None) -> PodAccess:
    return PodAccess(
        kubeconfig=kubeconfig,
        environ={"HOME": str(folder), **environ},
        service_account=folder,
        logs=folder / "log",
    )


def test_auto_finds_the_kubeconfig_of_the_home_directory(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("")
    assert open_pod_source("auto", "node-1", places(tmp_path, {})).name == "pods_api"


def test_auto_without_a_cluster_says_so_in_a_sentence(tmp_path: Path) -> None:
    status = open_pod_source("auto", "n", places(tmp_path, {})).status()
    assert status.up
    assert "neither in a cluster, nor is there a kubeconfig" in status.detail


def test_auto_without_credentials_takes_what_needs_none(tmp_path: Path) -> None:
    (tmp_path / "log" / "pods").mkdir(parents=True)
    found = places(tmp_path, {})
    assert type(open_pod_source("auto", "n", found)) is FilePods
    given = replace(found, kubelet=ADDRESS)
    assert open_pod_source("auto", "n", given).name == "pods_kubelet"


@pytest.mark.parametrize(
    ("environ", "given", "expected"),
    [
        ({}, "", "https://127.0.0.1:10250"),
        ({"NODE_IP": "192.0.2.7"}, "", "https://192.0.2.7:10250"),
        ({"NODE_IP": "fd00::7"}, "", "https://[fd00::7]:10250"),
        ({"NODE_IP": "192.0.2.7"}, ADDRESS, ADDRESS),
    ],
)
def test_the_kubelet_is_looked_for_at_the_authenticated_port_of_the_node(
    tmp_path: Path, environ: dict[str, str], given: str, expected: str
) -> None:
    assert replace(places(tmp_path, environ), kubelet=given).kubelet_url() == expected


def test_a_given_kubeconfig_comes_before_the_cluster_around(
    server: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("t")
    server.add_pod(pod_document("a"))
    path = write_kubeconfig(tmp_path / "config", server.url)
    source = open_pod_source("auto", "node-1", places(tmp_path, POD_ENVIRONMENT, str(path)))
    source.start()
    server.wait_for_watches(1)
    source.close()
    assert [pod.name for pod in source.table().pods.values()] == ["a"]


def test_the_node_name_is_the_given_one_then_the_environments_then_the_hosts() -> None:
    assert node_name("given", {"NODE_NAME": "env"}) == "given"
    assert node_name(None, {"NODE_NAME": "env"}) == "env"
    host = node_name("", {})
    assert host
    assert host == host.lower()


def test_sources_that_read_nothing_are_up_and_say_why_there_are_no_names() -> None:
    tables = iter([PodTable(1), PodTable(2)])
    for source, version in ((NoPods(), 0), (SimulatedPods(lambda: next(tables)), 1)):
        source.start()
        assert source.wait(3600)
        assert source.table().version == version
        assert source.status().up
        assert source.rejected() == {}
        source.close()
    assert "names of pods are off" in NoPods().status().detail
