import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.pods.toplevelowner import RULES, PodOwner, Rule, resolve

DUE = 29_000_100  # minutes since the epoch: 2025-02-19T23:00:00Z
MADE = "2025-02-19T23:00:12Z"


@pytest.mark.parametrize(
    ("api_version", "kind", "name", "labels", "expected"),
    [
        ("apps/v1", "ReplicaSet", "web-5d4f", {"pod-template-hash": "5d4f"}, ("Deployment", "web")),
        ("apps/v1", "ReplicaSet", "web-5d4f", {}, ("ReplicaSet", "web-5d4f")),
        (
            "apps/v1",
            "ReplicaSet",
            "web-5d4f",
            {"pod-template-hash": "other"},
            ("ReplicaSet", "web-5d4f"),
        ),
        ("apps/v1", "ReplicaSet", "-5d4f", {"pod-template-hash": "5d4f"}, ("ReplicaSet", "-5d4f")),
        (
            "apps/v1",
            "ReplicaSet",
            "web-5d4f",
            {"rollouts-pod-template-hash": "5d4f"},
            ("Rollout", "web"),
        ),
        ("apps/v1", "StatefulSet", "db", {}, ("StatefulSet", "db")),
        ("apps/v1", "DaemonSet", "agent", {}, ("DaemonSet", "agent")),
        ("v1", "Node", "node-1", {}, ("Node", "node-1")),
        ("batch/v1", "Job", "once", {}, ("Job", "once")),
        ("batch/v1", "Job", f"nightly-{DUE}", {}, ("CronJob", "nightly")),
        ("batch/v1", "Job", f"nightly-{DUE * 60}", {}, ("CronJob", "nightly")),
        ("batch/v1", "Job", "train-20250219", {}, ("Job", "train-20250219")),
        ("batch/v1", "Job", "train-19022025", {}, ("Job", "train-19022025")),
        ("batch/v1", "Job", f"next-{DUE + 10}", {}, ("Job", f"next-{DUE + 10}")),
        ("batch/v1", "Job", f"-{DUE}", {}, ("Job", f"-{DUE}")),
        ("batch.volcano.sh/v1alpha1", "Job", "mpi", {}, ("VolcanoJob", "mpi")),
        ("kubeflow.org/v1", "PyTorchJob", "bert", {}, ("PyTorchJob", "bert")),
        ("kubeflow.org/v1", "TFJob", "bert", {}, ("TFJob", "bert")),
        (
            "batch/v1",
            "Job",
            "bert-launcher",
            {"training.kubeflow.org/job-name": "bert"},
            ("MPIJob", "bert"),
        ),
        (
            "batch/v1",
            "Job",
            "sweep-workers-0",
            {"jobset.sigs.k8s.io/jobset-name": "sweep"},
            ("JobSet", "sweep"),
        ),
        (
            "apps/v1",
            "StatefulSet",
            "llm-1",
            {"leaderworkerset.sigs.k8s.io/name": "llm"},
            ("LeaderWorkerSet", "llm"),
        ),
        (
            "apps/v1",
            "ReplicaSet",
            "llm-predictor-5d4f",
            {"pod-template-hash": "5d4f", "serving.kserve.io/inferenceservice": "llm"},
            ("InferenceService", "llm"),
        ),
        ("apps/v1", "StatefulSet", "mine", {"notebook-name": "mine"}, ("Notebook", "mine")),
        (
            "v1",
            "Pod",
            "etl-driver",
            {"sparkoperator.k8s.io/app-name": "etl"},
            ("SparkApplication", "etl"),
        ),
        ("ray.io/v1", "RayCluster", "ray", {"ray.io/cluster": "ray"}, ("RayCluster", "ray")),
        (
            "batch/v1",
            "Job",
            "tune",
            {"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "tune"},
            ("RayJob", "tune"),
        ),
        (
            "ray.io/v1",
            "RayCluster",
            "serve-x7k2p",
            {"ray.io/originated-from-crd": "RayService", "ray.io/originated-from-cr-name": "serve"},
            ("RayService", "serve"),
        ),
        (
            "batch/v1",
            "Job",
            "tune",
            {"ray.io/originated-from-crd": "Secret", "ray.io/originated-from-cr-name": "tune"},
            ("Job", "tune"),
        ),
        ("argoproj.io/v1alpha1", "Workflow", "etl-x2", {}, ("Workflow", "etl-x2")),
        ("example.com/v1", "CloneSet", "web", {}, ("CloneSet", "web")),
    ],
)
def test_the_owner_is_what_somebody_made(
    api_version: str, kind: str, name: str, labels: dict[str, str], expected: tuple[str, str]
) -> None:
    assert resolve(api_version, kind, name, labels, MADE) == expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_a_label_that_the_controller_is_not_named_after_is_not_believed(rule: Rule) -> None:
    label, _, controllers = rule
    for kind in controllers:
        for value in ("other", "mi", "", None, 7, ["mine"]):
            assert resolve("v1", kind, "mine-0", {label: value}) == (kind, "mine-0")
        assert resolve("v1", kind, "mine-0", {label: "mine"}) != (kind, "mine-0")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_a_label_on_a_pod_of_another_controller_is_not_believed(rule: Rule) -> None:
    assert resolve("v1", "DaemonSet", "mine", {rule.label: "mine"}) == ("DaemonSet", "mine")


@pytest.mark.parametrize("created", ["", "yesterday", "0001-01-01", "2025-02-19", "9999-12-31"])
def test_a_job_whose_pod_was_not_made_about_its_time_stays_a_job(created: str) -> None:
    assert resolve("batch/v1", "Job", f"a-{DUE}", {}, created).kind == "Job"


@given(
    st.text(),
    st.sampled_from(["ReplicaSet", "Job", "StatefulSet", "Pod", "RayCluster", "x"]),
    st.text() | st.from_regex(r"a-[0-9]{8,11}", fullmatch=True),
    st.dictionaries(
        st.sampled_from(["pod-template-hash", "notebook-name", *(r.label for r in RULES)]),
        st.none() | st.integers() | st.text() | st.lists(st.text(), max_size=2),
    ),
    st.text() | st.datetimes().map(str),
)
def test_anything_has_an_owner_that_names_no_more_than_was_given(
    version: str, kind: str, name: str, labels: dict[str, object], created: str
) -> None:
    owner = resolve(version, kind, name, labels, created)
    assert isinstance(owner, PodOwner)
    assert owner.name in name
