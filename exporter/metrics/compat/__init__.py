"""The names, labels and units of other exporters, from the same snapshot, while users move.

``--compat`` switches them on. Each name is a row of a program's table; where this exporter does not
know what a name promises there is no row, and where it has no figure there is no series. Pure: it
may not measure, keep or add anything.
"""

from exporter.metrics.compat.page import PROGRAMS, CompatPage

__all__ = ["PROGRAMS", "CompatPage"]
