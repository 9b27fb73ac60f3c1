"""The top-level owner of a pod: the object that a user made, not the controller in between. Pure.

It is found from the pod alone, so that no further object is read: from its controller, its labels,
and how controllers name what they make. A label is accepted only if the controller is of the kind
that sets it and is named after it; else the owner is the controller itself.

Sources: kubernetes ``pkg/controller`` (deployment, cronjob), the label constants of Argo Rollouts,
Kubeflow (mpi-operator, notebook-controller), KServe, KubeRay, JobSet, LeaderWorkerSet, Volcano and
the Spark operator. What these make as the pod's direct controller (PyTorchJob, TFJob, RayCluster,
Workflow …) needs no rule. A pod does not show the RayJob or RayService of a Ray cluster, nor
Kubeflow's TrainJob, whose JobSet has its name.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

KINDS_BY_GROUP = {("batch.volcano.sh", "Job"): "VolcanoJob"}

SCHEDULED = re.compile(r"(.+)-([0-9]{8,11})", re.ASCII)
MINUTES_DIGITS = 9  # since Kubernetes 1.21 minutes since the epoch, before that seconds
OLDEST_RUN_S = 30 * 86_400  # a pod of a job is made at its time, or somewhat later again

RAY_KIND, RAY_NAME = "ray.io/originated-from-crd", "ray.io/originated-from-cr-name"
RAY_KINDS = ("RayJob", "RayService")


class PodOwner(NamedTuple):
    """Kind and name of an owner; both are "" for a pod without a controller."""

    kind: str
    name: str


class Rule(NamedTuple):
    """``label`` names the ``kind`` that made a pod's controller, one of ``controllers``."""

    label: str
    kind: str
    controllers: frozenset[str]


RULES = (
    Rule("jobset.sigs.k8s.io/jobset-name", "JobSet", frozenset({"Job"})),
    Rule("training.kubeflow.org/job-name", "MPIJob", frozenset({"Job"})),  # its launcher
    Rule("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet", frozenset({"StatefulSet"})),
    Rule(
        "serving.kserve.io/inferenceservice",
        "InferenceService",
        frozenset({"Deployment", "StatefulSet"}),
    ),
    Rule("notebook-name", "Notebook", frozenset({"StatefulSet"})),
    Rule("sparkoperator.k8s.io/app-name", "SparkApplication", frozenset({"Pod"})),  # its driver
)


def resolve(
    api_version: str, kind: str, name: str, labels: Mapping[str, object], created: str = ""
) -> PodOwner:
    """The owner of a pod with this controller; ``created`` is the pod's own creation time."""
    group = api_version.rpartition("/")[0]
    kind = KINDS_BY_GROUP.get((group, kind), kind)
    controller = _of_replica_set(name, labels) if kind == "ReplicaSet" else PodOwner(kind, name)
    # A tenant may write any label on his pods. It is accepted only where the pod's controller is of
    # the kind that sets it, and is named after what the label names.
    ray = labels.get(RAY_KIND)
    ray_rule = Rule(RAY_NAME, str(ray), frozenset({"Job", "RayCluster"}))
    for label, made_by, controllers in (*RULES, ray_rule) if ray in RAY_KINDS else RULES:
        owner = labels.get(label)
        is_named_after = controller.name == owner or controller.name.startswith(f"{owner}-")
        if isinstance(owner, str) and owner and controller.kind in controllers and is_named_after:
            return PodOwner(made_by, owner)
    return _of_job(name, created) if kind == "Job" else controller


def _of_replica_set(name: str, labels: Mapping[str, object]) -> PodOwner:
    for label, kind in (
        ("rollouts-pod-template-hash", "Rollout"),
        ("pod-template-hash", "Deployment"),
    ):
        value = labels.get(label)
        made_of = name.removesuffix(f"-{value}")
        if isinstance(value, str) and value and made_of not in {name, ""}:
            return PodOwner(kind, made_of)
    return PodOwner("ReplicaSet", name)


def _of_job(name: str, created: str) -> PodOwner:
    """The CronJob of a job that is named after its due time; else the job itself."""
    match = SCHEDULED.fullmatch(name)
    if match is None:
        return PodOwner("Job", name)
    # Any job may be called like this. It is a CronJob's if its number is a time that lies somewhat
    # before the pod was made.
    cron_job, digits = match.groups()
    due_s = int(digits) * (60 if len(digits) <= MINUTES_DIGITS else 1)
    try:
        age_s = datetime.fromisoformat(created).timestamp() - due_s
    except (ValueError, OverflowError):
        return PodOwner("Job", name)
    return PodOwner("CronJob", cron_job) if 0 <= age_s <= OLDEST_RUN_S else PodOwner("Job", name)
