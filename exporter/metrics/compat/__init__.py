"""Names, labels and units of other exporters, for users who migrate. Pure.

``--compat`` switches them on. Each program has a table with one row for each name. A name whose
meaning this exporter cannot provide has no row; a value that is not known has no series. All values
come from the same snapshot.
"""

from exporter.metrics.compat.compatpage import PROGRAMS, CompatPage

__all__ = ["PROGRAMS", "CompatPage"]
