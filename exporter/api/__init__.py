"""A Snapshot as the JSON documents that programs and the page live on, and their schema.

Pure: no I/O, no clock. Names and units are those of the metric table (``families.py``): a family
``mgpu_container_core_utilization_ratio`` is ``core_utilization_ratio`` of a container here. What is
not known is absent, never 0. The command lines of processes are not in a Snapshot and cannot leave
through here.
"""

from exporter.api.document import About, Document, devices, history, pod, snapshot
from exporter.api.schema import schema

__all__ = ["About", "Document", "devices", "history", "pod", "schema", "snapshot"]
