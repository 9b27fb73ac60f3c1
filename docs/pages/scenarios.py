"""The page of the scenario files, from ``exporter/simulation/keys.py``."""

from exporter.simulation.keys import TABLE as SCENARIO_KEYS
from exporter.simulation.keys import Key
from exporter.simulation.load import shipped
from pages.tables import table

SCENARIOS_PREFACE = """\
# Scenarios

Written by `docs/generate.py` from `exporter/simulation/keys.py`. Do not edit.

`--simulate` takes the name of a shipped scenario ({shipped}) or a YAML file, and simulates the
whole node: its devices as their driver shows them, its pods as API server, kubelet and schedulers
report them, and its processes in their cgroups. No GPU and no cluster is needed; every page says
that it is simulated. A value that is not allowed, and a key that is not known, end the start with
a line that names the file, the key and what is allowed.

```yaml
devices:
  - {{model: NVIDIA A10, memory: 24GiB}}
pods:
  - name: chat-0
    namespace: inference
    scheme: qgpu                 # the sharing system: its resources, annotations and units
    containers:
      - name: server
        devices: [0]
        core: 40                 # per cent of each of its devices
        memory: 8GiB             # of each of its devices
        processes:
          - {{device: 0, duty: 0.3, memory: 6GiB}}
```

Times are written as `500ms`, `7.5s`, `2m`, `1h`, or in seconds; sizes as `512MiB`, `16GiB`, or in
bytes. What changes with age is a list of `[time, value]`, joined by straight lines.

A container states what it may use of each of its devices. Its sharing system's own scheduler and
device plugin would write that in their units, totals and numbering, and so does the scenario:
`mgpu`, `qgpu`, `hami`, `volcano-vgpu`, `volcano-gpushare`, `aliyun`, `ack`, `koordinator`,
`gpu-manager` and `elastic-gpu` in the pod; `nvidia`, `gke`, `amd` and `intel` in what the kubelet
granted; `kai` on a reservation pod, which is made; `dra` in claims; `huawei` and `baidu` nowhere,
as far as is known. With `nvidia` and `gke`, what a container has follows from its devices: all of a
card or of a MIG instance, an equal part of one that is shared by MPS, and no promise of one that is
time-sliced.
"""

SECTIONS = {  # of a scenario file → what they are
    "file": "The file",
    "node": "`node`",
    "devices": "Each of `devices`",
    "pods": "Each of `pods`",
    "containers": "Each of a pod's `containers`",
    "processes": "Each of `processes`, of a container or of the node",
    "faults": "Each of `faults`",
}


def scenarios() -> str:
    """The text of scenarios.md."""
    text = SCENARIOS_PREFACE.format(shipped=", ".join(f"`{name}`" for name in shipped()))
    for section, about in SECTIONS.items():
        rows = (_key(key) for key in SCENARIO_KEYS[section].values())
        text += f"\n## {about}\n\n" + table(("key", "meaning", "if missing", "allowed"), rows)
    return text


def _key(key: Key[object]) -> tuple[str, ...]:
    usual = "must be given" if key.usual is None else key.usual
    return (f"`{key.name}`", key.about, usual, key.kind.allowed)
