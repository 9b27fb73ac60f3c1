"""The pages of the scenario files, the second from ``exporter/agent/simulation/keys.py``."""

import re

from exporter.agent.simulation.keys import TABLE as SCENARIO_KEYS
from exporter.agent.simulation.keys import Key
from exporter.agent.simulation.load_scenario import shipped

SCENARIOS_PREFACE = """\
# Scenarios

<!-- Written by docs/generate.py: do not edit. -->

`--simulate` takes the name of a shipped scenario ({shipped}) or a YAML file. It simulates a whole
node, without a GPU or a cluster: devices, pods, and processes in their cgroups. A bad value
or an unknown key ends the start with a line that names it.

```yaml
devices:
  - {{model: NVIDIA A10, memory: 24GiB}}
pods:
  - name: chat-0
    namespace: inference
    annotations:                 # as the sharing system writes them
      tke.cloud.tencent.com/qgpu-pgpu-server: "0"
    containers:
      - name: server
        limits: {{tke.cloud.tencent.com/qgpu-core: "40", tke.cloud.tencent.com/qgpu-memory: "8"}}
        processes:
          - {{device: 0, duty: 0.3, memory: 6GiB}}
```

[All keys](../exporter/agent/simulation/README.md) are listed with meaning, default and bounds.

Times are written as `500ms`, `7.5s`, `2m`, `1h`, or in seconds; sizes as `512MiB`, `16GiB`, or in
bytes. What changes with age is a list of `[time, value]`, joined by straight lines.

Pods stand as they are in a cluster: copy `limits`, `annotations` and `labels` from
`kubectl get pod`, and the node's labels, annotations and allocatable resources from
`kubectl get node`. What the kubelet granted a container by a device plugin (PodResources) is its
`granted`: device ids by resource, such as `{{nvidia.com/gpu: [GPU-…]}}`. Systems that name a card
by its UUID need the `uuid` of that device. `eight-schemes` (in `exporter/agent/simulation/shipped`)
has pods to copy from. ResourceClaims (DRA) are not simulated.
"""

KEYS_PREFACE = """\
# The keys of a scenario file

<!-- Written by docs/generate.py from exporter/agent/simulation/keys.py: do not edit. -->

In brackets: what is allowed, and what it is if missing. A name has a-z, 0-9, `-` and `.`; a text is
one line. [docs/scenarios.md](../../docs/scenarios.md) has an example, and how times, sizes and
values over age are written.
"""

IN_SHORT = {  # of what is allowed: the preface explains these once
    r"; or a list of \[time, value\], times rising": ", also over age",
    r" such as (500ms, 7.5s, 2m, 1h, or seconds|512MiB, 16GiB, or bytes|500ms, 2m)": "",
    r"^a text on one line": "text",
    r"^a name of .*": "name",
    r"^a (time|size|number of watts|MIG profile|list|mapping of texts)\b": r"\1",
    r"^a number from |^one of |^true or false$|^a mapping of keys$": "",
    r"^a number from 0 to 1023; several separated by commas": "number, or list of them",
    r"^a mapping of resources to lists of ids": "mapping of lists",
    r"list of at least one \w+": "list",
}

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
        lines = "".join(map(_key, SCENARIO_KEYS[section].values()))
        text += f"\n## {about}\n\n{lines}"
    return text


def _key(key: Key[object]) -> str:
    allowed = key.kind.allowed
    for pattern, short in IN_SHORT.items():
        allowed = re.sub(pattern, short, allowed)
    usual = "required" if key.usual is None else f"default {key.usual}"
    facts = "; ".join(filter(None, (allowed, "" if key.usual == "none" else usual)))
    return f"- `{key.name}`: {key.about}{f' ({facts})' if facts else ''}\n"
