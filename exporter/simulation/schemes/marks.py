"""What a sharing system writes and promises: the values between its writer and the node."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.model import ClaimedDevice, ClaimRef, Grant, OfferedDevice
from exporter.simulation.description import Allotment, ContainerSpec, DeviceSpec, PodSpec, Scenario

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
WHOLE = 100  # percent of the cores
THOUSAND = 1000
SUFFIXES = ("", "k", "M", "G", "T", "P", "E")
ASSUMED_NS = 1_700_000_000_000_000_000  # when a scheduler chose; nobody reads it

Texts = Mapping[str, str]
Amount = int | str  # a number in the resource's own unit, or a quantity as it is written


@dataclass(frozen=True, slots=True)
class Site:
    """What schedulers and device plugins know of the node."""

    node: str
    devices: tuple[DeviceSpec, ...]
    labels: Texts = field(default_factory=dict)
    memory_unit: str = "GiB"

    @classmethod
    def of_scenario(cls, scenario: Scenario) -> "Site":
        """The node of a scenario."""
        return cls(scenario.node_name, scenario.devices, scenario.node_labels, scenario.memory_unit)

    @property
    def cards(self) -> tuple[DeviceSpec, ...]:
        """NVIDIA's physical GPUs, in the driver's order."""
        return tuple(d for d in self.of("nvidia") if d.parent is None)

    def of(self, vendor: str) -> tuple[DeviceSpec, ...]:
        """One vendor's devices, instances among them."""
        return tuple(device for device in self.devices if device.vendor == vendor)

    def pci_place(self, device: DeviceSpec) -> int:
        """The place of a card in the order of PCI addresses."""
        return sorted(card.pci_bus_id for card in self.cards).index(device.pci_bus_id)

    def another(self, device: DeviceSpec) -> DeviceSpec:
        """The next card: a virtual id says nothing of where it leads."""
        place = self.cards.index(device)
        return self.cards[(place + 1) % len(self.cards)]


@dataclass(frozen=True, slots=True)
class Ask:
    """What one container asks for. ``place`` is its index in ``spec.containers``."""

    container: ContainerSpec
    allotment: Allotment
    devices: tuple[DeviceSpec, ...]
    place: int

    @property
    def name(self) -> str:
        """The container's name."""
        return self.container.name

    @property
    def count(self) -> int:
        """How many devices."""
        return len(self.devices)

    @property
    def core(self) -> int | None:
        """Percent of the cores of each device."""
        return self.allotment.core_percent

    @property
    def memory(self) -> int | None:
        """Bytes of each device."""
        return self.allotment.memory_bytes

    @property
    def whole(self) -> bool:
        """Whether it asks for all cores of its devices."""
        return self.core == WHOLE

    def numbers(self, number: Callable[[DeviceSpec], int]) -> str:
        """Its devices by a number of each, separated by commas, in its own order."""
        return ",".join(str(number(device)) for device in self.devices)


@dataclass(frozen=True, slots=True)
class Order:
    """A pod with the name it goes by, and the node that it was bound to."""

    pod: PodSpec
    name: str
    site: Site

    @property
    def asks(self) -> Iterator[Ask]:
        """What its containers ask for, in their order; those without devices are left out."""
        apps = [c.name for c in self.pod.containers if c.kind == "app"]
        for container in self.pod.containers:
            if container.allotment is not None:
                devices = tuple(self.site.devices[n] for n in container.allotment.devices)
                place = apps.index(container.name) if container.name in apps else -1
                yield Ask(container, container.allotment, devices, place)


@dataclass(frozen=True, slots=True)
class Marks:
    """What is left of a pod's allotment: by its scheduler, in the pod, and by the kubelet.

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
    """What a device plugin or driver says of the node. ``devices`` are by driver, pool, device."""

    allocatable: Mapping[str, Amount] = field(default_factory=dict)
    labels: Texts = field(default_factory=dict)
    annotations: Texts = field(default_factory=dict)
    devices: Mapping[tuple[str, str, str], OfferedDevice] = field(default_factory=dict)


class Promise(NamedTuple):
    """What a container may use of one device, by its system's own arithmetic.

    ``core`` is a share of a whole GPU; None is no limit. ``replicas`` are those it was granted of
    a device that is divided without a promise. ``told``: the system says which device it is.
    """

    core: float | None
    memory_bytes: int | None
    replicas: int | None = None
    told: bool = True


def as_asked(ask: Ask, device: DeviceSpec) -> Promise:  # noqa: ARG001 - a System's promise
    """The shares that the scenario states."""
    return Promise(ask.core / WHOLE if ask.core else None, ask.memory, told=ask.allotment.placed)


def whole_or_asked(ask: Ask, device: DeviceSpec) -> Promise:
    """The same, but 100 % of the cores is a whole card, with its memory."""
    promise = as_asked(ask, device)
    return promise._replace(memory_bytes=device.memory_bytes) if ask.whole else promise


@dataclass(frozen=True, slots=True)
class System:
    """A sharing system: what it writes on a pod, what it says of the node, what it promises.

    Memory is asked for in ``unit`` bytes, or in those that ``unit_of`` a node gives.
    """

    write: Callable[[Order], Marks]
    offer: Callable[[Site], Offer]
    promise: Callable[[Ask, DeviceSpec], Promise | None] = as_asked
    unit: int = MIB
    unit_of: Callable[[Site], int] | None = None
    by_pod: bool = False  # with several containers that ask, it says only what is the pod's


def virtual(ask: Ask, resource: str, count: int, form: Callable[[int], str]) -> Grant:
    """The kubelet's grant of ids that stand for shares, not devices."""
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
