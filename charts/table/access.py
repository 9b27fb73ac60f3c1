"""What the exporter may do on its node and in the cluster."""

from charts.forms import schema
from charts.value import (
    AUTO,
    OBJECT,
    OPTIONAL_PATH,
    PAIRS,
    PATH,
    SWITCH,
    TEXT,
    Section,
    Value,
    choice,
)
from exporter.agent.simulation.load_scenario import shipped
from exporter.inputs.values import ORIGIN

_SCENARIO = {"anyOf": [choice("", *shipped()), PATH]}

ACCESS = (
    Section(
        "Privileges",
        (
            Value(
                "profile",
                "minimal",
                choice(
                    *("minimal", "podresources", "mig", "podresources-mig"),
                    *("fdinfo", "podresources-fdinfo"),
                ),
                "What the container is given. `minimal`: UID 61045, no capability. "
                "`podresources`: UID 0 without capabilities, and the kubelet's PodResources "
                "socket, which is root's. `mig`: the monitor capability of MIG. `fdinfo`: UID 0 "
                "with SYS_PTRACE and DAC_READ_SEARCH, by which the DRM clients of all processes "
                "are seen: GPUs of Intel, and AMD's Radeon. "
                "See docs/installation.md.",
            ),
            Value(
                "gpuAccess",
                "auto",
                choice(
                    *("auto", "runtimeClass", "env", "volumeMounts"),
                    *("cdi", "claim", "hostPath", "none"),
                ),
                "How the driver gets into the container. `auto`: `runtimeClass` if the cluster has "
                "that RuntimeClass while Helm installs or upgrades, else `env`; what renders "
                "without the cluster, as Argo CD does, gets `env`. `runtimeClass`: by NVIDIA's "
                "container runtime under a RuntimeClass. `env`: the same where that runtime is the "
                "default one; elsewhere the pods start and say that they find no driver. "
                "`volumeMounts`: as `env`, where that runtime takes mounts in place of the "
                "variable. `cdi`: by the container toolkit's NRI plugin. `claim`: all GPUs by a "
                "ResourceClaim with admin access; the namespace needs the label "
                "resource.kubernetes.io/admin-access=true. `hostPath`: its libraries "
                "from a folder of the host; the devices must come by other means. `none`: not at "
                "all, for nodes that have GPUs of AMD or Intel only.",
            ),
            Value("runtimeClassName", "nvidia", TEXT, "RuntimeClass of `auto` and `runtimeClass`."),
            Value(
                "visibleDevices",
                "all",
                TEXT,
                "NVIDIA_VISIBLE_DEVICES of `runtimeClass` and `env`; the mounted name of "
                "`volumeMounts`.",
            ),
            Value(
                "claim.deviceClass",
                "gpu.nvidia.com",
                TEXT,
                "DeviceClass of `claim`; this one is of NVIDIA's DRA driver.",
            ),
            Value(
                "cdi.device",
                "management.nvidia.com/gpu=all",
                TEXT,
                "CDI device of `cdi`. The toolkit gives this one to pods of its own namespace, "
                "and of the namespaces in its configuration.",
            ),
            Value(
                "cdi.annotation",
                "nvidia.cdi.k8s.io",
                TEXT,
                "Annotation of `cdi`, to which `/container.<name>` is added.",
            ),
            Value(
                "driverLibraries",
                "/home/kubernetes/bin/nvidia/lib64",
                PATH,
                "The host's folder of libnvidia-ml.so.1 for `hostPath`; the default is GKE's.",
            ),
            Value(
                "hostPID",
                True,
                SWITCH,
                "The host's process ids, which NVML reports. Without them no use has an owner.",
            ),
            Value(
                "simulate",
                "",
                _SCENARIO,
                "Simulate a node: name of a shipped scenario, such as `demo`, or a file that you "
                "mount. Nothing of the host "
                "is then mounted, no permission granted, and every node can run it.",
            ),
        ),
    ),
    Section(
        "Sources",
        (
            Value(
                "pods.source",
                "auto",
                choice("auto", "api", "kubelet", "files", "none"),
                "Where the list of pods comes from (docs/pods.md). `auto` takes the API server, "
                "and while it is away what the next two settings allow.",
            ),
            Value(
                "pods.kubelet",
                False,
                SWITCH,
                "Whether `auto` may ask the kubelet: `get` on `nodes/pods`, which kubelets from "
                "1.33 on ask for. With older ones rather take the files.",
            ),
            Value(
                "pods.files",
                "auto",
                AUTO,
                "Whether `auto` may read the names of log files: /var/log/pods and "
                "/var/log/containers, read-only. `auto`: if the container is not root. Root and "
                "its group may read the logs themselves as well, so there say `true` if you want "
                "that.",
                optional=True,
            ),
            Value(
                "pods.claims",
                True,
                SWITCH,
                "Devices of ResourceClaims (DRA): `get` on `resourceclaims`, `list` on "
                "`resourceslices`, and on `devicetaintrules` for `mgpu-exporter check`.",
            ),
            Value(
                "kubelet.address",
                "",
                schema(ORIGIN.form),
                "Address of the kubelet; port 10250 of the node's address if not set.",
            ),
            Value(
                "kubelet.caFile",
                "",
                OPTIONAL_PATH,
                "The host's file with the authority of the kubelet's certificate, such as "
                "/var/lib/kubelet/pki/kubelet.crt; the cluster's authority if not set.",
            ),
            Value("kubelet.insecureTLS", False, SWITCH, "Take any certificate of the kubelet."),
            Value("kubelet.rootDir", "/var/lib/kubelet", PATH, "The kubelet's root directory."),
            Value("cgroupRoot", "/sys/fs/cgroup", PATH, "The host's cgroup file system."),
            Value(
                "passwd",
                "",
                OPTIONAL_PATH,
                "The host's file of users, /etc/passwd where there is one, for the names of those "
                "who run processes outside pods. Without it they have numbers, or names that the "
                "image knows: root's.",
            ),
            Value("logRoot", "/var/log", PATH, "The host's folder of pods' and containers' logs."),
        ),
    ),
    Section(
        "Permissions",
        (
            Value(
                "rbac.create",
                True,
                SWITCH,
                "A ClusterRole of exactly what is used, and its binding; none if nothing is.",
            ),
            Value(
                "openshift.securityContextConstraints",
                False,
                SWITCH,
                "For OpenShift: SecurityContextConstraints of exactly what the pods have, and a "
                "Role by which their ServiceAccount may use them.",
            ),
            Value("serviceAccount.create", True, SWITCH, "A ServiceAccount."),
            Value("serviceAccount.name", "", TEXT, "Its name; that of all objects if not set."),
            Value("serviceAccount.annotations", {}, PAIRS, "Its annotations."),
            Value(
                "networkPolicy.enabled",
                False,
                SWITCH,
                "Let only those in `networkPolicy.from` reach the port.",
            ),
            Value(
                "networkPolicy.from",
                [],
                {"type": "array", "items": OBJECT},
                "Who may: NetworkPolicy peers. An empty list is refused if the policy is enabled.",
            ),
            Value(
                "networkPolicy.egress",
                [],
                {"type": "array", "items": OBJECT},
                "Rules for what the exporter may reach; if empty, that is not limited. It needs "
                "the API server, and the kubelet if that is a source.",
            ),
        ),
    ),
)
