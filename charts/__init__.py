"""The Helm chart's sources: the table of its values, and what is written from it.

May import the exporter's table of settings and nothing else of it.
"""
