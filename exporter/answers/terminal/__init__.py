"""GPUs, pods, containers and processes in a terminal.

Everything is read from documents of ``exporter.agent.api``, made by this process, by an exporter on
another machine, or from a Prometheus. The documents are not trusted: fields may be missing or have
other types, and texts are stripped of everything that a terminal acts on. Only ``app`` and ``tree``
import textual, which is an optional extra. Unknown values are never shown as 0.
"""
