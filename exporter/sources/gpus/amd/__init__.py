"""AMD GPUs by what the kernel's amdgpu and KFD drivers show in sysfs. No ROCm library is needed.

Reads files below the given root, nothing else: it opens no device file, so that it keeps no driver
loaded and wakes no board that sleeps, and it writes nothing. What no file tells is absent. Only
``smi`` calls AMD's library, where that is asked for, to compare with what was read.
"""
