"""How large a node is, and what runs where on it. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Self
from uuid import NAMESPACE_OID, uuid5

SHARING = 8  # containers on one GPU
APP_PROCESSES = 20  # in each of a pod's two containers
NAMESPACES = 8
CONTAINERS = ("main", "sidecar")


@dataclass(frozen=True, slots=True)
class Size:
    """``processes`` work on each of the GPUs; ``pods`` run on the node, with GPUs and without."""

    gpus: int
    processes: int
    pods: int
    app_processes: int = APP_PROCESSES

    @classmethod
    def parse(cls, text: str) -> Self:
        """From ``8x64x110``."""
        gpus, processes, pods = map(int, text.split("x"))
        size = cls(gpus, processes, pods)
        if min(gpus, processes, pods) < 1 or size.sharing * gpus > pods:
            raise ValueError(f"{text}: each of {SHARING} containers of a GPU needs a pod")
        if processes > size.sharing * size.app_processes:
            raise ValueError(f"{text}: a container has {size.app_processes} processes, no more")
        return size

    @property
    def sharing(self) -> int:
        """Containers on one GPU."""
        return min(SHARING, self.processes)

    def __str__(self) -> str:
        return f"{self.gpus} x {self.processes} x {self.pods}"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod: two containers and a sandbox. ``gpu`` None: it asks for none.

    The first ``working`` processes of its container ``main`` work on the GPU.
    """

    number: int
    gpu: int | None = None
    working: int = 0
    generation: int = 0

    @property
    def name(self) -> str:
        """As a Deployment names its pods."""
        kind = "serving" if self.gpu is not None else "frontend"
        return f"{kind}-{self.number % 12}-{self._hash('rs', 10)}-{self._hash('pod', 5)}"

    @property
    def namespace(self) -> str:
        """One of a few."""
        return f"team-{self.number % NAMESPACES}"

    @property
    def uid(self) -> str:
        """The same each run."""
        return str(uuid5(NAMESPACE_OID, f"{self.number}/{self.generation}"))

    def container_id(self, container: str) -> str:
        """64 hex digits; the sandbox's is of the container named ""."""
        return self._hash(container, 64)

    def _hash(self, what: str, digits: int) -> str:
        return sha256(f"{self.uid}/{what}".encode()).hexdigest()[:digits]


def tenants(size: Size) -> Iterator[Tenant]:
    """All pods of a node, those with GPUs first."""
    on_gpus = size.gpus * size.sharing
    each, rest = divmod(size.processes, size.sharing)
    for number in range(size.pods):
        if number < on_gpus:
            place = number // size.gpus
            yield Tenant(number, number % size.gpus, each + (place < rest))
        else:
            yield Tenant(number)
