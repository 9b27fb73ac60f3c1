"""Just enough of the CUDA driver API to keep a GPU busy for a known amount of work.

Needs libcuda.so.1 and nothing else: the kernel is PTX, which the driver compiles. It does a number
of dependent steps in one thread, so its time is proportional to the steps when it runs alone, and
the same work whoever shares the GPU with it.
"""

import ctypes
from collections.abc import Sequence

CHAIN = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry chain(.param .u64 steps, .param .u64 out)
{
  .reg .pred %more;
  .reg .u64 %n, %i, %x, %to;
  ld.param.u64 %n, [steps];
  ld.param.u64 %to, [out];
  mov.u64 %i, 0;
  mov.u64 %x, 88172645463325252;
STEP:
  mad.lo.u64 %x, %x, 6364136223846793005, 1442695040888963407;
  add.u64 %i, %i, 1;
  setp.lt.u64 %more, %i, %n;
  @%more bra STEP;
  st.global.u64 [%to], %x;
  ret;
}
"""
MIB = 1 << 20


class CudaError(RuntimeError):
    """A driver call failed; the message names it and its CUresult."""


class Gpu:
    """A context on one GPU, some memory in it, and the kernel."""

    def __init__(self, index: int, memory_mib: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._kernel, self._out = ctypes.c_void_p(), ctypes.c_uint64()
        self._begin, self._end = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), index)
        self._call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        self._call("cuMemAlloc_v2", ctypes.byref(self._out), ctypes.c_size_t(memory_mib * MIB))
        self._call("cuModuleLoadData", ctypes.byref(module), CHAIN)
        self._call("cuModuleGetFunction", ctypes.byref(self._kernel), module, b"chain")
        for event in (self._begin, self._end):
            self._call("cuEventCreate", ctypes.byref(event), 0)
        self.ns_per_step = self._calibrate()

    def run(self, steps: int) -> float:
        """Do so many steps; the milliseconds between the events around them (others included)."""
        values: Sequence[ctypes.c_uint64] = (ctypes.c_uint64(steps), self._out)
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        self._call("cuEventRecord", self._begin, None)
        self._call("cuLaunchKernel", self._kernel, *(1,) * 6, 0, None, pointers, None)
        self._call("cuEventRecord", self._end, None)
        self._call("cuEventSynchronize", self._end)
        milliseconds = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(milliseconds), self._begin, self._end)
        return milliseconds.value

    def _calibrate(self) -> float:
        """Nanoseconds a step, at the clock that the GPU has when it works; must run alone."""
        for _ in range(50):
            self.run(1_000_000)
        return min(self.run(4_000_000) for _ in range(10)) * 1e6 / 4_000_000

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise CudaError(f"{name} failed with CUresult {code}")
