"""Fails where the exporter leaves its budget: CPU of a cycle and of a page, and memory."""
