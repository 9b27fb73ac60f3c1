"""The page of the settings, from ``exporter/agent/settings``."""

from collections.abc import Iterator, Sequence

from exporter.agent.settings import SUBJECTS
from exporter.agent.settings.schemes import KEYS
from exporter.inputs.values import Setting
from exporter.metrics.families import OPTIONAL_GROUPS
from pages.tables import table

COMMAS = "; several separated by commas"
UNITS = ", with its units: ms, s, m, h"
GROUPS = f" ({', '.join(OPTIONAL_GROUPS)})"  # docs/metrics.md has them
BEGINNINGS = ("one of ", "a number from ", "a duration from ", "a number of bytes from ")
OBVIOUS = {
    "true or false",
    "a text without control characters",
    "an absolute path",
    "a key such as example.com/gpu-policy",
    "an extended resource such as example.com/gpu-core",
    "a namespace of small letters, digits and -",
    "a name of small letters, digits and -, at most 63",
}

CONFIGURATION_PREFACE = """\
# Configuration

<!-- Written by docs/generate.py from exporter/agent/settings/: do not edit. -->

**Each setting is a flag (`--web.listen-address`), a variable (`MGPU_WEB_LISTEN_ADDRESS`) and a key
of the YAML file of `--config.file`**, in this order of precedence. A bad value ends the start with
exit status 2 and a line that says what is allowed; `mgpu-exporter check-config` starts nothing.

| a value | as a flag | as a variable | in the file |
|---|---|---|---|
| duration | `--collection.window=1m30s` (`ms`, `s`, `m`, `h`) | `1m30s` | `1m30s` |
| switch, off by default | `--web.open-page`, `--web.open-page=false` | `true` | `true` |
| list | given several times, or `--pods.labels=app,team` | `app,team` | `[app, team]` |
| pairs | `--allocations.index-basis=tke-qgpu=minor` | `tke-qgpu=minor` | `{tke-qgpu: minor}` |

*Live* settings are applied when the file changes ([at run time](rules.md)); others at the next
start. What is allowed stands in parentheses.

- `SIGTERM` and `SIGINT` end the exporter within a second, even if a driver call hangs.
- `SIGHUP` reads the settings again at once.
- `SIGUSR2` releases the GPU driver so that it can be unloaded; again, it opens it.
"""

SCHEMES_PREFACE = """
## A sharing system of your own

Describe it in the settings file. Its name is the label `scheme`. This one writes each container's
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

A container `train` that asks for 250 cores and 16 units of memory, with the annotation
`acme.example/gpu-of-train: "3"`, has limits of 0.25 and 4 GiB on the card `/dev/nvidia3`.

Amounts and cards may also come from annotations or labels, as with TensorFusion and KubeShare:

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

Without a resource, as with KubeShare, anybody who may change a pod may change its limits
([security.md](security.md)). Described systems are read before shipped ones. If only the meaning of
a card's number differs from a shipped system, set `--allocations.index-basis=vke-mgpu=minor`.

"""


def configuration() -> str:
    """The text of configuration.md."""
    heads = ("flag", "default", "meaning")
    subjects = "".join(
        f"\n## {title.rstrip('.')}\n\n{table(heads, _settings(list(subject.values())))}"
        for title, subject in SUBJECTS.items()
    )
    return f"{CONFIGURATION_PREFACE}{subjects}{SCHEMES_PREFACE}{_keys()}"


def _settings(subject: Sequence[Setting]) -> Iterator[tuple[str, ...]]:
    """Their rows; what is allowed stands once where two neighbours allow the same."""
    before = ""
    for setting in subject:
        allowed = _allowed(setting.kind.allowed)
        yield _setting(setting, " (as above)" if allowed and allowed == before else allowed)
        before = allowed


def _setting(setting: Setting, allowed: str) -> tuple[str, ...]:
    shown = setting.default not in ("", "false")  # switches are off
    default = f"`{setting.default}`" if shown else ""
    return (
        f"`--{setting.name}`",
        ", ".join(filter(None, (default, "live" if setting.live else ""))),
        f"{setting.about} {setting.why}".strip() + allowed,
    )


def _allowed(allowed: str) -> str:
    """What is allowed in few words; nothing where every reader knows."""
    short = allowed.replace(COMMAS, "").replace(UNITS, "").replace(GROUPS, " of metrics.md")
    if short in OBVIOUS:
        return ""
    short = short.replace("an address with a port up to 65535, such as", "such as")
    for beginning in BEGINNINGS:
        short = short.removeprefix(beginning)
    return f" ({short})"


def _any_of(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _keys() -> str:
    rows = (
        (
            f"`{key.name}`",
            f"`{key.default}`" if key.default else "",
            key.about
            + (f" Only with {_any_of(key.needs)}." if key.needs else "")
            + _allowed(key.kind.allowed),
        )
        for key in KEYS.values()
    )
    return table(("key", "default", "meaning"), rows)
