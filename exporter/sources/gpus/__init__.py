"""Devices and what the driver says of the processes on them; one module per source.

This room is the only one that speaks to drivers, and ``nvml`` the only importer of pynvml. It
knows process ids, never containers or pods. Every source keeps its own deadline: a driver call
that hangs costs the device it was for, never the cycle.
"""
