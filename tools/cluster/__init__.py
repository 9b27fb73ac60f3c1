"""A whole Kubernetes node of real programs, on one machine, to see the exporter at work on it.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, containerd, runc, Prometheus
and prometheus-adapter are the real ones; GPUs are tests/fakenvml, fed with the process ids of real
containers. Everything runs in namespaces of its own (mounts, network, processes, host name), so
that it meets nobody on the machine and is gone with its first process. Not part of the product.
"""
