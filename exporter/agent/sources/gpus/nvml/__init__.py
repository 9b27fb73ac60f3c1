"""NVIDIA GPUs through the driver's own management library, NVML.

``library`` finds and loads it, and is the only importer of pynvml. ``calls`` makes the calls of
each cycle without pynvml. ``discovery`` lists devices and MIG instances. ``device`` reads a device.
``source`` opens the driver and is the ``GpuSource``. Whatever reads a device passes on that its
driver is gone or the device lost (``errors``), because these concern more than one call. Process
ids are those of the host's pid namespace: without ``hostPID`` the driver hides or renumbers them.
"""
