"""Just enough of the CUDA driver API to keep a GPU busy for a known amount of work.

Needs libcuda.so.1 and nothing else: the kernel is PTX, which the driver compiles. It does a number
of dependent steps in one thread, so its time is proportional to the steps when it runs alone, and
the same work whoever shares the GPU with it.
"""

import ctypes
from collections.abc import Callable, Sequence

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
SMALL_NS = 20_000  # of a small kernel
NODES = 50  # of a graph
CAPTURE_RELAXED = 2  # CUstreamCaptureMode
ATTACH_GLOBAL = 1  # CUmemAttach_flags


class CudaError(RuntimeError):
    """A driver call failed; the message names it and its CUresult."""


class Gpu:
    """A context on one GPU, some memory in it, and the kernel.

    ``ns_per_step`` 0: it is measured, which must be done alone.
    """

    def __init__(self, index: int, memory_mib: int, ns_per_step: float = 0.0) -> None:
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
        self._graph: ctypes.c_void_p | None = None
        self._stream: ctypes.c_void_p | None = None
        self.ns_per_step = ns_per_step or self._calibrate()

    def run(self, steps: int) -> float:
        """Do so many steps; the milliseconds between the events around them (others included)."""
        self._call("cuEventRecord", self._begin, None)
        self._launch(steps, None)
        self._call("cuEventRecord", self._end, None)
        self._call("cuEventSynchronize", self._end)
        milliseconds = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(milliseconds), self._begin, self._end)
        return milliseconds.value

    def run_small(self, steps: int) -> None:
        """Do so many steps in kernels of some microseconds, launched one by one."""
        small = self._small
        for _ in range(max(1, steps // small)):
            self._launch(small, None)
        self._call("cuCtxSynchronize")

    def run_graph(self, steps: int) -> None:
        """Do so many steps as a CUDA graph of small kernels, captured once, launched repeatedly."""
        small = self._small
        if self._graph is None:
            self._graph, self._stream = self._captured(small)
        for _ in range(max(1, steps // (small * NODES))):
            self._call("cuGraphLaunch", self._graph, self._stream)
        self._call("cuStreamSynchronize", self._stream)

    def pool(self, mib: int) -> Callable[[], None]:
        """Take memory from the device's pool; what is returned gives it back."""
        place = ctypes.c_uint64()
        self._call("cuMemAllocAsync", ctypes.byref(place), ctypes.c_size_t(mib * MIB), None)
        self._call("cuCtxSynchronize")

        def free() -> None:
            self._call("cuMemFreeAsync", place, None)
            self._call("cuCtxSynchronize")

        return free

    def manage(self, mib: int) -> Callable[[], None]:
        """Take managed memory, which is nowhere yet; what is returned writes it on the device."""
        place, size = ctypes.c_uint64(), ctypes.c_size_t(mib * MIB)
        self._call("cuMemAllocManaged", ctypes.byref(place), size, ATTACH_GLOBAL)

        def write() -> None:
            self._call("cuMemsetD8_v2", place, ctypes.c_ubyte(1), size)
            self._call("cuCtxSynchronize")

        return write

    @property
    def _small(self) -> int:
        """Steps of a small kernel."""
        return max(1, int(SMALL_NS / self.ns_per_step))

    def _launch(self, steps: int, stream: ctypes.c_void_p | None) -> None:
        values: Sequence[ctypes.c_uint64] = (ctypes.c_uint64(steps), self._out)
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        self._call("cuLaunchKernel", self._kernel, *(1,) * 6, 0, stream, pointers, None)

    def _captured(self, steps: int) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """An executable graph of ``NODES`` kernels, and the stream that it is launched on."""
        stream, graph, executable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(stream), 0)
        self._call("cuStreamBeginCapture_v2", stream, CAPTURE_RELAXED)
        for _ in range(NODES):
            self._launch(steps, stream)
        self._call("cuStreamEndCapture", stream, ctypes.byref(graph))
        flags = ctypes.c_ulonglong(0)
        self._call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, flags)
        return executable, stream

    def _calibrate(self) -> float:
        """Nanoseconds a step, at the clock that the GPU has when it works; must run alone."""
        for _ in range(50):
            self.run(1_000_000)
        return min(self.run(4_000_000) for _ in range(10)) * 1e6 / 4_000_000

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise CudaError(f"{name} failed with CUresult {code}")
