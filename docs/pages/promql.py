"""Expressions over the families: whether the books balance, what became of allocations."""

from collections.abc import Mapping

from exporter.metrics.families import PREFIX

BOOKS_PREFACE = """
## The books in PromQL

Each of these gives a series for a device whose parts differ from the whole by more than a
twentieth: none does, so each is ready to be an alert's expression (with `for: 15m`). The parts of
the counters are namespaces and kinds of groups, not containers and groups. The first scrape of a
container, a Slurm job or a unit may come after its first use, and `rate()` does not see what a
series has at its beginning: of jobs of a few seconds that is most of their use. The series of a
namespace and of a kind began before that, and they stay when the job has gone.

"""

BOOKS = {  # what is used → a device's counter of it, and the name of that of its parts
    "core": ("busy_seconds_total", "core_seconds_total"),
    "memory traffic": ("memory_active_seconds_total", "memory_active_seconds_total"),
    "encoder": ("encoder_seconds_total", "encoder_seconds_total"),
    "decoder": ("decoder_seconds_total", "decoder_seconds_total"),
    "energy": ("energy_joules_total", "energy_joules_total"),
}

ALLOCATIONS_PREFACE = """
## Counters that lose nothing at their first scrape

Prometheus 3 can put a 0 where a counter began. Switch it on at both ends, and `increase()` and
`rate()` see what a container used before its first scrape:

- Prometheus 3.0 and newer: `--enable-feature=created-timestamp-zero-ingestion`. The flag kept its
  name when Prometheus renamed created timestamps to start timestamps.
- From 3.11 on `--enable-feature=st-storage,use-start-timestamps` stores the times themselves and
  lets PromQL use them. It is experimental, and not tested here.
- The exporter: `--metrics.created`.

Do not switch on the exporter's alone. A Prometheus without the feature stores each `_created` line
as a series of its own, as many again as there are counters. So it is off by default. All readers
of one exporter must take start times, or ask for the text format, which has none.

A series begins when its container was first observed. Where that is not known, it begins at the
OpenMetrics page before the first that shows it: it was 0 until then. What is on the first page
began when the exporter was started, with all counters at 0, as after each restart. A series that
left the page begins again when it comes back. Names of other exporters (`--compat`) have no start.
On a recorded node with one GPU the page grows by a third (40 to 54 kB; with gzip 5.9 to 6.8 kB),
and writing it takes 1.8 ms instead of 0.9.

<a id="allocations-in-promql"></a>

## Allocations in PromQL

Each of these gives a series for what it names, and nothing else; with a `for:` of some minutes each
is ready to be an alert's expression. Where use or allocation is not known, they are silent.

- Limits stand on the device that the allocation names, use on the device that it was seen on;
  `mgpu_container_placement_mismatch` is 1 where they differ. Before the device is known, the pod
  has its limits, and the container `unmeasured{reason="placement"}`.
- An allocation of a pod as a whole (some sharing systems do not say whose container's it is) is a
  row with `container=""`; one whose device is not known has `gpu=""` and `uuid=""`.
- `mgpu_container_allocation_info` is there for every allocation, also one that promises no share.
  For replicas, `mgpu_container_allocated_replicas / on (uuid) group_left ()
  mgpu_device_sharing_replicas` says how many of how many.
- `mgpu_pod_allocated_core_seconds_total` is what a pod is to be charged with, used or not.
- Series of a pod that asked for no GPU begin when it first uses one. Those of an allocated pod
  begin at 0 when it is bound to the node.

"""

ALLOCATIONS = {  # what is found → the expression that finds it
    "memory over its allocation": """\
mgpu_container_memory_limit_utilization_ratio > 1
  or on (namespace, pod) mgpu_pod_memory_limit_utilization_ratio > 1""",
    "core over its share": """\
rate(mgpu_container_core_seconds_total[5m])
  / (rate(mgpu_container_allocated_core_seconds_total[5m]) > 0) > 1.1
  or on (namespace, pod) avg_over_time(mgpu_pod_core_limit_utilization_ratio[5m]) > 1.1""",
    "allocated, and not used for half an hour": """\
increase(mgpu_pod_core_seconds_total[30m]) == 0
  and on (namespace, pod) mgpu_container_allocation_info
  and on (namespace, pod) mgpu_container_allocation_info offset 30m""",
    "at work without an allocation": """\
mgpu_container_processes > 0
  unless on (namespace, pod) mgpu_container_allocation_info""",
    "not on the device that was allocated": "mgpu_container_placement_mismatch == 1",
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


def expressions() -> str:
    """The sections of the page of metrics."""
    return _promql(BOOKS_PREFACE, books()) + _promql(ALLOCATIONS_PREFACE, ALLOCATIONS)


def _promql(preface: str, expressions: Mapping[str, str]) -> str:
    titled = "\n\n".join(f"# {what}\n{expression}" for what, expression in expressions.items())
    return f"{preface}```promql\n{titled}\n```\n"


def books() -> dict[str, str]:
    """An expression for each quantity: the devices whose parts do not add up to the whole."""
    found = {}
    for what, (whole, part) in BOOKS.items():
        parts = f'{{__name__=~"{PREFIX}_(namespace|group_kind|device_unattributed)_{part}"}}'
        found[what] = _unbalanced(f"rate({PREFIX}_device_{whole}[5m])", f"rate({parts}[5m])")
    parts = f"{PREFIX}_((container|group)_memory_used|device_unattributed_memory)_bytes"
    found["memory"] = _unbalanced(f"{PREFIX}_device_memory_used_bytes", f'{{__name__=~"{parts}"}}')
    return found


def _unbalanced(whole: str, parts: str) -> str:
    return f"abs(1 -\n  sum by (uuid) ({parts})\n  / sum by (uuid) ({whole})\n) > 0.05"
