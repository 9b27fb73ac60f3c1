"""Privileges that a pod may need, in the terms of its manifest. Data."""

HOST_PID = "hostPID: true"
CGROUPS = "hostPath /sys/fs/cgroup, readOnly"
CAPS_FDINFO = "capabilities.add: [DAC_READ_SEARCH, SYS_PTRACE]"
DRIVER = (
    "in a pod: runtimeClassName: nvidia with NVIDIA_VISIBLE_DEVICES=all and "
    "NVIDIA_DRIVER_CAPABILITIES=utility, or the driver's libraries by hostPath"
)
DEVICES = "the devices /dev/nvidiactl and /dev/nvidiaN (the NVIDIA runtime gives them)"
SYSFS = "hostPath /sys, readOnly, where the pod's own does not show the devices"
AMD_DEVICES = "the devices /dev/kfd and /dev/dri/renderD* (amd.com/gpu, or privileged)"
ROOT = "runAsUser: 0"
FDINFO = f"{ROOT} and {CAPS_FDINFO}, as the chart's profile fdinfo has them"
MIG_MONITOR = "NVIDIA_MIG_MONITOR_DEVICES=all"
PTRACE = (
    "CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE (AmbientCapabilities= of the unit, capabilities.add of "
    "the container)"
)
SEE_PROCESSES = "the group of /proc's mount option gid=, or hidepid=0"
NODE_NAME = "env NODE_NAME from fieldRef spec.nodeName"
SERVICE_ACCOUNT = "automountServiceAccountToken: true"
PODS = "ClusterRole rule: pods [list, watch]"
NODES = "ClusterRole rule: nodes [get]"
CLAIMS = "ClusterRole rules of resource.k8s.io: resourceclaims [get], resourceslices [list]"
TAINT_RULES = "ClusterRole rule of resource.k8s.io: devicetaintrules [list]"
KUBELET = "ClusterRole rule: nodes/pods [get] (kubelet 1.33 and newer)"
LOGS = "hostPath /var/log/pods and /var/log/containers, readOnly"
POD_RESOURCES = "hostPath /var/lib/kubelet/pod-resources, readOnly, and runAsUser: 0"
