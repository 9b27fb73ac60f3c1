"""The books as rows: what the readers of a Snapshot are served.

A gauge of an owner that has gone leaves at once, its counters stay for a while; nothing but the
reason is shown on a device that could not be read for some cycles.
"""

from exporter.ledger.device_rows import device_rows
from exporter.ledger.ledger import Ledger
from exporter.ledger.owner_rows import container_rows, group_rows
from exporter.ledger.pod_rows import namespace_rows, pod_rows
from exporter.ledger.view import CycleFacts, View
from exporter.model import Row


def rows_of(ledger: Ledger, facts: CycleFacts) -> dict[str, tuple[Row, ...]]:
    """All rows but the exporter's own, by level."""
    view = View(ledger, facts)
    return {
        "device": tuple(device_rows(view)),
        "container": tuple(container_rows(view)),
        "pod": tuple(pod_rows(view)),
        "namespace": tuple(namespace_rows(view)),
        "group": tuple(group_rows(view)),
    }
