"""A Snapshot as JSON documents, for programs, the page and the terminal, with their schema.

Pure: no I/O, no clock. Names and units are those of the metric table (``families``): the family
``mgpu_container_core_utilization_ratio`` is ``core_utilization_ratio`` of a container here. A value
that is not known is absent, never 0. Documents cannot contain command lines of processes, because a
Snapshot has none.
"""

from exporter.agent.api.context import About, restricted_past
from exporter.agent.api.document import (
    HISTORY_MINUTES,
    Document,
    devices,
    error,
    history,
    pod,
    schema,
    snapshot,
)

__all__ = [
    "HISTORY_MINUTES",
    "About",
    "Document",
    "devices",
    "error",
    "history",
    "pod",
    "restricted_past",
    "schema",
    "snapshot",
]
