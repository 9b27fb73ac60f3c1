"""GPUs of the kernel's DRM drivers, by the ``fdinfo`` of each client.

It uses sysfs and Documentation/gpu/drm-usage-stats.rst, and no vendor's library. Written from the
kernel's documentation and sources: experimental until tried on hardware. Of a process it reads only
which DRM devices are open and their ``fdinfo``. It opens no device and writes nothing.
"""
