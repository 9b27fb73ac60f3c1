"""Devices of the kernel's DRM drivers, by what they say of each client in ``fdinfo``.

Stands on Documentation/gpu/drm-usage-stats.rst and sysfs, on no vendor's library. Written from the
kernel's documentation and sources: experimental until seen on hardware. Reads nothing of a process
but which DRM devices it has open and the ``fdinfo`` of those; opens no device; writes nothing.
"""
