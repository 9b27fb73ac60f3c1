"""Which of a device's processes is the MPS server: it has no list of its own.

Clients stand in NVML's MPS list. The server stands in the compute list only, as a process that has
nothing to do with MPS does; its name tells it from one.
"""

from collections.abc import Iterable
from ctypes import c_char_p, c_uint, create_string_buffer

from exporter.gpus.nvml import errors
from exporter.gpus.nvml.library import Library
from exporter.model import ProcessMemory

NAME = "nvmlSystemGetProcessName"
SERVER = b"nvidia-cuda-mps-server"
COMPUTE_ONLY = frozenset({"compute"})
MOST_BYTES = 256


class MpsServers:
    """Marks the server among the processes of a device. One thread at a time.

    pynvml is no help here: it decodes the name, which a process may have chosen not to be text.
    """

    def __init__(self, library: Library) -> None:
        self._name = library.function(NAME, c_uint, c_char_p, c_uint)
        self._buffer = create_string_buffer(MOST_BYTES)
        self._looked_at: tuple[ProcessMemory, ...] = ()
        self._serving = False  # whether there are clients among those

    def marked(self, processes: tuple[ProcessMemory, ...]) -> tuple[ProcessMemory, ...]:
        """The same processes, with the kind ``mps_server`` where there are clients to serve."""
        if processes is not self._looked_at:
            self._looked_at = processes
            self._serving = any("mps" in process.kinds for process in processes)
        return tuple(self._marked(processes)) if self._serving else processes

    def _marked(self, processes: Iterable[ProcessMemory]) -> Iterable[ProcessMemory]:
        for process in processes:
            server = process.kinds == COMPUTE_ONLY and self._is_server(process.pid)
            yield process._replace(kinds=process.kinds | {"mps_server"}) if server else process

    def _is_server(self, pid: int) -> bool:
        """By the name of its program; a process that has ended meanwhile has none."""
        if self._name is None or self._name(pid, self._buffer, MOST_BYTES) != errors.SUCCESS:
            return False
        program = self._buffer.value.split(b" ", 1)[0]
        return program.rsplit(b"/", 1)[-1] == SERVER
