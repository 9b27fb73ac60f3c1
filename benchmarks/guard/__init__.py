"""Fails where the exporter has become dearer: CPU of a cycle and of a page, and memory."""
