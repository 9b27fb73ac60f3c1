"""Writes the pages of docs/ that are made from the code, and api.schema.json.

``python docs/generate.py`` writes them; with ``--check`` it fails where they differ from the code.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from exporter import api
from exporter.compat.page import PROGRAMS
from exporter.compat.table import Alias, of, quotient
from exporter.families import CORE, FAMILIES, LEVELS, PREFIX, Family
from exporter.scenario.keys import TABLE as SCENARIO_KEYS
from exporter.scenario.keys import Key
from exporter.scenario.load import shipped
from exporter.settings import SUBJECTS, Setting
from exporter.settings.schemes import KEYS

FOLDER = Path(__file__).parent

UNITS = {
    "_seconds": "seconds",
    "_bytes": "bytes",
    "_joules": "joules",
    "_ratio": "ratio",
    "_watts": "watts",
    "_celsius": "degrees Celsius",
    "_hertz": "hertz",
    "_gpus": "GPUs",
}

LEVEL_WORDS = {
    "device": "Devices: a physical GPU, or a MIG instance. Families of a group can be left out, "
    "with the driver calls that they take: `--metrics.disable=<group>`.",
    "container": "Containers of named pods, per device.",
    "pod": "Pods, over all their containers and devices.",
    "namespace": "Namespaces, per device. They live as long as the exporter, so that jobs shorter "
    "than a scrape interval are not lost.",
    "group": "Groups: cgroups that are not a named pod's container, such as a pod whose name is "
    "not known yet, or a container outside Kubernetes.",
    "exporter": "The exporter itself. The client library's `process_*` and `python_info` stand "
    "beside them.",
}

METRICS_PREFACE = """\
# Metrics

Written by `docs/generate.py` from `exporter/families.py`. Do not edit.

What you can rely on:

1. **Counters are right at any scrape interval.** They are integrated from every sample that the
   driver keeps, not from one look at each scrape. `rate()` over any range is the average of that
   range.
2. **The books balance.** For every device and quantity: device = containers + groups +
   `unattributed`. Nothing is counted on two pods, and nothing vanishes.
3. **Unknown is not zero.** What cannot be measured is absent, counters too, and the `unmeasured`
   series says why. A rate of 0 means measured and idle.
4. **One vocabulary for every sharing system.** Use, allotment and their ratio have the same names,
   whoever shared the GPU.

Units are base units; a ratio of 1 is the whole. `gpu` is the device's index, `uuid` its UUID. There
is no node, host or instance label: Prometheus adds those of the target. Take counters for sums over
time, and gauges for what is now; `_ratio` and `_gpus` gauges are averages over
`--collection.window`. Values are as old as the last collection cycle
(`mgpu_exporter_snapshot_timestamp_seconds`), at most 10 s: older ones are not served. The end of a
process is noticed with the driver's next process list, at most 5 s later: until then its container
keeps its gauges. Then they go, and the counters stay for `--ledger.retention`.

```promql
# GPUs' worth of core in use, by pod
sum by (namespace, pod) (rate(mgpu_container_core_seconds_total[5m]))

# Use against allotment, for containers that have one
rate(mgpu_container_core_seconds_total[5m])
  / (rate(mgpu_container_allocated_core_seconds_total[5m]) > 0)

# GPU-hours of the last day, by namespace: short jobs included
sum by (namespace) (increase(mgpu_namespace_core_seconds_total[1d])) / 3600

# Containers that hold more than nine tenths of their memory
mgpu_container_memory_limit_utilization_ratio > 0.9

# Power by namespace, in watts
sum by (namespace) (rate(mgpu_namespace_energy_joules_total[5m]))

# Busy time of a device that nobody we can name used, by reason
sum by (uuid, reason) (rate(mgpu_device_unattributed_core_seconds_total[5m]))
```
"""

BOOKS_PREFACE = """
## The books in PromQL

Each of these gives a series for a device whose parts differ from the whole by more than a
twentieth: none does, so each is ready to be an alert's expression (with `for: 15m`). The parts of
the counters are namespaces rather than containers, because a container's first scrape may come
after its first use, which `rate()` then does not see; a namespace's series began before that.

"""

BOOKS = {  # what is used → a device's counter of it, and the name of that of its parts
    "core": ("busy_seconds_total", "core_seconds_total"),
    "memory traffic": ("memory_active_seconds_total", "memory_active_seconds_total"),
    "encoder": ("encoder_seconds_total", "encoder_seconds_total"),
    "decoder": ("decoder_seconds_total", "decoder_seconds_total"),
    "energy": ("energy_joules_total", "energy_joules_total"),
}

ALLOTMENTS_PREFACE = """
## Allotments in PromQL

Each of these gives a series for what it names, and nothing else; with a `for:` of some minutes each
is ready to be an alert's expression. Where use or allotment is not known, they are silent.

- Limits stand on the device that the allotment names, use on the device that it was seen on;
  `mgpu_container_placement_mismatch` is 1 where they differ. Before the device is known, the pod
  has its limits, and the container `unmeasured{reason="placement"}`.
- An allotment of a pod as a whole (some sharing systems do not say whose container's it is) is a
  row with `container=""`; one whose device is not known has `gpu=""` and `uuid=""`.
- `mgpu_container_allocation_info` is there for every allotment, also one that promises no share: of
  replicas, `mgpu_container_allocated_replicas / on (uuid) group_left ()
  mgpu_device_sharing_replicas` says how many of how many.
- `mgpu_pod_allocated_core_seconds_total` is what a pod is to be charged with, used or not.
- Series of a pod that asked for no GPU begin when it first uses one; those of an allotted pod begin
  at 0 when it is bound to the node.

"""

ALLOTMENTS = {  # what is found → the expression that finds it
    "memory over its allotment": """\
mgpu_container_memory_limit_utilization_ratio > 1
  or on (namespace, pod) mgpu_pod_memory_limit_utilization_ratio > 1""",
    "core over its share": """\
rate(mgpu_container_core_seconds_total[5m])
  / (rate(mgpu_container_allocated_core_seconds_total[5m]) > 0) > 1.1
  or on (namespace, pod) avg_over_time(mgpu_pod_core_limit_utilization_ratio[5m]) > 1.1""",
    "allotted, and not used for half an hour": """\
increase(mgpu_pod_core_seconds_total[30m]) == 0
  and on (namespace, pod) mgpu_container_allocation_info
  and on (namespace, pod) mgpu_container_allocation_info offset 30m""",
    "at work without an allotment": """\
mgpu_container_processes > 0
  unless on (namespace, pod) mgpu_container_allocation_info""",
    "not on the device that was allotted": "mgpu_container_placement_mismatch == 1",
    "offline, and paused by others on the card": """\
rate(mgpu_container_core_seconds_total[1m]) < 0.01
  and mgpu_container_processes > 0
  and on (namespace, pod, container, uuid) mgpu_container_allocation_info{priority="offline"}
  and on (uuid) (
    rate(mgpu_container_core_seconds_total[1m]) > 0.1
    and on (namespace, pod, container, uuid) mgpu_container_allocation_info{priority!="offline"}
  )""",
    "over its share while a neighbour waits for its own": """\
rate(mgpu_container_core_seconds_total[5m])
  > 1.1 * (rate(mgpu_container_allocated_core_seconds_total[5m]) > 0)
  and on (uuid) (
    (rate(mgpu_container_core_seconds_total[5m]) > 0.01)
    < 0.9 * rate(mgpu_container_allocated_core_seconds_total[5m])
  )
  and on (uuid) rate(mgpu_device_busy_seconds_total[5m]) > 0.95""",
}

CONFIGURATION_PREFACE = """\
# Configuration

Written by `docs/generate.py` from `exporter/settings/`. Do not edit.

Each setting can be given as a flag, as an environment variable, and by the flag's name in the YAML
file of `--config.file`. Flags go before environment variables, these before the file. A value that
is not allowed, and a key of the file that is not known or given twice, end the start with exit
status 2 and a line for each that says where it stands and what is allowed; nothing is started with
a part of a configuration. `mgpu-exporter check-config` says the same without starting anything.
A variable that begins with `MGPU_` and is no setting is warned of and not heeded, for others may
set it: Kubernetes does, for every Service of the namespace (`MGPU_EXPORTER_SERVICE_HOST`).

```yaml
collection.interval: 500ms
web:                          # the same as web.max-requests: 20
  max-requests: 20
gpus.source: [nvml]
```

| a value | as a flag | as a variable | in the file |
|---|---|---|---|
| duration | `--collection.interval=1m30s` (`ms`, `s`, `m`, `h`) | `1m30s` | `1m30s` |
| switch | `--web.open-page`, `--web.open-page=false` | `true` | `true` |
| list | given several times, or `--pods.labels=app,team` | `app,team` | `[app, team]` |
| pairs | `--allocations.index-basis=tke-qgpu=minor` | `tke-qgpu=minor` | `{tke-qgpu: minor}` |
| several lines | YAML in one text | YAML in one text | as it stands below |

Settings that are *live* are taken up while the exporter runs, when the file has changed
([rules.md](rules.md)); the others at the next start.

| signal | effect |
|---|---|
| `SIGTERM`, `SIGINT` | ends within a second, even if a driver call hangs |
| `SIGHUP` | reads the settings again at once |
| `SIGUSR2` | lets go of the GPU driver so that it can be unloaded; again: takes it up |
"""

SCENARIOS_PREFACE = """\
# Scenarios

Written by `docs/generate.py` from `exporter/scenario/keys.py`. Do not edit.

`--simulate` takes the name of a shipped scenario ({shipped}) or a YAML file, and simulates the
whole node: its devices as their driver shows them, its pods as API server, kubelet and schedulers
tell of them, and its processes in their cgroups. No GPU and no cluster is needed; every page says
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

SCHEMES_PREFACE = """
## A sharing system of your own

A system that has no module here, or the fork of one that has, can be described in the settings
file. It then has the same series as any other, with its name as `scheme`; no code is needed. Take
a system that counts a card as 1000 parts, memory in blocks of 256 MiB, and writes each container's
card into an annotation:

```yaml
allocations:
  schemes:
    - name: acme-vgpu
      core-resource: acme.example/gpu-core      # 1000 are one whole card
      core-units: 1000
      memory-resource: acme.example/gpu-memory  # 1 is 256 MiB
      memory-unit: 256Mi
      placement-annotation: acme.example/gpu-of-{container}
      index-basis: minor                        # the N of /dev/nvidiaN
      policy-node-label: acme.example/policy
```

A pod whose container `train` asks for 250 `acme.example/gpu-core` and 16 `acme.example/gpu-memory`,
and has the annotation `acme.example/gpu-of-train: "3"`, then has a core limit of 0.25 and a memory
limit of 4 GiB on the card `/dev/nvidia3`. Without the annotation the pod has its limits, and the
container those of the card on which its processes are seen.

What is described is read before what is shipped. A container with all units of a card has all its
memory, unless it asks for some. What a pod says beyond what can be true costs it that part only and
is counted in `mgpu_exporter_rejected_samples_total`, as with any other system. If what a card's
number means is the only thing that is other than taken, say so of the shipped system instead:
`--allocations.index-basis=vke-mgpu=minor`.

"""


COMPATIBILITY_PREFACE = """\
# Other exporters' names

Written by `docs/generate.py` from `exporter/compat/`. Do not edit.

`--compat=dcgm,hami` serves, beside this exporter's own families, those below under the names,
labels and units that other exporters gave them, so that dashboards (such as Grafana's 12239), rules
and autoscalers go on while you move. They are made from the same figures and obey the same rule:
what is not known is absent, where the other exporter may have said 0.

A row says of what there is a series: a *device*; the *holder* of a part of a device (each container
on a shared device, and what is left of it; their sum is the device); a *container* on each of its
devices; a *task*, which is a container over all its devices; a *pod*. In OpenMetrics a counter
whose name does not end in `_total` is of type unknown, so that its name stays.

The labels `namespace`, `pod` and `container` are the workload's. Scrape with `honorLabels: true`,
or Prometheus calls them `exported_namespace`, `exported_pod` and `exported_container`.
"""

PROGRAM_WORDS = {
    "dcgm": "dcgm-exporter",
    "hami": "HAMi vGPUmonitor",
    "hami-legacy": "HAMi vGPUmonitor with `--legacy-metrics`, volcano-vgpu's monitor",
    "elastic-gpu": "elastic-gpu-exporter, TKE gpu-exporter",
    "gpu-manager": "tkestack gpu-manager",
}


def compatibility() -> str:
    """The text of compatibility.md."""
    heads = ("name", "type", "meaning", "a series for each", "made of")
    return COMPATIBILITY_PREFACE + "".join(
        f"\n## `--compat={program}`: {PROGRAM_WORDS[program]}\n\n"
        + _table(heads, map(_alias, aliases))
        + _alias_labels(aliases)
        for program, aliases in PROGRAMS.items()
    )


def _alias_labels(aliases: Sequence[Alias]) -> str:
    """Name each set of labels once."""
    sets = dict.fromkeys((alias.subject, tuple(alias.labels)) for alias in aliases)
    return "".join(
        f"\nLabels of a {subject}: {', '.join(f'`{label}`' for label in labels)}.\n"
        for subject, labels in sets
    )


def _alias(alias: Alias) -> tuple[str, ...]:
    return (f"`{alias.name}`", alias.type, alias.help, alias.subject, _source(alias))


def _source(alias: Alias) -> str:
    match alias.figure:
        case of(name, key, times, per):
            factor = f" times {times:g}" if times != 1 else f" / {per:,.0f}" if per != 1 else ""
            return f"`{name}`" + (f" of `{key}`" if key else "") + factor
        case quotient(part, whole, times):
            return f"`{part}` / `{whole}` times {times:g}"
        case other:
            return (other.__doc__ or "").splitlines()[0].removeprefix("Return ").rstrip(".")


def metrics() -> str:
    """The text of metrics.md."""
    expressions = _promql(BOOKS_PREFACE, books()) + _promql(ALLOTMENTS_PREFACE, ALLOTMENTS)
    return METRICS_PREFACE + expressions + "".join(_level(level) for level in LEVELS)


def _promql(preface: str, expressions: Mapping[str, str]) -> str:
    titled = "\n\n".join(f"# {what}\n{expression}" for what, expression in expressions.items())
    return f"{preface}```promql\n{titled}\n```\n"


def books() -> dict[str, str]:
    """An expression for each quantity: the devices whose parts do not add up to the whole."""
    found = {}
    for what, (whole, part) in BOOKS.items():
        parts = f'{{__name__=~"{PREFIX}_(namespace|group|device_unattributed)_{part}"}}'
        found[what] = _unbalanced(f"rate({PREFIX}_device_{whole}[5m])", f"rate({parts}[5m])")
    parts = f"{PREFIX}_((container|group)_memory_used|device_unattributed_memory)_bytes"
    found["memory"] = _unbalanced(f"{PREFIX}_device_memory_used_bytes", f'{{__name__=~"{parts}"}}')
    return found


def _unbalanced(whole: str, parts: str) -> str:
    return f"abs(1 -\n  sum by (uuid) ({parts})\n  / sum by (uuid) ({whole})\n) > 0.05"


def _level(level: str) -> str:
    families = [family for family in FAMILIES if family.level == level]
    labels = ", ".join(f"`{name}`" for name in LEVELS[level]) or "none"
    head = f"\n## `mgpu_{level}_`\n\n{LEVEL_WORDS[level]}\n\nLabels of all: {labels}.\n\n"
    heads = ("metric", "type", "unit", "further labels", "meaning")
    table = _table(heads, (_family(family) for family in families))
    return head + table


def _family(family: Family) -> tuple[str, ...]:
    own = ", ".join(f"`{name}`" for name in family.labels)
    about = family.help if family.group == CORE else f"{family.help} Group `{family.group}`."
    return (f"`{family.full_name}`", family.type, _unit(family), own, about)


def _unit(family: Family) -> str:
    name = family.name.removesuffix("_total")
    if name.endswith("_timestamp_seconds"):
        return "Unix time, seconds"
    return next((word for suffix, word in UNITS.items() if name.endswith(suffix)), "")


def configuration() -> str:
    """The text of configuration.md."""
    heads = ("flag", "variable", "default", "live", "meaning", "allowed")
    subjects = "".join(
        f"\n## {title.rstrip('.')}\n\n{_table(heads, map(_setting, subject.values()))}"
        for title, subject in SUBJECTS.items()
    )
    return f"{CONFIGURATION_PREFACE}{subjects}{SCHEMES_PREFACE}{_keys()}"


def _setting(setting: Setting) -> tuple[str, ...]:
    return (
        f"`--{setting.name}`",
        f"`{setting.variable}`",
        f"`{setting.default}`" if setting.default else "",
        "yes" if setting.live else "",
        f"{setting.about} {setting.why}".strip(),
        setting.kind.allowed,
    )


def _keys() -> str:
    rows = (
        (
            f"`{key.name}`",
            f"`{key.default}`" if key.default else "",
            key.about + (f" Only with `{key.needs}`." if key.needs else ""),
            key.kind.allowed,
        )
        for key in KEYS.values()
    )
    return _table(("key", "default", "meaning", "allowed"), rows)


def scenarios() -> str:
    """The text of scenarios.md."""
    text = SCENARIOS_PREFACE.format(shipped=", ".join(f"`{name}`" for name in shipped()))
    for section, about in SECTIONS.items():
        rows = (_key(key) for key in SCENARIO_KEYS[section].values())
        text += f"\n## {about}\n\n" + _table(("key", "meaning", "if missing", "allowed"), rows)
    return text


def _key(key: Key[object]) -> tuple[str, ...]:
    usual = "must be given" if key.usual is None else key.usual
    return (f"`{key.name}`", key.about, usual, key.kind.allowed)


def _table(heads: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(_cell, cells))} |\n" for cells in lines)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write the files, or with ``--check`` compare them; 1 if one differs."""
    drifted = []
    for name, text in (
        ("metrics.md", metrics()),
        ("configuration.md", configuration()),
        ("compatibility.md", compatibility()),
        ("scenarios.md", scenarios()),
        ("api.schema.json", json.dumps(api.schema(), indent=1) + "\n"),
    ):
        path = folder / name
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            drifted.append(name)
    if drifted:
        print(f"{', '.join(drifted)}: not as in the code; run python docs/generate.py")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
