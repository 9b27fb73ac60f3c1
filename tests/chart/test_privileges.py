"""What the pod is given on its node and in the cluster, by profile and by source."""

import subprocess
import sys
from typing import Any

import pytest

from exporter.agent.sources.node.kubeletcalls import SOCKET
from tests.chart.matrix import ACCESSES, PROFILES
from tests.chart.rendering import Refused, Rendered, render
from tests.chart.test_users import EXPORTER

pytestmark = pytest.mark.program("helm")


PODS = {("", "pods", "list"), ("", "pods", "watch"), ("", "nodes", "get")}
KUBELET = {("", "nodes/pods", "get")}
CLAIMS = {
    ("resource.k8s.io", "resourceclaims", "get"),
    ("resource.k8s.io", "resourceslices", "list"),
    ("resource.k8s.io", "devicetaintrules", "list"),
}
LOGS = {"/var/log/pods": "/var/log/pods", "/var/log/containers": "/var/log/containers"}
CGROUP = {"/sys/fs/cgroup": "/host/sys/fs/cgroup"}
CAPABILITIES = ["DAC_READ_SEARCH", "SYS_PTRACE"]
LOOK = """
import os, sys
for name in os.listdir(f"/proc/{sys.argv[1]}/fd"):
    os.readlink(f"/proc/{sys.argv[1]}/fd/{name}")
    open(f"/proc/{sys.argv[1]}/fdinfo/{name}").read()
"""


def harmless(rendered: Rendered) -> bool:
    """Whether the container is not privileged, writes nothing and gains no rights."""
    context = rendered.container["securityContext"]
    return (
        "privileged" not in context
        and context["allowPrivilegeEscalation"] is False
        and context["readOnlyRootFilesystem"] is True
        and context["capabilities"]["drop"] == ["ALL"]
        and rendered.pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        and all(m["readOnly"] for m in rendered.container["volumeMounts"])
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_no_profile_is_privileged_or_writes_or_escalates(profile: str) -> None:
    """All profiles with all ways to the driver: ``test_matrix``."""
    assert harmless(render(profile=profile))


@pytest.mark.parametrize("access", ACCESSES)
def test_no_way_to_the_driver_takes_a_capability(access: str) -> None:
    rendered = render(profile="minimal", gpuAccess=access)
    assert harmless(rendered)
    assert rendered.container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("profile", ["minimal", "mig"])
def test_only_podresources_and_fdinfo_are_root(profile: str) -> None:
    context = render(profile=profile).container["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (EXPORTER, EXPORTER)
    assert context["runAsNonRoot"] is True


@pytest.mark.parametrize("profile", ["podresources", "podresources-mig"])
def test_podresources_is_root_for_the_socket_that_is_roots(profile: str) -> None:
    rendered = render({"kubelet": {"rootDir": "/data/kubelet"}}, profile=profile)
    context = rendered.container["securityContext"]
    assert context["runAsUser"] == 0
    assert ("add" in context["capabilities"]) is (profile == "podresources-mig")
    assert rendered.host_paths["/data/kubelet/pod-resources"] == SOCKET.rpartition("/")[0]
    assert f"--kubelet.pod-resources-socket={SOCKET}" in rendered.args


def test_without_podresources_the_socket_is_neither_mounted_nor_asked() -> None:
    rendered = render()
    assert "--kubelet.pod-resources-socket=none" in rendered.args
    assert not any("pod-resources" in path for path in rendered.host_paths)


@pytest.mark.parametrize("access", ["runtimeClass", "env", "volumeMounts"])
def test_mig_is_asked_of_nvidias_runtime_which_wants_the_bounding_set(access: str) -> None:
    rendered = render(profile="mig", gpuAccess=access)
    assert rendered.env["NVIDIA_MIG_MONITOR_DEVICES"] == "all"
    context = rendered.container["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    assert context["runAsUser"] == EXPORTER  # who is not root does not get it from there


@pytest.mark.parametrize("access", ["cdi", "hostPath"])
def test_mig_adds_nothing_where_nvidias_runtime_is_not_asked(access: str) -> None:
    rendered = render(profile="mig", gpuAccess=access)
    assert "NVIDIA_MIG_MONITOR_DEVICES" not in rendered.env
    assert rendered.container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("profile", ["fdinfo", "podresources-fdinfo"])
def test_fdinfo_is_root_with_the_two_capabilities_that_it_takes(profile: str) -> None:
    rendered = render(profile=profile, gpuAccess="none")
    context = rendered.container["securityContext"]
    assert (context["runAsUser"], context["runAsNonRoot"]) == (0, False)
    assert context["capabilities"] == {"drop": ["ALL"], "add": CAPABILITIES}
    assert rendered.pod["hostPID"] is True
    assert any("pod-resources" in path for path in rendered.host_paths) is (profile != "fdinfo")


@pytest.mark.root
@pytest.mark.program("setpriv")
@pytest.mark.parametrize("left_out", [None, *CAPABILITIES])
def test_fdinfo_sees_descriptors_of_other_users_and_takes_both_capabilities_for_it(
    left_out: str | None,
) -> None:
    kept = ",".join(f"+{name.lower()}" for name in CAPABILITIES if name != left_out)
    reader = ["setpriv", f"--bounding-set=-all,{kept}", f"--inh-caps=-all,{kept}", sys.executable]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat"]
    with subprocess.Popen(nobody, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as theirs:
        looked = [*reader, "-c", LOOK, str(theirs.pid)]
        done = subprocess.run(looked, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (left_out is None), done.stderr
    assert left_out is None or "PermissionError" in done.stderr


@pytest.mark.parametrize(
    ("access", "runtime", "env", "annotated", "mounted"),
    [
        ("runtimeClass", "nvidia", True, False, False),
        ("env", None, True, False, False),
        ("cdi", None, False, True, False),
        ("hostPath", None, False, False, True),
        ("none", None, False, False, False),
        ("volumeMounts", None, True, False, False),
        ("auto", None, True, False, False),  # Helm sees no cluster here
    ],
)
def test_the_driver_comes_by_one_way_or_none(
    access: str,
    runtime: str | None,
    env: bool,  # noqa: FBT001 - a column
    annotated: bool,  # noqa: FBT001 - a column
    mounted: bool,  # noqa: FBT001 - a column
) -> None:
    rendered = render(gpuAccess=access)
    assert rendered.pod.get("runtimeClassName") == runtime
    assert ("NVIDIA_VISIBLE_DEVICES" in rendered.env) is env
    device = rendered.annotations.get("nvidia.cdi.k8s.io/container.mgpu-exporter")
    assert (device == "management.nvidia.com/gpu=all") is annotated
    assert ("/home/kubernetes/bin/nvidia/lib64" in rendered.host_paths) is mounted


def test_a_mount_asks_for_devices_where_the_variable_may_not() -> None:
    rendered = render(gpuAccess="volumeMounts")
    place = rendered.host_paths["/dev/null"]
    assert place == "/var/run/nvidia-container-devices/all"
    assert rendered.env["NVIDIA_VISIBLE_DEVICES"] == place.rpartition("/")[0]


SOURCE_CASES: list[tuple[dict[str, Any], set[Any], bool]] = [
    ({"source": "auto"}, PODS | CLAIMS, True),
    ({"source": "auto", "files": False}, PODS | CLAIMS, False),
    ({"source": "auto", "claims": False}, PODS, True),
    ({"source": "auto", "kubelet": True}, PODS | CLAIMS | KUBELET, True),
    ({"source": "api"}, PODS | CLAIMS, False),
    ({"source": "api", "claims": False}, PODS, False),
    ({"source": "kubelet"}, KUBELET, False),
    ({"source": "files"}, set(), True),
    ({"source": "none"}, set(), False),
]


@pytest.mark.parametrize(("pods", "rules", "logs"), SOURCE_CASES)
def test_a_source_has_its_permissions_and_mounts_and_no_other_has(
    pods: dict[str, Any],
    rules: set[Any],
    logs: bool,  # noqa: FBT001 - a column
) -> None:
    rendered = render(pods=pods)
    assert rendered.rules == rules
    assert rendered.host_paths == (CGROUP | LOGS if logs else CGROUP)
    assert rendered.pod["automountServiceAccountToken"] is bool(rules)
    assert len(rendered.of("ClusterRole")) == bool(rules)
    claims = ("resource.k8s.io", "resourceclaims", "get") in rules
    assert ("--pods.claims=off" not in rendered.args) is claims


ROOTS: list[dict[str, Any]] = [
    *({"profile": profile} for profile in PROFILES if profile not in {"minimal", "mig"}),
    {"securityContext": {"runAsUser": 0, "runAsNonRoot": False}},
    {"securityContext": {"runAsGroup": 0}},  # a log file is root's and its group may read it
    {"podSecurityContext": {"supplementalGroups": [10, 0]}},
    {"podSecurityContext": {"fsGroup": 0}},
]


@pytest.mark.slow
@pytest.mark.parametrize("values", ROOTS, ids=str)
def test_root_gets_the_log_folders_only_if_somebody_asked_for_them(values: dict[str, Any]) -> None:
    """It could read the logs of all pods: they are root's, and that takes no capability."""
    assert not LOGS.keys() & render(values).host_paths.keys()
    assert LOGS.keys() <= render(values, pods={"files": True}).host_paths.keys()


def test_the_log_folders_can_be_asked_for_by_helms_own_flag_and_by_the_source() -> None:
    for word, mounted in (("auto", True), (True, True), (False, False)):
        assert bool(LOGS.keys() & render(pods={"files": word}).host_paths.keys()) is mounted
    root = render(profile="fdinfo", pods={"source": "files"})
    assert LOGS.keys() <= root.host_paths.keys()


def test_the_kubelets_authority_is_mounted_only_if_the_kubelet_is_asked() -> None:
    kubelet = {"caFile": "/var/lib/kubelet/pki/kubelet.crt", "address": "https://10.0.0.1:10250"}
    asked = render(kubelet=kubelet, pods={"source": "kubelet"})
    assert asked.host_paths["/var/lib/kubelet/pki/kubelet.crt"] == "/host/kubelet-ca.crt"
    assert "--kubelet.ca-file=/host/kubelet-ca.crt" in asked.args
    assert "--kubelet.address=https://10.0.0.1:10250" in asked.args
    assert not any(arg.startswith("--kubelet.ca-file") for arg in render(kubelet=kubelet).args)


def test_the_hosts_users_are_mounted_only_if_they_are_wanted() -> None:
    wanted, not_wanted = render({"passwd": "/etc/passwd"}), render()
    assert wanted.host_paths["/etc/passwd"] == "/host/passwd"
    assert "--path.passwd=/host/passwd" in wanted.args
    assert "/etc/passwd" not in not_wanted.host_paths
    assert not any(arg.startswith("--path.passwd") for arg in not_wanted.args)


def test_the_node_is_told_by_the_downward_api() -> None:
    env = {one["name"]: one for one in render().container["env"]}
    paths = {
        name: env[name]["valueFrom"]["fieldRef"]["fieldPath"]
        for name in env
        if "valueFrom" in env[name]
    }
    assert paths == {"NODE_NAME": "spec.nodeName", "NODE_IP": "status.hostIP"}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_simulated_node_takes_nothing_of_its_host(profile: str) -> None:
    rendered = render(simulate="demo", profile=profile, pods={"kubelet": True})
    assert rendered.host_paths == {}
    assert rendered.pod["hostPID"] is False
    assert "affinity" not in rendered.pod
    assert "runtimeClassName" not in rendered.pod
    assert rendered.rules == set()
    assert rendered.container["securityContext"]["runAsUser"] == EXPORTER
    assert "--simulate=demo" in rendered.args


def test_permissions_can_be_left_to_somebody_else() -> None:
    rendered = render(rbac={"create": False}, serviceAccount={"create": False, "name": "theirs"})
    assert not rendered.of("ClusterRole")
    assert not rendered.of("ClusterRoleBinding")
    assert not rendered.of("ServiceAccount")
    assert rendered.pod["serviceAccountName"] == "theirs"


def test_two_releases_of_a_name_in_two_namespaces_have_roles_of_their_own() -> None:
    def role(rendered: Rendered) -> str:
        name: str = rendered.one("ClusterRole")["metadata"]["name"]
        return name

    assert role(render(namespaceOverride="a")) != role(render(namespaceOverride="b"))


def test_who_wants_root_need_not_say_it_twice() -> None:
    assert (
        render(securityContext={"runAsUser": 0}).container["securityContext"]["runAsNonRoot"]
        is False
    )
    assert (
        render(securityContext={"runAsUser": 7}).container["securityContext"]["runAsNonRoot"]
        is True
    )


def test_the_profile_gives_way_key_by_key() -> None:
    context = render(securityContext={"seLinuxOptions": {"type": "spc_t"}}).container[
        "securityContext"
    ]
    assert context["seLinuxOptions"] == {"type": "spc_t"}
    assert context["runAsUser"] == EXPORTER


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"profile": "privileged"}, "profile"),
        ({"gpuAccess": "magic"}, "gpuAccess"),
        ({"pods": {"source": "guess"}}, "source"),
        ({"pods": {"files": "yes"}}, "files"),
        ({"serviceMonitr": {"enabled": True}}, "serviceMonitr"),
        ({"settings": {"collection": {"intervall": "1s"}}}, "intervall"),
    ],
)
def test_what_is_not_known_is_refused_by_helm_with_its_place(
    values: dict[str, Any], place: str
) -> None:
    with pytest.raises(Refused, match=place):
        render(values)


def test_a_claim_of_all_gpus_with_admin_access_takes_none_from_a_workload() -> None:
    rendered = render(gpuAccess="claim", resources={"limits": {"memory": "99Mi"}})
    (template,) = rendered.of("ResourceClaimTemplate")
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "All",
        "adminAccess": True,
        "tolerations": [{"operator": "Exists"}],
    }
    (claim,) = rendered.pod["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert rendered.container["resources"]["claims"] == [{"name": claim["name"]}]
    assert rendered.container["resources"]["limits"] == {"memory": "99Mi"}
    assert "NVIDIA_VISIBLE_DEVICES" not in rendered.env
