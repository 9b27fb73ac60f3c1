"""The pages of the scenario files, the second from ``exporter/simulation/keys.py``."""

from exporter.simulation.keys import TABLE as SCENARIO_KEYS
from exporter.simulation.keys import Key
from exporter.simulation.load import shipped
from pages.tables import table

SCENARIOS_PREFACE = """\
# Scenarios

Written by `docs/generate.py`. Do not edit.

`--simulate` takes the name of a shipped scenario ({shipped}) or a YAML file. It simulates a whole
node, without a GPU or a cluster: devices, pods, and processes in their cgroups. A bad value
or an unknown key ends the start with a line that names it.

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

[All keys](../exporter/simulation/README.md) are listed with meaning, default and bounds. The
shipped scenarios (`exporter/simulation/shipped`) are examples to copy.

Times are written as `500ms`, `7.5s`, `2m`, `1h`, or in seconds; sizes as `512MiB`, `16GiB`, or in
bytes. What changes with age is a list of `[time, value]`, joined by straight lines.

A container states what it may use of each of its devices. The simulator writes that as the sharing
system's own scheduler and device plugin would:

| scheme | written to |
|---|---|
| `mgpu`, `qgpu`, `hami`, `volcano-vgpu`, `ack`, `koordinator` | the pod |
| `nvidia`, `gke`, `amd`, `intel` | what the kubelet granted |
| `kai` | a reservation pod |
| `dra` | claims |

A pod of another sharing system states its `limits`, `annotations` and `labels` itself, as the
system writes them, and has no `scheme`. Its processes name their devices.
"""

KEYS_PREFACE = """\
# The keys of a scenario file

Written by `docs/generate.py` from `exporter/simulation/keys.py`. Do not edit.

[docs/scenarios.md](../../docs/scenarios.md) has an example, and how times and sizes are written.
"""

EXAMPLES = (" such as 500ms, 7.5s, 2m, 1h, or seconds", " such as 512MiB, 16GiB, or bytes")

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
    return SCENARIOS_PREFACE.format(shipped=", ".join(f"`{name}`" for name in shipped()))


def keys() -> str:
    """The text of the README beside the simulation, with all keys of a scenario file."""
    text = KEYS_PREFACE
    for section, about in SECTIONS.items():
        rows = (_key(key) for key in SCENARIO_KEYS[section].values())
        text += f"\n## {about}\n\n" + table(("key", "meaning", "if missing", "allowed"), rows)
    return text


def _key(key: Key[object]) -> tuple[str, ...]:
    usual = "must be given" if key.usual is None else key.usual
    allowed = key.kind.allowed
    for example in EXAMPLES:  # the page says once how they are written
        allowed = allowed.replace(example, "")
    return (f"`{key.name}`", key.about, usual, allowed)
