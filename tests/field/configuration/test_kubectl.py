"""What users of kubectl and its plug-ins met: kubeconfigs, proxies, credentials, terminals."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.answers.kubectl.apiroute import door_of
from exporter.answers.kubectl.forward import Forwarder
from exporter.answers.kubectl.plugin import main
from exporter.apiserver.client import from_kubeconfig
from tests.answers.kubectl.cluster import pod
from tests.field.configuration.api import NAMESPACE, NEAR, POD, Asked, Kubeconfig
from tests.field.report import report


def asks(kubeconfig: object, *more: str) -> int:
    """Ask about a pod that is not there: who reached the cluster is told one that is."""
    return main(["why", "segment", "--since=1s", f"--kubeconfig={kubeconfig}", *more])


# --- which kubeconfig -----------------------------------------------------------------------------


@report(
    source="kubernetes-client/python#2180",
    seen="Of two files in KUBECONFIG the first named no current context, and the client failed "
    "where kubectl takes the second's.",
    first="right",
    group="configuration",
)
def test_the_current_context_is_that_of_the_first_file_that_names_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Asked() as cluster:
        nameless = Kubeconfig("http://127.0.0.1:1", without=("current-context", "contexts"))
        first = nameless.write(tmp_path / "a")
        asks(f"{first}:{Kubeconfig(cluster.url, parts={'users': []}).write(tmp_path / 'b')}")
    assert "127.0.0.1:1" in capsys.readouterr().err  # clusters of the first file win, as kubectl's


@report(
    source="kubernetes-client/python-base#183",
    seen="A file whose last context was deleted has contexts: null, and merging it failed.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("order", [1, -1])
def test_a_file_that_has_no_contexts_left_is_no_obstacle(
    order: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = dict.fromkeys(("clusters", "users", "contexts"))
    with Asked() as cluster:
        files = [
            Kubeconfig("http://127.0.0.1:1", parts=nothing).write(tmp_path / "a"),
            Kubeconfig(cluster.url).write(tmp_path / "b"),
        ]
        asks(":".join(map(str, files[::order])))
    assert NEAR in capsys.readouterr().err


@report(
    source="kubernetes-client/python-base#162",
    seen="Files that have contexts only, as Kubernetes' documents show, raised a KeyError.",
    first="right",
    group="configuration",
)
def test_clusters_users_and_contexts_may_come_from_files_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Asked() as cluster:
        whole = ("clusters", "users", "contexts")
        files = [
            Kubeconfig(cluster.url, without=tuple(other for other in whole if other != part)).write(
                tmp_path / part
            )
            for part in whole
        ]
        asks(":".join(map(str, files)))
    assert NEAR in capsys.readouterr().err


@report(
    source="kubernetes/kubernetes#4659",
    seen="An empty file, as touch leaves it, stopped the merging of the others.",
    first="wrong",
    group="configuration",
    kind="a library's reading taken for kubectl's",
)
def test_an_empty_file_among_others_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").touch()
    with Asked() as cluster:
        asks(f"{tmp_path / 'empty'}:{Kubeconfig(cluster.url).write(tmp_path / 'b')}")
    assert NEAR in capsys.readouterr().err


@report(
    source="kubernetes-client/python#1193, hjacobs/kube-ops-view#133",
    seen="A file without a current context was refused, although the context was named.",
    first="wrong",
    group="configuration",
    kind="a library's reading taken for kubectl's",
)
@pytest.mark.parametrize("without", [(), ("current-context",)])
def test_a_context_that_is_named_needs_no_current_one(
    without: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Asked() as cluster:
        written = Kubeconfig(cluster.url, parts={"current-context": ""}, without=without)
        asks(written.write(tmp_path / "a"), "--context=here")
    assert NEAR in capsys.readouterr().err


@report(
    source="kubernetes/kubernetes#77826",
    seen="A KUBECONFIG that leads nowhere was passed over, and localhost was asked.",
    first="right",
    group="configuration",
)
def test_a_kubeconfig_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "gone"))
    assert main(["why", POD, "--since=1s"]) == 2
    assert f"{tmp_path / 'gone'}: no such file" in capsys.readouterr().err


# --- who asks -------------------------------------------------------------------------------------


@report(
    source="kubernetes-client/python#362, fabric8io/kubernetes-client#7951",
    seen="A kubeconfig that impersonates somebody was read, and every request was sent with the "
    "rights of the one behind it, without a word.",
    first="wrong",
    group="configuration",
    kind="a library's reading taken for kubectl's",
)
def test_who_acts_as_another_is_asked_for_as_that_one_and_shows_no_token_of_his_own(
    tmp_path: Path,
) -> None:
    user = {
        "token": "of-the-admin",
        "as": "dev@example.org",
        "as-uid": "42",
        "as-groups": ["vision", "all"],
        "as-user-extra": {"reason": ["a page"]},
    }
    with Asked() as cluster:
        path = Kubeconfig(cluster.url, user).write(tmp_path / "a")
        asks(path)
        shown = door_of(from_kubeconfig(str(path))).token
    assert cluster.heard
    for _, headers in cluster.heard:
        assert headers["Authorization"] == "Bearer of-the-admin"
        assert headers["Impersonate-User"] == "dev@example.org"
        assert headers["Impersonate-Uid"] == "42"
        assert headers["Impersonate-Extra-reason"] == "a page"
        assert headers.getall("Impersonate-Group") == ["vision", "all"]
    # An exporter asks about the token that it is shown, which is the admin's: it gets none.
    assert shown == ""


@report(
    source="ManageIQ/kubeclient#677",
    seen="A token beside a tokenFile is an old one: kubectl takes the file's, the client did not "
    "know the field.",
    first="wrong",
    group="configuration",
    kind="a library's reading taken for kubectl's",
)
def test_of_a_token_and_a_file_of_one_the_files_is_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("fresh\n")
    user = {"token": "stale", "tokenFile": "token"}
    with Asked() as cluster:
        asks(Kubeconfig(cluster.url, user).write(tmp_path / "a"))
    assert {headers["Authorization"] for _, headers in cluster.heard} == {"Bearer fresh"}


@report(
    source="kube-rs/kube#1607",
    seen="A context whose user is empty, which kubectl takes for nobody, was refused.",
    first="right",
    group="configuration",
)
def test_a_context_without_a_user_asks_as_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = {"cluster": "c", "user": "", "namespace": NAMESPACE}
    with Asked() as cluster:
        parts = {"contexts": [{"name": "here", "context": nobody}]}
        asks(Kubeconfig(cluster.url, parts=parts).write(tmp_path / "a"))
    assert NEAR in capsys.readouterr().err
    assert all("Authorization" not in headers for _, headers in cluster.heard)


@report(
    source="kubernetes-client/python#1946, UKGovernmentBEIS/inspect_k8s_sandbox#179",
    seen="A program that ran longer than its token lived got 401 for ever, where kubectl runs the "
    "plug-in for credentials again.",
    first="wrong",
    group="configuration",
    kind="asked once, though it changes",
)
def test_a_token_that_ran_out_is_asked_for_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    plugin = tmp_path / "login"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "TOKEN", "expirationTimestamp": "2020-01-01T00:00:00Z"},
    }
    text = json.dumps(credential).replace("TOKEN", "t'$(wc -l < count)'")
    plugin.write_text(f"#!/bin/sh\ncd {tmp_path}\necho x >> {count}\necho '{text}'\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": credential["apiVersion"], "command": str(plugin)}}
    with Asked() as cluster:
        credentials = from_kubeconfig(str(Kubeconfig(cluster.url, user).write(tmp_path / "a")))
        with Forwarder(door_of(credentials)) as forwarder:
            for _ in range(2):
                forwarder.open(NAMESPACE, POD, cluster.port)
    shown = [headers["Authorization"] for path, headers in cluster.heard if "portforward" in path]
    assert len(set(shown)) == len(shown) == 2


@report(
    source="kubernetes-client/python#1409",
    seen="A plug-in for credentials failed, and the client went on as nobody: what was printed "
    "last was that system:anonymous is forbidden something.",
    first="wrong",
    group="configuration",
    kind="a library's reading taken for kubectl's",
)
@pytest.mark.parametrize("command", ["no-such-login", "./login"])
def test_a_login_that_failed_is_the_last_word(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = tmp_path / "login"
    plugin.write_text("#!/bin/sh\necho 'the session has ended' >&2\nexit 255\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    version = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": version, "command": command, "interactiveMode": "Never"}}
    with Asked() as cluster:
        assert asks(Kubeconfig(cluster.url, user).write(tmp_path / "a")) == 2
    assert not cluster.heard
    said = capsys.readouterr().err.splitlines()[-1]
    assert command.strip("./") in said
    assert "the session has ended" in said or command == "no-such-login"


# --- through what ---------------------------------------------------------------------------------


@report(
    source="kubernetes-client/python#1862, #2183",
    seen="The proxy-url of a kubeconfig was not used.",
    first="right",
    group="configuration",
)
def test_the_proxy_of_a_kubeconfig_is_used_for_requests_and_for_forwarded_ports(
    tmp_path: Path,
) -> None:
    with Asked() as proxy:
        cluster = {"proxy-url": proxy.url}
        path = Kubeconfig("http://cluster.invalid", cluster=cluster).write(tmp_path / "a")
        asks(path)
        with Forwarder(door_of(from_kubeconfig(str(path)))) as forwarder:
            forwarder.open(NAMESPACE, POD, proxy.port)
    assert {headers["Host"] for _, headers in proxy.heard} == {"cluster.invalid"}
    assert "portforward" in proxy.heard[-1][0]


@report(
    source="kubernetes-client/python#1578, kubernetes-client/python-base#259",
    seen="no_proxy was heeded by requests and not by WebSockets, so that a cluster on the own "
    "network was asked through the proxy.",
    first="wrong",
    group="configuration",
    kind="a second way that forgets what the first knows",
)
def test_a_cluster_that_needs_no_proxy_is_reached_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,127.0.0.0/8,.example.org")
    with Asked() as cluster:
        path = Kubeconfig(cluster.url).write(tmp_path / "a")
        asks(path)
        with Forwarder(door_of(from_kubeconfig(str(path)))) as forwarder:
            forwarder.open(NAMESPACE, POD, cluster.port)
    assert "portforward" in cluster.heard[-1][0]


@report(
    source="kubernetes-client/python-base#270, kubernetes/kubernetes#58065",
    seen="Through a SOCKS proxy requests went, and port-forwards did not.",
    first="wrong",
    group="configuration",
    kind="a refusal that names no remedy",
)
def test_a_proxy_that_is_not_spoken_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = {"proxy-url": "socks5://127.0.0.1:1080"}
    assert asks(Kubeconfig("https://c.invalid", cluster=cluster).write(tmp_path / "a")) == 2
    said = capsys.readouterr().err
    assert "socks5://127.0.0.1:1080" in said
    assert "HTTPS_PROXY" in said


@report(
    source="rancher/rancher#30276, kubernetes/kubectl#985",
    seen="A port-forward failed where the server's address has a path, as Rancher's.",
    first="right",
    group="configuration",
)
def test_a_path_of_the_servers_address_goes_before_each_request(tmp_path: Path) -> None:
    with Asked() as cluster:
        path = Kubeconfig(f"{cluster.url}/k8s/clusters/c-1/").write(tmp_path / "a")
        asks(path)
        door = door_of(from_kubeconfig(str(path)))
    assert {path[:21] for path, _ in cluster.heard} == {"/k8s/clusters/c-1/api"}
    assert door.host == f"{cluster.url}/k8s/clusters/c-1"


@report(
    source="envoyproxy/gateway#5276, kubernetes-client/python#1849",
    seen="A proxy before the API server refused to upgrade the connection with 403, and the client "
    "left out the reason, so that it looked like a missing right.",
    first="wrong",
    group="configuration",
    kind="a status taken for its usual cause",
)
def test_a_proxys_refusal_is_not_taken_for_a_missing_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused_by(tmp_path, 403, "upgrade_failed") == 2
    said = capsys.readouterr().err
    assert "upgrade_failed" in said
    assert "you need get and create" not in said
    right = 'pods "a" is forbidden: User "u" cannot get resource "pods/portforward"'
    assert refused_by(tmp_path, 403, right) == 2
    assert "you need get and create on pods/portforward" in capsys.readouterr().err


@report(
    source="gravitational/teleport#18783, gravitational/teleport#15474",
    seen="A proxy for logins forwarded ports by SPDY alone: by WebSocket came 500, and nothing "
    "said what else could be done.",
    first="wrong",
    group="configuration",
    kind="a refusal that names no remedy",
)
def test_where_no_port_can_be_forwarded_the_other_way_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused_by(tmp_path, 500, "no stream for you") == 2
    said = capsys.readouterr().err
    assert "no stream for you" in said
    assert "--url" in said


def refused_by(folder: Path, status: int, words: str) -> int:
    """Ask an exporter where port-forwards are answered so."""
    labels = {"app.kubernetes.io/name": "mgpu-exporter"}
    agent = pod("mgpu-n1", "mgpu-exporter", "n1", 1, labels)
    below = "/api/v1/namespaces/mgpu-exporter/pods/"
    with Asked([agent], refused=(below,), refusal=status, words=words) as cluster:
        path = Kubeconfig(cluster.url).write(folder / "a")
        return main(["top", "--once", f"--kubeconfig={path}"])


# --- what is printed ------------------------------------------------------------------------------


@report(
    source="peteromallet/desloppify#41, linode/linode-cli#161, Azure/azure-cli#26843",
    seen="On a terminal or pipe whose characters are not UTF-8 the first line of a table ended "
    "the program.",
    first="right",
    group="configuration",
)
@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_an_output_that_lacks_a_character_gets_another(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "exporter", "top", "--simulate=demo", "--once"],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
    )
    assert b"Traceback" not in done.stderr
    assert b"media/transcode-0" in done.stdout
