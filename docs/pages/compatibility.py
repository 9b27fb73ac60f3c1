"""The page of other exporters' names, from ``exporter/metrics/compat``."""

from collections.abc import Sequence

from exporter.metrics.compat.compatpage import PROGRAMS
from exporter.metrics.compat.subjects import Alias, Figure, of, per, quotient

COMPATIBILITY_PREFACE = """\
# Other exporters' names

<!-- Written by docs/generate.py from exporter/metrics/compat/: do not edit. -->

**`--compat=dcgm,hami`, in the chart `settings.compat: [dcgm, hami]`, also serves the same figures
under the names, labels and units of other exporters**, so that dashboards, rules and autoscalers
keep working. Scrape the other exporter no longer: sums would count every card twice. HELP on
`/metrics` has each name's meaning. [dcgm.md](dcgm.md) replaces dcgm-exporter as a
whole. HAMi's scheduler goes on with its own names, such as `GPUDeviceMemoryAllocated`.

A *holder* is each container on a shared device, and the rest of it; their sum is the device. A
*container* has a series for each of its devices, a *task* is a container over all of them. An
*allocation* is all that a container is allocated, in use or not. In OpenMetrics a counter whose
name does not end in `_total` is of type unknown.
"""

TIMES = "\N{MULTIPLICATION SIGN}"
MIB = 1 << 20

PROGRAM_WORDS = {
    "dcgm": "dcgm-exporter",
    "dcgm-4.9": "dcgm-exporter 4.9",
    "opencost": "OpenCost, Kubecost",
    "hami": "HAMi vGPUmonitor",
    "hami-legacy": "HAMi vGPUmonitor with `--legacy-metrics`, volcano-vgpu's monitor",
    "elastic-gpu": "elastic-gpu-exporter, TKE gpu-exporter",
    "gpu-manager": "tkestack gpu-manager",
}

PROGRAM_NOTES = {
    "dcgm-4.9": """
The same figures in 4.9's units: [dcgm.md](dcgm.md#your-boards-survive-the-new-names) has the names.
What 4.9 does not rename is there once, also beside `dcgm`.
""",
    "opencost": """
OpenCost charges a pod for `container_gpu_allocation` times the price of its node's GPUs. Its own
series of this name has whole cards only; with this one it charges parts of a card too.

- Switch OpenCost's own series off, or it takes the average of both: add
  `container_gpu_allocation` to `disabledMetrics` in its `metrics.json`, or drop it in the scrape
  configuration of OpenCost.
- Run the exporter on every node with GPUs: where one series of this name is in the range, OpenCost
  no longer looks at any pod's resources.
- `node` is the node's name in Kubernetes (`--node.name`), by which OpenCost finds the price.
- The price is one card's. Where the device plugin advertises replicas, look at
  `node_gpu_hourly_cost`: some versions of OpenCost divide it by the number of replicas.
- What is only known of a pod as a whole has no series, because OpenCost asks for containers.

A pod's GPU cost is that of [`mgpu-exporter bill`](bill.md) by allocation. OpenCost has no idle
part, and where allocations pass the whole card, it charges more than the card.
""",
}

TRIED = """
## Programs that were tried

On 2026-11-29, over the simulated demo node and our rules:

- **Thanos** 0.39.2 (sidecar, compactor, store, querier) had 22 days of three nodes in blocks of
  14 days, with averages of 5 minutes and an hour. `bill` by days and by owner, `why` and `advise`
  say what Prometheus says. Where only averages are left, `bill` refuses, or says what is
  unobserved.
- **Mimir** of April 2026 (`aced80d7`, one process, a tenant's header, without the clouds' object
  stores) answers as Prometheus 3 does. Over two nodes that is 118 expressions of rules, 315
  questions of the boards, `bill`, `top`, `why` and `advise`; bills and advice of 5 histories are
  the same. By remote write 1,413 series arrive with type, unit and help, and end with the exporter.
  Its ruler takes all 11 groups. Where a question may have 300 series or chunks, all but `top`
  answer; a limit of bytes, memory, time or length is said in its words.
- **Datadog's OpenMetrics check** (`datadog-checks-base` 38.7.0): in text each of 1,619 series has
  its name, labels, type and value. With `use_latest_spec` those of type unknown are dropped
  (`--compat=dcgm`). It stops at 2,000 series of a target: set `max_returned_metrics`.
- **OpenTelemetry's prometheusreceiver** 0.161.0: names, labels, types and help are kept. There are
  no units: [our configuration](opentelemetry.md) sets them. Type unknown becomes a gauge: scrape
  DCGM's names as text. What left the page ends. With `--metrics.created` counters have their start.
- **vmagent and vmalert** 1.79: each series and its end are kept; all rules are taken.
- **KEDA's prometheus scaler** 2.21.0 (its file, without the clouds' logins) asked both triggers of
  [our example](autoscaling.md): 1.315 for pods that use 1.315 of their shares, 1 for two that wait.
  A lost device, a stopped exporter and a deployment without pods are errors. Without
  `ignoreNullValues: "false"` all three were 0, and so are NaN and infinity.
- **New Relic's nri-prometheus** of July 2026 (after 2.30.1, without its discovery): each of 178
  names (`--compat=dcgm`) arrived with its labels and type. Counters are sent as increments, none
  above its growth on the page; a series counts from its second scrape.
- **kube-state-metrics** of August 2026 with an API server 1.36.3: prices by labels that collide,
  change or are missing are each said; `MgpuExporterMissing` names the one node without an exporter.

`make cluster-test` has cases with the **Prometheus Operator** 0.85 and **prometheus-adapter** 0.12:
the chart's monitors are scraped, its rules are loaded, an alert fires, a deployment grows by our
metric.
"""


def compatibility() -> str:
    """The text of compatibility.md."""
    programs = "".join(
        f"\n## `--compat={program}`: {PROGRAM_WORDS[program]}\n{PROGRAM_NOTES.get(program, '')}"
        + ("" if program == "dcgm-4.9" else _lists(aliases))
        for program, aliases in PROGRAMS.items()
    )
    return COMPATIBILITY_PREFACE + programs + TRIED


def _lists(aliases: Sequence[Alias]) -> str:
    """List the names by what has a series of them, with the labels."""
    sets: dict[tuple[str, tuple[str, ...]], list[Alias]] = {}
    for alias in aliases:
        sets.setdefault((alias.subject, tuple(alias.labels)), []).append(alias)
    subjects: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (subject, labels), listed in sets.items():
        subjects.setdefault((labels, _list(listed)), []).append(subject)
    text = ""
    before: tuple[str, ...] = ()
    for (labels, names), these in subjects.items():
        named = ", ".join(f"`{label}`" for label in labels)
        with_these = "the same labels" if labels == before else named
        text += f"\nFor each {' and '.join(these)}, with {with_these}:\n\n{names}"
        before = labels
    return text


def _list(aliases: Sequence[Alias]) -> str:
    """What each name is made of; names of the same figure together."""
    names: dict[str, list[str]] = {}
    for alias in aliases:
        names.setdefault(_source(alias.figure), []).append(f"`{alias.name}`")
    return "".join(f"- {', '.join(these)}: {source}\n" for source, these in names.items())


def _source(figure: Figure) -> str:
    match figure:
        case per(whole, unit):
            return f"{_source(whole)}, {_in(unit)}"
        case of(name, key, times, unit):
            factor = f" {TIMES}{times:g}" if times != 1 else f" {_in(unit)}" if unit != 1 else ""
            return f"`{name}`" + (f" (`{key}`)" if key else "") + factor
        case quotient(part, whole, times):
            return f"`{part}` / `{whole}` {TIMES}{times:g}"
        case other:
            return (other.__doc__ or "").splitlines()[0].removeprefix("Return ").rstrip(".")


def _in(unit: float) -> str:
    return "in MiB" if unit == MIB else f"/ {unit:,.0f}"
