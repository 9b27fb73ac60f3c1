"""Pods as an API server sends them: 13 KB each, most of it nothing that an exporter wants."""

import json
from typing import Any

from benchmarks.cost.size import CONTAINERS, SHARING, Tenant

NODE = "bench-node"
STARTED = "2026-11-01T08:00:00Z"
CORE = "vke.volcengine.com/mgpu-core"
MEMORY = "vke.volcengine.com/mgpu-memory"
PLACEMENT = "vke.volcengine.com/gpu-index-container-main"
VARIABLES = 18
Json = dict[str, Any]


def pod(tenant: Tenant, revision: int = 0) -> Json:
    """A running pod. A later ``revision`` differs in what a controller touches all the time."""
    spec = _spec(tenant)
    metadata = _metadata(tenant, revision)
    metadata["managedFields"] = _managed_fields(spec, metadata)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": _status(tenant),
    }


def _metadata(tenant: Tenant, revision: int) -> Json:
    app = tenant.name.rsplit("-", 2)[0]
    annotations = {
        "checkpoint.example.com/revision": str(revision),
        "prometheus.io/scrape": "true",
        "kubectl.kubernetes.io/restartedAt": STARTED,
        "sidecar.example.com/status": json.dumps({"containers": ["sidecar"], "revision": "7f3"}),
    }
    if tenant.gpu is not None:
        annotations[PLACEMENT] = str(tenant.gpu)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": tenant.name.rpartition("-")[0],
        "uid": tenant.uid[::-1],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": tenant.name,
        "generateName": tenant.name.rpartition("-")[0] + "-",
        "namespace": tenant.namespace,
        "uid": tenant.uid,
        "creationTimestamp": STARTED,
        "labels": {
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/part-of": "bench",
            "pod-template-hash": tenant.name.split("-")[2],
            "team": tenant.namespace,
        },
        "annotations": annotations,
        "ownerReferences": [owner],
    }


def _spec(tenant: Tenant) -> Json:
    return {
        "nodeName": NODE,
        "serviceAccountName": "default",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "containers": [_container(tenant, name) for name in CONTAINERS],
        "volumes": [
            {"name": f"config-{n}", "configMap": {"name": f"settings-{n}", "defaultMode": 420}}
            for n in range(4)
        ],
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{problem}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for problem in ("not-ready", "unreachable")
        ],
    }


def _container(tenant: Tenant, name: str) -> Json:
    amounts = {"cpu": "2", "memory": "4Gi"}
    if tenant.gpu is not None and name == "main":
        amounts |= {CORE: str(100 // SHARING), MEMORY: "8192"}
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "initialDelaySeconds": 5,
        "periodSeconds": 10,
        "timeoutSeconds": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    return {
        "name": name,
        "image": f"registry.example.com/{tenant.namespace}/{name}:v1.14.{tenant.number}",
        "command": ["/usr/bin/server"],
        "args": ["--listen=:8080", "--model=/models/current", "--log=json"],
        "env": [
            {"name": f"SETTING_{n}", "value": f"value of setting {n}"} for n in range(VARIABLES)
        ],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [
            {"name": f"config-{n}", "mountPath": f"/etc/config/{n}", "readOnly": True}
            for n in range(4)
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
    }


def _status(tenant: Tenant) -> Json:
    return {
        "phase": "Running",
        "qosClass": "Guaranteed",
        "hostIP": "10.0.0.7",
        "podIP": f"10.1.0.{tenant.number % 250}",
        "startTime": STARTED,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": STARTED}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": name,
                "containerID": f"containerd://{tenant.container_id(name)}",
                "image": f"registry.example.com/{tenant.namespace}/{name}:v1",
                "imageID": f"registry.example.com/{name}@sha256:{tenant.container_id('image')}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": STARTED}},
            }
            for name in CONTAINERS
        ],
    }


def _managed_fields(spec: Json, metadata: Json) -> list[Json]:
    """Who wrote which field, as server-side apply keeps it: about half of a pod."""
    written = {"f:spec": _fields(spec), "f:metadata": _fields(metadata)}
    entry = {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "time": STARTED,
        "fieldsType": "FieldsV1",
        "fieldsV1": written,
    }
    return [entry]


def _fields(value: object) -> Json:
    if isinstance(value, dict):
        return {f"f:{key}": _fields(each) for key, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {
            f'k:{{"name":"{each.get("name", number)}"}}': {".": {}, **_fields(each)}
            for number, each in enumerate(value)
        }
    return {}
