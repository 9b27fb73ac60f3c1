"""The sub-commands of ``mgpu-exporter``: settings in, objects wired, exit status out."""
