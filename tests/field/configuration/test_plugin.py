"""What users of other plug-ins of kubectl met: their logins, their paths, the pod asked."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exporter.answers.kubectl.apiroute import door_of
from exporter.answers.kubectl.cluster import UserCluster
from exporter.answers.kubectl.forward import Forwarder
from exporter.apiserver.client import Load, connect, from_kubeconfig, from_service_account
from tests.answers.kubectl.cluster import pod
from tests.field.configuration.api import NAMESPACE, NEAR, POD, Asked, Kubeconfig
from tests.field.configuration.test_kubectl import asks
from tests.field.report import report

V1, V1BETA1 = (f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
LABELS = {"app.kubernetes.io/name": "mgpu-exporter"}
SELECTOR = "app.kubernetes.io/name=mgpu-exporter"


def login(folder: Path, version: str) -> Path:
    """A plug-in for credentials."""
    folder.mkdir(exist_ok=True)
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "mine"}}
    plugin = folder / "login"
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    plugin.chmod(0o755)
    return plugin


def exporters(*pods: Mapping[str, Any], folder: Path) -> list[str]:
    """The exporters' pods that are asked."""
    with Asked([dict(one) for one in pods]) as api:
        load = from_kubeconfig(str(Kubeconfig(api.url).write(folder / "config")))
        with Forwarder(door_of(load)) as forwarder:
            found = UserCluster(load, forwarder, dict, (NAMESPACE,)).exporters(SELECTOR)  # type: ignore[arg-type] # never called
    return [one.pod for one in found]


@report(
    round=3,
    source="kubernetes-client/python#637, fabric8io/kubernetes-client#3733, kr8s-org/kr8s#171",
    seen="Kubeconfigs of EKS and GKE have args: null and env: null at their login, which a client "
    "took for something to go through.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("nothing", [None, []])
def test_a_login_may_have_nothing_for_arguments_and_variables(
    nothing: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = str(login(tmp_path / "bin", V1BETA1))
    own = {"args": nothing, "env": nothing, "installHint": None, "provideClusterInfo": False}
    user = {"exec": {"apiVersion": V1BETA1, "command": plugin, **own}}
    with Asked() as cluster:
        asks(Kubeconfig(cluster.url, user).write(tmp_path / "a"))
    assert NEAR in capsys.readouterr().err
    assert {headers["Authorization"] for _, headers in cluster.heard} == {"Bearer mine"}


@report(
    round=3,
    source="similarweb/kubectl-ipick#32",
    seen="A plug-in did not know the version v1 of logins, which kubectl has had since 1.22.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_login_of_each_version_is_known(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    user = {
        "exec": {
            "apiVersion": version,
            "command": str(login(tmp_path / "bin", version)),
            "interactiveMode": "IfAvailable",
            "provideClusterInfo": True,
        }
    }
    with Asked() as cluster:
        asks(Kubeconfig(cluster.url, user).write(tmp_path / "a"))
    assert NEAR in capsys.readouterr().err


@report(
    round=3,
    source="kube-rs/kube#2037, kdash-rs/kdash#541",
    seen="A login with a relative path was looked for where the program was started, and not "
    "beside the kubeconfig as kubectl does.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("command", ["../bin/login", "./login"])
def test_the_path_of_a_login_begins_at_the_kubeconfigs_folder(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "kube"
    home.mkdir()
    login((home / command).parent, V1)
    monkeypatch.chdir(tmp_path)
    user = {"exec": {"apiVersion": V1, "command": command, "interactiveMode": "Never"}}
    with Asked() as cluster:
        asks(Kubeconfig(cluster.url, user).write(home / "config"))
    assert NEAR in capsys.readouterr().err


@report(
    round=3,
    source="kubernetes/kubeadm#1670, harbur/kubernetic#53",
    seen="A certificate authority with a relative path was looked for in the working folder.",
    first="right",
    group="configuration",
)
def test_the_path_of_an_authority_begins_at_the_kubeconfigs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "kube"
    home.mkdir()
    (home / "ca.pem").write_text("of the cluster\n")
    path = Kubeconfig("https://c.invalid", cluster={"certificate-authority": "ca.pem"}).write(
        home / "config"
    )
    monkeypatch.chdir(tmp_path)
    assert Path(configured(from_kubeconfig(str(path))).ssl_ca_cert) == home / "ca.pem"


def configured(load: Load) -> Any:
    """What a client is told of a server."""
    from kubernetes.client import Configuration  # noqa: PLC0415 - takes most of a second

    configuration = Configuration()
    load(configuration)
    return configuration


@report(
    round=3,
    source="gocd/kubernetes-elastic-agents#446, projectcalico/cni-plugin#483",
    seen="In a cluster of IPv6 the server's address got no brackets, and nothing connected.",
    first="right",
    group="configuration",
)
def test_an_address_of_ipv6_has_its_brackets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("c")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00:10::1", "KUBERNETES_SERVICE_PORT": "443"}
    load = from_service_account(environ, tmp_path)
    assert configured(load).host == "https://[fd00:10::1]:443"
    path = Kubeconfig("https://[fd00:10::1]:6443", cluster={"insecure-skip-tls-verify": True})
    client = from_kubeconfig(str(path.write(tmp_path / "a")))
    assert connect(client).configuration.host == "https://[fd00:10::1]:6443"


@report(
    round=3,
    source="etopeter/kubectl-view-utilization#55, gma1k/podtrace#185",
    seen="A plug-in took «default» in place of the context's namespace, and refused --context with "
    "the name of the current one.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("more", [[], ["--context=here"]])
def test_the_namespace_is_the_contexts_also_where_the_current_one_is_named(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Asked([pod("segment-9", "default", "n1")]) as cluster:
        asks(Kubeconfig(cluster.url).write(tmp_path / "a"), *more)
    assert NEAR in capsys.readouterr().err
    assert cluster.heard[0][0].startswith(f"/api/v1/namespaces/{NAMESPACE}/")


@report(
    round=3,
    source="gabeduke/kubectl-iexec#46",
    seen="A plug-in listed the pods of all namespaces to find one in the own: slow in a large "
    "cluster, and forbidden to most.",
    first="right",
    group="configuration",
)
def test_who_has_a_pod_of_his_own_asks_for_no_list_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from exporter.answers.kubectl.plugin import main  # noqa: PLC0415 - as a user types it

    with Asked(refused=("/api/v1/pods",)) as cluster:
        path = Kubeconfig(cluster.url).write(tmp_path / "a")
        main(["why", POD, "--since=1s", f"--kubeconfig={path}"])
    assert "/api/v1/pods" not in {path for path, _ in cluster.heard}
    assert "forbidden" not in capsys.readouterr().err


@report(
    round=3,
    source="fission/fission#1619, txn2/kubefwd#125, eko/monday#199",
    seen="A port-forward went to an evicted or pending pod with the label, beside one that ran.",
    first="right",
    group="configuration",
)
def test_a_pod_that_does_not_run_is_asked_nothing_beside_one_that_does(tmp_path: Path) -> None:
    evicted, pending, ended = (
        pod(f"a-{phase.lower()}", NAMESPACE, "n1", labels=LABELS)
        for phase in ("Failed", "Pending", "Succeeded")
    )
    for one, phase in ((evicted, "Failed"), (pending, "Pending"), (ended, "Succeeded")):
        one["status"] = {"phase": phase}
    runs = pod("b-running", NAMESPACE, "n1", labels=LABELS)
    runs["status"]["phase"] = "Running"
    assert exporters(evicted, pending, ended, runs, folder=tmp_path) == ["b-running"]


@report(
    round=3,
    source="kubernetes/kubectl#1409, oliviabarrick/go-k8s-portforward#7",
    seen="During a restart a port-forward went to the pod that was being ended, though its "
    "successor was ready.",
    first="wrong",
    kind="What is there is taken for what stays",
    group="configuration",
)
def test_a_pod_that_is_being_ended_is_asked_nothing_beside_its_successor(tmp_path: Path) -> None:
    old, new = (pod(name, NAMESPACE, "n1", labels=LABELS) for name in ("a-old", "b-new"))
    old["metadata"]["deletionTimestamp"] = "2026-06-01T10:00:00Z"
    assert exporters(old, new, folder=tmp_path) == ["b-new"]


@report(
    round=3,
    source="Backblaze/B2_Command_Line_Tool#1071, browser-history/browser-history#281",
    seen="Where the output went to head, what was printed last was a traceback.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_who_reads_no_further_gets_no_traceback(unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "exporter", "bill", "--help"],
            stdout=writer,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            text=True,
            check=False,
        )
    finally:
        os.close(writer)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
