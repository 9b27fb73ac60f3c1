"""Whether each room can do its work here, and what to do where it cannot.

Asks the rooms' own sources as the cycle does, and where one fails looks closer with the functions
that it calls itself: there is no second way of reading anything. Changes nothing, serves nothing.
One examination that fails costs only itself.
"""

from exporter.doctor.evidence import CheckResult, CheckVerdict, ProbeResults, gather
from exporter.doctor.examine import ReportEntry, as_json, as_text, examine

__all__ = [
    "CheckResult",
    "CheckVerdict",
    "ProbeResults",
    "ReportEntry",
    "as_json",
    "as_text",
    "examine",
    "gather",
]
