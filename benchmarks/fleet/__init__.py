"""The fleet: many simulated nodes behind one process, for real Prometheus and VictoriaMetrics.

Every page is made as the exporter makes it: scenario, sources, collector, ledger, renderer, web
application. ``python -m benchmarks.fleet`` measures what a fleet costs the servers that scrape it,
and writes the tables of results.md and docs/scaling.md. What is pure stands apart (``nodes``,
``config``, ``series``, ``paper``), and is tested without any server.
"""
