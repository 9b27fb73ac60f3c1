"""The page of other exporters' names, from ``exporter/metrics/compat``."""

from collections.abc import Sequence

from exporter.metrics.compat.page import PROGRAMS
from exporter.metrics.compat.subjects import Alias, of, quotient
from pages.tables import table

COMPATIBILITY_PREFACE = """\
# Other exporters' names

Written by `docs/generate.py` from `exporter/metrics/compat/`. Do not edit.

`--compat=dcgm,hami` also serves the same figures under the names, labels and units of other
exporters. So dashboards (such as Grafana's 12239), rules and autoscalers keep working while you
move. What is not known is absent, where the other exporter may report 0. Each name has the other
exporter's meaning, which is its HELP on `/metrics`.

*A series for each* is one of:

- *device*
- *holder*: each container on a shared device, and the rest of it; their sum is the device
- *container*: on each of its devices
- *task*: a container over all its devices
- *pod*

In OpenMetrics a counter whose name does not end in `_total` is of type unknown, so its name stays.
[dcgm.md](dcgm.md) shows how to replace dcgm-exporter as a whole.

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
    heads = ("name", "a series for each", "made of")
    return COMPATIBILITY_PREFACE + "".join(
        f"\n## `--compat={program}`: {PROGRAM_WORDS[program]}\n\n"
        + table(heads, map(_alias, aliases))
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
    return (f"`{alias.name}`", alias.subject, _source(alias))


def _source(alias: Alias) -> str:
    match alias.figure:
        case of(name, key, times, per):
            factor = f" times {times:g}" if times != 1 else f" / {per:,.0f}" if per != 1 else ""
            return f"`{name}`" + (f" of `{key}`" if key else "") + factor
        case quotient(part, whole, times):
            return f"`{part}` / `{whole}` times {times:g}"
        case other:
            return (other.__doc__ or "").splitlines()[0].removeprefix("Return ").rstrip(".")
