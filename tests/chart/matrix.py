"""The renderings that are checked as a whole: each way to get the driver and pods, each profile."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from charts.table.presets import PRESETS

PROFILES = (
    *("minimal", "podresources", "mig", "podresources-mig"),
    *("fdinfo", "podresources-fdinfo"),
)
ACCESSES = ("runtimeClass", "env", "hostPath", "cdi", "none", "auto", "volumeMounts", "claim")
SOURCES = ("auto", "api", "kubelet", "files", "none")
MONITORS = ("", "podMonitor", "serviceMonitor")

MONITOR: dict[str, Any] = {
    "annotations": {"example.com/monitor": "gpu"},
    "bodySizeLimit": "10MB",
    "keepDroppedTargets": 100,
    "scrapeClass": "nodes",
    "fallbackScrapeProtocol": "PrometheusText0.0.4",
    "podTargetLabels": ["team"],
    "extraSpec": {"scrapeProtocols": ["PrometheusText1.0.0", "PrometheusText0.0.4"]},
    "extraEndpoint": {"proxyUrl": "http://proxy:3128", "enableHttp2": False},
}
EVERYTHING: dict[str, Any] = {
    "pods": {"kubelet": True},
    "kubelet": {"caFile": "/var/lib/kubelet/pki/kubelet.crt", "address": "https://10.0.0.1:10250"},
    "passwd": "/etc/passwd",
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "egress": [{"ports": [{"port": 6443, "protocol": "TCP"}]}],
    },
    "settings": {
        "metrics": {"disable": ["pcie", "mgpu_container_processes"]},
        "collection": {"interval": "500ms"},
        "web": {"max-requests": 20},
        "compat": ["dcgm", "hami"],
    },
    "web": {
        "tlsSecret": "certificates",
        "config": {
            "tls_server_config": {
                "cert_file": "/etc/mgpu-exporter/tls/tls.crt",
                "key_file": "/etc/mgpu-exporter/tls/tls.key",
            }
        },
    },
    "podMonitor": {
        "enabled": True,
        "labels": {"release": "kube-prometheus-stack"},
        "interval": "15s",
        "scrapeTimeout": "10s",
        "params": {"collect[]": ["pod"]},
        "tlsConfig": {"insecureSkipVerify": True},
        "basicAuth": {
            "username": {"name": "scraper", "key": "name"},
            "password": {"name": "scraper", "key": "password"},
        },
        "relabelings": [{"targetLabel": "cluster", "replacement": "a"}],
        "metricRelabelings": [{"action": "labeldrop", "regex": "uid"}],
        "attachNodeMetadata": True,
        "limits": {"sampleLimit": 10000},
        **MONITOR,
    },
    "prometheusRule": {
        "enabled": True,
        "alertLabels": {"team": "gpu"},
        "annotations": {"example.com/rules": "gpu"},
    },
    "dashboards": {"enabled": True},
    "verticalPodAutoscaler": {
        "enabled": True,
        "resourcePolicy": {"containerPolicies": [{"containerName": "*"}]},
    },
    "imagePullSecrets": [{"name": "registry"}],
    "global": {"imageRegistry": "registry.example.com", "imagePullSecrets": [{"name": "all"}]},
    "image": {"digest": f"sha256:{'0' * 64}"},
    "commonLabels": {"team": "gpu"},
    "commonAnnotations": {"example.com/owner": "gpu"},
    "podLabels": {"sidecar.istio.io/inject": "false"},
    "podAnnotations": {"example.com/pod": "yes"},
    "extraArgs": ["--log.level=debug"],
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "envFrom": [{"configMapRef": {"name": "more", "optional": True}}],
    "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    "extraContainers": [{"name": "beside", "image": "busybox"}],
    "initContainers": [{"name": "before", "image": "busybox"}],
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["kubelet"]}],
    "dnsPolicy": "ClusterFirst",
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    "extraManifests": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}},
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}\n",
    ],
}

PROXIED: dict[str, Any] = {
    "kubeRBACProxy": {"enabled": True, "tlsSecret": "proxy", "resources": {"limits": {"cpu": 1}}},
    "serviceMonitor": {
        **MONITOR,
        "enabled": True,
        "targetLabels": ["app.kubernetes.io/part-of"],
        "authorization": {"credentials": {"name": "token", "key": "token"}},
        "tlsConfig": {"insecureSkipVerify": True},
    },
}


REVIEWED: dict[str, Any] = {
    "accessControl": {
        "enabled": True,
        "audiences": ["mgpu-exporter", "second"],
        "scrapers": [
            {"kind": "ServiceAccount", "namespace": "monitoring", "name": "prometheus-k8s"}
        ],
        "viewers": [
            {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "gpu-admins"}
        ],
    },
    "serviceMonitor": {"enabled": True},
    "simulate": "demo",
}


CLOSING: dict[str, Any] = {
    "enabled": True,
    "image": "registry.example/mgpu-exporter-bill:1",
    "prometheus": "http://prometheus.monitoring:9090",
    "to": "s3://bucket/bills",
    "prices": {"default": 2.5},
    "extraArgs": ["--cluster=east"],
    "extraEnv": [
        {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    ],
    "serviceAccountName": "billing",
    "podAnnotations": {"example.com/a": "b"},
    "nodeSelector": {"example.com/pool": "system"},
    "tolerations": [{"operator": "Exists"}],
    "networkPolicy": {
        "enabled": True,
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 443}]}],
    },
}


def _pairs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every two of profile, access and source together, in 42 of the 210 combinations."""
    for (i, profile), (j, access) in product(enumerate(PROFILES), enumerate(ACCESSES)):
        source = SOURCES[(i + j) % len(SOURCES)]
        monitor = MONITORS[(i + 2 * j) % len(MONITORS)]
        yield (
            f"{profile}-{access}-{source}",
            {
                "profile": profile,
                "gpuAccess": access,
                "pods": {"source": source},
                **({monitor: {"enabled": True}} if monitor else {}),
            },
        )


PAIRS = dict(_pairs())
MATRIX: dict[str, dict[str, Any]] = {
    **PAIRS,
    **{f"preset-{preset.name}": dict(preset.values) for preset in PRESETS},
    "everything": EVERYTHING,
    "proxied": PROXIED,
    "reviewed": REVIEWED,
    "bill-close": {"billClose": CLOSING},
    "simulated": {"simulate": "demo", "hostNetwork": True},
    "drop-in": {
        "compat": {"dropIn": "dcgm"},
        "settings": {"compat": "hami"},
        "serviceMonitor": {"enabled": True},
        "service": {"annotations": {"example.com/service": "yes"}},
    },
    "on-delete": {"updateStrategy": {"type": "OnDelete"}, "affinity": {}, "gpuNodeLabels": []},
}
