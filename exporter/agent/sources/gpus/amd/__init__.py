"""AMD GPUs, read from the sysfs files of the kernel's amdgpu and KFD drivers, without ROCm.

It only reads files below the given root. It opens no device file, so it keeps no driver loaded and
wakes no board that sleeps, and it writes nothing. What no file reports is absent.
"""
