"""Snapshot → the text of a page, in the Prometheus text format 0.0.4 and OpenMetrics 1.0.0.

Pure; stands on the metric table. Formatted here and not by prometheus_client, whose 8-15 µs a
sample would be most of the exporter's CPU; the tests hold the result against its parsers. Both
formats differ in the name of a counter's family only.
"""

from exporter.metrics.text.page import Format, Renderer, escaped, head, written

__all__ = ["Format", "Renderer", "escaped", "head", "written"]
