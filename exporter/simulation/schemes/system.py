"""The values between a sharing system's writer and the node: requests, output, offers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from exporter.model import ClaimedDevice, ClaimRef, Grant, OfferedDevice
from exporter.simulation.description import (
    AllocationSpec,
    ContainerSpec,
    DeviceSpec,
    PodSpec,
    Scenario,
)

MIB, GIB = 1 << 20, 1 << 30
WHOLE = 100  # percent of the cores
THOUSAND = 1000
SUFFIXES = ("", "k", "M", "G", "T", "P", "E")

Texts = Mapping[str, str]
Amount = int | str  # a number in the resource's own unit, or a quantity as it is written


@dataclass(frozen=True, slots=True)
class Site:
    """The node as schedulers and device plugins see it."""

    node: str
    devices: tuple[DeviceSpec, ...]
    labels: Texts = field(default_factory=dict)

    @classmethod
    def of_scenario(cls, scenario: Scenario) -> "Site":
        """The node of a scenario."""
        return cls(scenario.node_name, scenario.devices, scenario.node_labels)

    @property
    def cards(self) -> tuple[DeviceSpec, ...]:
        """NVIDIA's physical GPUs, in the driver's order."""
        return tuple(d for d in self.of("nvidia") if d.parent is None)

    def of(self, vendor: str) -> tuple[DeviceSpec, ...]:
        """One vendor's devices, instances among them."""
        return tuple(device for device in self.devices if device.vendor == vendor)

    def another(self, device: DeviceSpec) -> DeviceSpec:
        """The next card, for virtual ids: they do not name the container's card."""
        place = self.cards.index(device)
        return self.cards[(place + 1) % len(self.cards)]


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """One container's request. ``place`` is its index in ``spec.containers``."""

    container: ContainerSpec
    allocation: AllocationSpec
    devices: tuple[DeviceSpec, ...]
    place: int

    @property
    def name(self) -> str:
        """The container's name."""
        return self.container.name

    @property
    def count(self) -> int:
        """Number of devices."""
        return len(self.devices)

    @property
    def core(self) -> int | None:
        """Percent of the cores of each device."""
        return self.allocation.core_percent

    @property
    def memory(self) -> int | None:
        """Bytes of each device."""
        return self.allocation.memory_bytes

    @property
    def whole(self) -> bool:
        """Whether it asks for all cores of its devices."""
        return self.core == WHOLE

    def numbers(self, number: Callable[[DeviceSpec], int]) -> str:
        """Its devices by a number of each, separated by commas, in its own order."""
        return ",".join(str(number(device)) for device in self.devices)


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod with its name and the node that it is bound to."""

    pod: PodSpec
    name: str
    site: Site

    @property
    def asks(self) -> Iterator[ContainerRequest]:
        """The requests of its containers in their order, without containers that have none."""
        apps = [c.name for c in self.pod.containers if c.kind == "app"]
        for container in self.pod.containers:
            if container.allocation is not None:
                devices = tuple(self.site.devices[n] for n in container.allocation.devices)
                place = apps.index(container.name) if container.name in apps else -1
                yield ContainerRequest(container, container.allocation, devices, place)


@dataclass(frozen=True, slots=True)
class SchemeOutput:
    """What is left of a pod's allocation: by its scheduler, in the pod, and by the kubelet.

    ``limits`` and ``refs`` are by container, ``claims`` by the name of a ResourceClaim.
    """

    limits: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    annotations: Texts = field(default_factory=dict)
    labels: Texts = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()
    refs: Mapping[str, tuple[ClaimRef, ...]] = field(default_factory=dict)
    claims: Mapping[str, tuple[ClaimedDevice, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a device plugin or driver publishes. ``devices`` are by driver, pool, device."""

    allocatable: Mapping[str, Amount] = field(default_factory=dict)
    labels: Texts = field(default_factory=dict)
    annotations: Texts = field(default_factory=dict)
    devices: Mapping[tuple[str, str, str], OfferedDevice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class System:
    """A sharing system: its output for a pod, its offer on the node, the bytes of its unit."""

    write: Callable[[PlacedPod], SchemeOutput]
    offer: Callable[[Site], Offer]
    unit: int = MIB


def virtual(ask: ContainerRequest, resource: str, count: int, form: Callable[[int], str]) -> Grant:
    """The kubelet's grant of virtual ids: they stand for shares, not devices."""
    return Grant(ask.name, resource, tuple(form(number) for number in range(count)))


def texts(amounts: Mapping[str, Amount]) -> dict[str, str]:
    """Amounts as the API server writes them."""
    return {
        key: _quantity(amount) if isinstance(amount, int) else amount
        for key, amount in amounts.items()
    }


def _quantity(number: int) -> str:
    """As the API server writes it: 3000 is "3k" (apimachinery ``resource/quantity.go``)."""
    suffix = 0
    while number and number % THOUSAND == 0 and suffix + 1 < len(SUFFIXES):
        number //= THOUSAND
        suffix += 1
    return f"{number}{SUFFIXES[suffix]}"
