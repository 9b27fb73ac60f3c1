"""The page of other exporters' names, from ``exporter/metrics/compat``."""

from collections.abc import Sequence

from exporter.metrics.compat.page import PROGRAMS
from exporter.metrics.compat.subjects import Alias, of, quotient

COMPATIBILITY_PREFACE = """\
# Other exporters' names

Written by `docs/generate.py` from `exporter/metrics/compat/`. Do not edit.

`--compat=dcgm,hami` also serves the same figures under the names, labels and units of other
exporters, so that dashboards, rules and autoscalers keep working. Unknown values are absent, where
the other exporter may report 0. HELP on `/metrics` has each name's meaning.
[dcgm.md](dcgm.md) replaces dcgm-exporter as a whole.

Each name is listed with what it is made of. A *holder* is each container on a shared device, and
the rest of it; their sum is the device. A *container* has a series for each of its devices, a
*task* is a container over all of them.

In OpenMetrics a counter whose name does not end in `_total` is of type unknown. Scrape with
`honorLabels: true`, or the workload's labels are renamed to `exported_namespace`, `exported_pod`
and `exported_container`.
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
    return COMPATIBILITY_PREFACE + "".join(
        f"\n## `--compat={program}`: {PROGRAM_WORDS[program]}\n{_lists(aliases)}"
        for program, aliases in PROGRAMS.items()
    )


def _lists(aliases: Sequence[Alias]) -> str:
    """List the names by what has a series of them, with the labels."""
    sets: dict[tuple[str, tuple[str, ...]], list[Alias]] = {}
    for alias in aliases:
        sets.setdefault((alias.subject, tuple(alias.labels)), []).append(alias)
    return "".join(
        f"\nFor each {subject}, with {', '.join(f'`{label}`' for label in labels)}:\n\n"
        + "".join(f"- `{alias.name}`: {_source(alias)}\n" for alias in listed)
        for (subject, labels), listed in sets.items()
    )


def _source(alias: Alias) -> str:
    match alias.figure:
        case of(name, key, times, per):
            factor = f" times {times:g}" if times != 1 else f" / {per:,.0f}" if per != 1 else ""
            return f"`{name}`" + (f" of `{key}`" if key else "") + factor
        case quotient(part, whole, times):
            return f"`{part}` / `{whole}` times {times:g}"
        case other:
            return (other.__doc__ or "").splitlines()[0].removeprefix("Return ").rstrip(".")
