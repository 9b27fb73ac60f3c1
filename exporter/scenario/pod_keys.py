"""The keys of pods, containers and processes: the second half of the table."""

from exporter.scenario.description import Scheme
from exporter.scenario.keys import HUNDRED, MOST_REPLICAS, SECOND, may, must
from exporter.scenario.values import (
    DURATION,
    FLAG,
    ITEMS,
    LENGTHS,
    NAME,
    NUMBERS,
    RATIO,
    SIZE,
    TEXT,
    TEXTS,
    choice,
    curve,
    integer,
    listed,
)
from exporter.scenario.work import FOREVER, Curve

ZERO = Curve(((0, 0),))

START = (
    "start",
    DURATION,
    0,
    "0s",
    "When it starts: after the scenario's start, or for a process in a pod the pod's.",
)
FOR = (
    "for",
    LENGTHS,
    (FOREVER, FOREVER),
    "for ever",
    "How long it lives, or `[shortest, longest]`.",
)
EVERY = ("every", DURATION, None, "once", "It comes again so often, with a new name and ids.")

P = "pods"
POD_NAME = must(P, "name", NAME, "Name; of a pod that comes again, the first part of it.")
NAMESPACE = must(P, "namespace", NAME, "Namespace.")
CONTAINERS = must(P, "containers", listed("container"), "Its containers.")
SCHEME = may(
    P,
    "scheme",
    choice(*Scheme),
    "",
    "none",
    "The sharing system that gives its containers devices.",
)
POLICY = may(
    P,
    "policy",
    TEXT,
    "",
    "none",
    "mGPU's compute policy of the pod; HAMi's and Volcano's vGPU mode.",
)
APP_CLASS = may(P, "app_class", choice("online", "offline"), "", "neither", "qGPU's class.")
OWNER = may(P, "owner", TEXT, "", "none", "Kind and name of its owner: `Job/train`.")
LABELS = may(P, "labels", TEXTS, {}, "none", "Labels beside the sharing system's.")
ANNOTATIONS = may(
    P,
    "annotations",
    TEXTS,
    {},
    "none",
    "Annotations beside, or in place of, those of the sharing system.",
)
QOS = may(
    P,
    "qos",
    choice("Guaranteed", "Burstable", "BestEffort"),
    "Burstable",
    "Burstable",
    "QoS class.",
)
RUNTIME = may(
    P,
    "runtime",
    choice("containerd", "cri-o", "docker"),
    "containerd",
    "containerd",
    "Container runtime, which names the cgroup.",
)
CGROUP_DRIVER = may(
    P,
    "cgroup_driver",
    choice("systemd", "cgroupfs"),
    "systemd",
    "systemd",
    "How the kubelet makes the cgroup.",
)
STATIC = may(
    P, "static", FLAG, False, "false", "A static pod: the kubelet knows it by its file's hash."
)
POD_START = may(P, *START)
POD_FOR = may(P, *FOR)
POD_EVERY = may(P, *EVERY)

C = "containers"
CONTAINER_NAME = must(C, "name", NAME, "Name.")
KIND = may(C, "kind", choice("app", "init", "sidecar"), "app", "app", "In which list it stands.")
PROCESSES = may(C, "processes", ITEMS, [], "none", "What runs in it.")
ASKED = may(C, "devices", NUMBERS, (), "none", "Numbers of the devices that it was given.")
CORE = may(
    C,
    "core",
    integer(1, HUNDRED),
    None,
    "none asked",
    "Per cent of the cores of each of them.",
)
MEMORY = may(
    C,
    "memory",
    SIZE,
    None,
    "none asked",
    "Memory of each of them; written in the sharing system's own unit and totals.",
)
PLACED = may(
    C, "placed", FLAG, True, "true", "Whether the sharing system tells which devices they are."
)
REPLICAS = may(
    C,
    "replicas",
    integer(1, MOST_REPLICAS),
    1,
    "1",
    "How many of each device's replicas it was given.",
)
RESOURCE = may(
    C,
    "resource",
    TEXT,
    "",
    "the devices'",
    "DRA: the extended resource that it asks for in place of a claim. Intel: a resource such as "
    "`gpu.intel.com/monitoring`.",
)
CLAIM = may(
    C,
    "claim",
    NAME,
    "",
    "one of its own",
    "Name of its ResourceClaim; containers that name the same one share its devices.",
)
LIMITS = may(
    C, "limits", TEXTS, {}, "none", "Limits beside, or in place of, those of the sharing system."
)

R = "processes"
DEVICE = must(R, "device", NUMBERS, "Number of the device that it works on, or a list.")
DUTY = may(
    R,
    "duty",
    curve(RATIO),
    ZERO,
    "0",
    "For how much of each period it wants the device; over its age if it is a list.",
)
REPEAT = may(R, "repeat", DURATION, None, "never", "After this time the duty starts over.")
PERIOD = may(R, "period", DURATION, SECOND // 5, "200ms", "Length of a period, 1ms or more.")
PHASE = may(R, "phase", DURATION, None, "drawn", "How far into its period it starts.")
JITTER = may(R, "jitter", RATIO, 0.0, "0", "How much length and place of its bursts vary.")
HELD = may(R, "memory", curve(SIZE), ZERO, "0", "Device memory that it holds, over its age.")
MEMORY_ACTIVE = may(R, "memory_active", RATIO, 0.0, "0", "Memory traffic per core time.")
ENCODER = may(R, "encoder", RATIO, 0.0, "0", "Encoder time per core time.")
DECODER = may(R, "decoder", RATIO, 0.0, "0", "Decoder time per core time.")
COPY = may(R, "copy", RATIO, 0.0, "0", "Copy engines' time per core time; NVIDIA's tell none.")
CONTEXT = may(
    R, "kind", choice("compute", "graphics"), "compute", "compute", "What the driver lists it as."
)
CGROUP = may(
    R,
    "cgroup",
    TEXT,
    "/system.slice/gpu-tool.service",
    "/system.slice/gpu-tool.service",
    "Its cgroup; outside pods only. `{id}` stands for a container's id, a number in braces, as in "
    "`job_{4711}`, for that number and one more each time that the process comes again.",
)
CALLED = may(R, "name", TEXT, "", "none", "What its container is called; outside pods only.")
USER = may(R, "user", TEXT, "", "none", "Name of the user whose it is; outside pods only.")
ACCOUNT = may(R, "account", TEXT, "", "none", "Slurm's account of its job; outside pods only.")
PROCESS_START = may(R, *START)
PROCESS_FOR = may(R, *FOR)
PROCESS_EVERY = may(R, *EVERY)
