"""The page of the settings, from ``exporter/settings``."""

from collections.abc import Sequence

from exporter.settings import SUBJECTS, Setting
from exporter.settings.schemes import KEYS
from pages.tables import table

COMMAS = "; several separated by commas"
UNITS = ", with its units: ms, s, m, h"

CONFIGURATION_PREFACE = """\
# Configuration

Written by `docs/generate.py` from `exporter/settings/`. Do not edit.

Each setting is a flag, an environment variable, and a key of the YAML file of `--config.file`: the
variable of `--web.listen-address` is `MGPU_WEB_LISTEN_ADDRESS`, its key `web.listen-address`.
Flags override variables, and variables override the file. A bad value or an unknown key ends the
start with exit status 2, and a line says where it is and what is allowed.
`mgpu-exporter check-config` checks without starting anything. An unknown variable that begins with
`MGPU_` is ignored with a warning.

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

*Live* settings are applied while the exporter runs, when the file has changed
([rules.md](rules.md)). The others wait for the next start.

| signal | effect |
|---|---|
| `SIGTERM`, `SIGINT` | ends within a second, even if a driver call hangs |
| `SIGHUP` | reads the settings again at once |
| `SIGUSR2` | releases the GPU driver so that it can be unloaded; again: opens it |
"""

SCHEMES_PREFACE = """
## A sharing system of your own

You can describe a system that has no decoder here in the settings file, without code. Its series
are those of any other, with its name as `scheme`. This one counts a card as 1000 parts, memory in
blocks of 256 MiB, and writes each container's card into an annotation:

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

Amounts and cards may also come from annotations or labels. TensorFusion uses annotations and a
resource that begins with `tensor-fusion.ai/index_`. KubeShare uses a label and two annotations:

```yaml
allocations:
  schemes:
    - name: tensor-fusion
      memory-key: tensor-fusion.ai/vram-limit      # a quantity, of each card
      memory-unit: "1"
      core-key: tensor-fusion.ai/compute-percent-limit
      count-key: tensor-fusion.ai/gpu-count
      amounts: each
      container-key: tensor-fusion.ai/inject-container
      evidence-resource: tensor-fusion.ai/index_
      placement-annotation: tensor-fusion.ai/gpu-ids
      index-basis: uuid
      policy-annotation: tensor-fusion.ai/isolation
    - name: kubeshare
      core-key: sharedgpu/gpu_limit                # 1.0 is one whole card
      core-units: 1
      memory-key: sharedgpu/gpu_mem                # bytes
      memory-unit: "1"
      placement-annotation: sharedgpu/gpu_uuid
      index-basis: uuid
```

Without a resource, as with KubeShare, who may change a pod may change its limits too
([security.md](security.md)).

What is described is read before what is shipped. If only the meaning of a card's number differs
from a shipped system, say so instead: `--allocations.index-basis=vke-mgpu=minor`.

"""


def configuration() -> str:
    """The text of configuration.md."""
    heads = ("flag", "default", "live", "meaning", "allowed")
    subjects = "".join(
        f"\n## {title.rstrip('.')}\n\n{table(heads, map(_setting, subject.values()))}"
        for title, subject in SUBJECTS.items()
    )
    return f"{CONFIGURATION_PREFACE}{subjects}{SCHEMES_PREFACE}{_keys()}"


def _setting(setting: Setting) -> tuple[str, ...]:
    return (
        f"`--{setting.name}`",
        f"`{setting.default}`" if setting.default else "",
        "yes" if setting.live else "",
        f"{setting.about} {setting.why}".strip(),
        _allowed(setting),
    )


def _allowed(setting: Setting) -> str:
    """What is allowed, without what the table of values says of every such setting."""
    return setting.kind.allowed.replace(COMMAS, "").replace(UNITS, "")


def _any_of(names: Sequence[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def _keys() -> str:
    rows = (
        (
            f"`{key.name}`",
            f"`{key.default}`" if key.default else "",
            key.about + (f" Only with {_any_of(key.needs)}." if key.needs else ""),
            key.kind.allowed,
        )
        for key in KEYS.values()
    )
    return table(("key", "default", "meaning", "allowed"), rows)
