"""What a pod may have to be given, in the terms of its manifest. Charts name profiles by these."""

HOST_PID = "hostPID: true"
CGROUPS = "hostPath /sys/fs/cgroup, readOnly"
DRIVER = (
    "runtimeClassName: nvidia with NVIDIA_VISIBLE_DEVICES=all and "
    "NVIDIA_DRIVER_CAPABILITIES=utility, or the driver's libraries by hostPath"
)
DEVICES = "the devices /dev/nvidiactl and /dev/nvidiaN (the NVIDIA runtime gives them)"
ROOT = "runAsUser: 0"
MIG_MONITOR = "NVIDIA_MIG_MONITOR_DEVICES=all"
NODE_NAME = "env NODE_NAME from fieldRef spec.nodeName"
SERVICE_ACCOUNT = "automountServiceAccountToken: true"
PODS = "ClusterRole rule: pods [get, list, watch]"
NODES = "ClusterRole rule: nodes [get]"
CLAIMS = "ClusterRole rules of resource.k8s.io: resourceclaims [get], resourceslices [list]"
KUBELET = "ClusterRole rule: nodes/pods [get] (kubelet 1.33 and newer)"
LOGS = "hostPath /var/log/pods and /var/log/containers, readOnly"
POD_RESOURCES = "hostPath /var/lib/kubelet/pod-resources, readOnly, and runAsUser: 0"
