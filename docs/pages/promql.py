"""Expressions over the families: whether the books balance; and what to know of counters."""

from exporter.metrics.families import PREFIX

BOOKS_PREFACE = """
## The books in PromQL

Each query finds devices whose parts differ from the whole by more than a twentieth: none should.
For memory traffic, encoder, decoder and energy write `memory_active_seconds`, `encoder_seconds`,
`decoder_seconds` or `energy_joules` in place of both `core_seconds` and `busy_seconds`.

"""

COUNTERS_TEXT = """
## Counters that lose nothing at their first scrape

Prometheus 3 can put a 0 where a counter began, so that `rate()` sees what was used before the first
scrape. Switch it on at both ends:

- Prometheus: `--enable-feature=created-timestamp-zero-ingestion`, or from 3.11 on
  `--enable-feature=st-storage,use-start-timestamps` (experimental).
- The exporter: `--metrics.created`. The page grows by a third, with gzip by a sixth. A Prometheus
  without the feature stores each `_created` line as a series of its own.

## Series of allocations

- Limits are on the device that the allocation names, use on the device where it was seen
  (`mgpu_container_placement_mismatch`).
- An allocation of a pod as a whole has `container=""`; one whose device is not known has `gpu=""`
  and `uuid=""`. It is in `mgpu_container_allocation_info` also without a promised share.
- Idle and borrowed core time are counted at each window, where the allocation was there:
  use + idle - borrowed = allocated in each scrape, while use is measured.
- Charge a namespace by `mgpu_namespace_allocated_core_seconds_total`, used or not: sums of
  `mgpu_pod_allocated_core_seconds_total` lose pods that were too short for a scrape.
"""


def expressions() -> str:
    """The sections of the page of metrics."""
    blocks = (f"```promql\n# {what}\n{asked}\n```\n" for what, asked in books().items())
    return BOOKS_PREFACE + "\n".join(blocks) + COUNTERS_TEXT


def books() -> dict[str, str]:
    """An expression for counters, and one for memory: devices whose parts are not the whole."""
    counted = (
        f'{{__name__=~"{PREFIX}_(namespace|group_kind|device_unattributed)_core_seconds_total"}}'
    )
    held = f"{PREFIX}_((container|group)_memory_used|device_unattributed_memory)_bytes"
    return {
        "core": _unbalanced(
            f"rate({PREFIX}_device_busy_seconds_total[5m])", f"rate({counted}[5m])"
        ),
        "memory": _unbalanced(f"{PREFIX}_device_memory_used_bytes", f'{{__name__=~"{held}"}}'),
    }


def _unbalanced(whole: str, parts: str) -> str:
    of_each = "sum by (cluster, instance, uuid)"
    return f"abs(1 -\n  {of_each} ({parts})\n  / {of_each} ({whole})\n) > 0.05"
