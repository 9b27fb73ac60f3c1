"""Messages of PodResources v1 as bytes, right or wrong; an encoder that is not the product's."""

from collections.abc import Mapping, Sequence
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"

Devices = Mapping[str, Sequence[str]]  # resource → ids


def recorded(name: str) -> bytes:
    """An answer of the kubelet's shape, written by protobuf's own runtime."""
    return bytes.fromhex((RECORDED / f"{name}.hex").read_text())


def varint(value: int) -> bytes:
    """A number of any size, in groups of seven bits."""
    if value < 0x80:
        return bytes([value])
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def field(number: int, value: bytes | str | int) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def devices(resource: bytes | str, *ids: bytes | str) -> bytes:
    """A ContainerDevices, as a field of its container."""
    return field(2, field(1, resource) + b"".join(field(2, one) for one in ids))


def container(name: bytes | str, *parts: bytes) -> bytes:
    """A ContainerResources, as a field of its pod."""
    return field(3, field(1, name) + b"".join(parts))


def pod(name: bytes | str, *parts: bytes, namespace: str = "ml") -> bytes:
    """A PodResources, as a field of the answer."""
    return field(1, field(1, name) + field(2, namespace) + b"".join(parts))


def holding(name: str, *ids: str, resource: str = "nvidia.com/gpu") -> bytes:
    """A pod whose container main holds these devices."""
    return pod(name, container("main", devices(resource, *ids)))


def claim(name: str, *devices: str, namespace: str = "ml") -> bytes:
    """A DynamicResource with devices of NVIDIA's driver, as a field of its container."""
    resources = (
        field(4, field(2, "gpu.nvidia.com") + field(3, "node-1") + field(4, device))
        for device in devices
    )
    return field(5, field(2, name) + field(3, namespace) + b"".join(resources))
