"""The page of the metric families, from ``exporter/metrics/families``."""

import re

from exporter.metrics.families import CORE, FAMILIES, LEVELS, Family
from pages.promql import expressions
from pages.tables import table

LEVEL_WORDS = {
    "device": "Physical GPUs, MIG instances, partitions. A meaning ends in its group, if any: "
    "`--metrics.disable=power` leaves that out, with its driver calls. Errors, replays, NVLink and "
    "throttling count since the driver was loaded or the board reset. `profiling` is averaged over "
    "10 s, from Hopper on (GPM).",
    "container": "Containers of named pods, per device.",
    "pod": "Pods, over all their containers and devices.",
    "namespace": "Namespaces, per device. They live as long as the exporter.",
    "group": "Groups: [cgroups that are no named pod's container](off-kubernetes.md), per device.",
    "group_kind": "All groups of a kind together, per device. They live as long as the exporter, "
    "and begin at 0, so `rate()` loses nothing of short jobs ([kinds](off-kubernetes.md#kinds)).",
    "exporter": "The exporter itself. The client library's `process_*` and `python_info` stand "
    "beside them.",
}
ALIKE = "container"  # the level whose families others have too
SAID_ABOVE = (
    ", averaged over --collection.window",
    " since the driver was loaded or the board reset",
    ", averaged over 10 s",
    ", counted at each window: use + idle - borrowed = allocated, while use is measured",
    ", counted at each window",
)
OWNER = re.compile(r"\b(all )?(the container|its containers|its pods' containers)\b")
UNATTRIBUTED = "unattributed_"

SOURCES = re.compile(r" \((?:nvml|NVML|AMD|DRM|residencies|computed)[^)]*\)")  # HELP has them

METRICS_PREFACE = """\
# Metrics

<!-- Written by docs/generate.py from exporter/metrics/families: do not edit. -->

Every metric, by level ([questions](questions.md) has queries):
[devices](#mgpu_device_), [containers](#mgpu_container_), [pods](#mgpu_pod_),
[namespaces](#mgpu_namespace_), [groups](#mgpu_group_), [kinds of groups](#mgpu_group_kind_),
[the exporter](#mgpu_exporter_). HELP on `/metrics` names the sources, too.

- **Counters** end in `_total`. All others are gauges; `_ratio` and `_gpus` are averages over
  `--collection.window`.
- **Units** are the base units that the names end in; a ratio of 1 is the whole.
- **Labels**: `gpu` is the device's index, `uuid` its UUID. Prometheus adds node and instance.
- **Age**: at most 10 s, or three `--collection.interval`
  (`mgpu_exporter_snapshot_timestamp_seconds`).
- **A missing value** is unknown, and an `unmeasured` series has the reason. 0 was measured.
- A container's gauges go within 5 s of its end, its counters after `--ledger.retention`.
"""


def metrics() -> str:
    """The text of metrics.md."""
    return METRICS_PREFACE + expressions() + "".join(_level(level) for level in LEVELS)


def _level(level: str) -> str:
    families = [family for family in FAMILIES if family.level == level]
    alike = [family for family in families if _is_alike(family)]
    parts = [family for family in families if _is_a_part(family)]
    labels = ", ".join(f"`{name}`" for name in LEVELS[level])
    words = LEVEL_WORDS[level] + (f" Labels of all: {labels}." if labels else "")
    own = (_family(family) for family in families if family not in (*alike, *parts))
    text = f"\n## `mgpu_{level}_`\n\n{words}\n\n{table(('metric', 'meaning'), own)}"
    if alike:
        text += f"\nAs [of containers](#mgpu_{ALIKE}_): {_names(alike)}.\n"
    if parts:
        text += f"\nParts that no container or group is charged with: {_names(parts)}.\n"
    return text


def _names(families: list[Family]) -> str:
    return ", ".join(f"`{_labelled(family)}`" for family in families)


def _is_a_part(family: Family) -> bool:
    """Whether the family is what of a device's counter is attributed to nobody."""
    return family.name.startswith(UNATTRIBUTED) and family.type == "counter"


def _is_alike(family: Family) -> bool:
    """Whether the family says the same of its level as another of the containers."""
    return family.level != ALIKE and any(
        (other.level, other.name, other.labels, _of_any(other.help))
        == (ALIKE, family.name, family.labels, _of_any(family.help))
        for other in FAMILIES
    )


def _of_any(about: str) -> str:
    """HELP in the words of no level."""
    return OWNER.sub("it", about)


def _family(family: Family) -> tuple[str, str]:
    about = SOURCES.sub("", family.help)
    for said in SAID_ABOVE:
        about = about.replace(said, "")
    if family.group != CORE:
        about = f"{about} `{family.group}`"
    return (f"`{_labelled(family)}`", about)


def _labelled(family: Family) -> str:
    return family.full_name + (f"{{{','.join(family.labels)}}}" if family.labels else "")
