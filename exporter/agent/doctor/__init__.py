"""The checks of ``mgpu-exporter check``: what works on this node, what does not, and what to do.

The checks poll the sources as the cycle does. If a source fails, they use the source's own
functions to find out why, so there is no second way of reading anything. They change and serve
nothing. A check that fails itself does not affect the others.
"""

from exporter.agent.doctor.evidence import CheckResult, CheckVerdict, ProbeResults, gather
from exporter.agent.doctor.examine import ReportEntry, as_json, as_text, examine

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
