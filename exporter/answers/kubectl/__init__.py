"""``kubectl mgpu``: the commands for people, from a user's machine with his kubeconfig."""

# What it looks for if nothing else is named.
KUBECONFIG = "~/.kube/config"
EXPORTERS = "app.kubernetes.io/name=mgpu-exporter"
USUAL = ("mgpu-exporter", "monitoring", "prometheus", "gpu-operator", "kube-system")
"""Namespaces of platform teams. Others are not looked at, because a tenant can give his own pod the
exporter's label, and would be shown the tokens of users."""
