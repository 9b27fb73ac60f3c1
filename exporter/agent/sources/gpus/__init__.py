"""GPU devices and the use of each by process, read from the drivers; one module per source.

Only this room calls drivers, and only ``nvml`` imports pynvml. It handles process ids, never
containers or pods. Every source keeps its own deadline: a driver call that hangs costs the device
that it was for, never the cycle.
"""
