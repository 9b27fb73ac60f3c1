"""A node for each way to share a GPU, small and with the traps of that way.

The cards' indices, minors and places in the order of PCI addresses all differ: 0, 1, 2 have the
minors 2, 0, 1 and the places 2, 0, 1. Containers state per card what they may use of it; what their
sharing system makes of that stands in ``exporter.simulation.schemes``.
"""

from itertools import count
from typing import Any

Keys = dict[str, Any]

PERIODS_MS = (70, 110, 130, 170, 190, 230, 290, 310)
_numbers = count()


def cards(model: str = "NVIDIA A10", memory: str = "24GiB", **keys: Any) -> list[Keys]:
    places = ((2, "30"), (0, "10"), (1, "20"))
    return [
        {
            "model": model,
            "memory": memory,
            "minor": minor,
            "pci_bus_id": f"00000000:{bus}:00.0",
            **keys,
        }
        for minor, bus in places
    ]


def container(
    name: str, devices: list[int] | None = None, duty: float = 0.15, held: str = "1GiB", **keys: Any
) -> Keys:
    """A container that works on each of its devices, if it is given any."""
    period = f"{PERIODS_MS[next(_numbers) % len(PERIODS_MS)]}ms"
    work = {"duty": duty, "period": period, "jitter": 0.5, "memory": held}
    given: Keys = {"devices": devices} if devices else {}
    busy = [{"device": devices, **work}] if devices and duty else []
    return {"name": name, **given, "processes": busy, **keys}


def steady(name: str, devices: list[int]) -> Keys:
    """A container that keeps its devices busy: AMD's sample of who does is one a second."""
    busy = [{"device": devices, "duty": 1, "memory": "3GiB"}]
    return {"name": name, "devices": devices, "processes": busy}


def pod(name: str, scheme: str, *containers: Keys, **keys: Any) -> Keys:
    return {
        "name": name,
        "namespace": "team",
        "scheme": scheme,
        "containers": list(containers),
        **keys,
    }


def node(*pods: Keys, devices: list[Keys] | None = None, **keys: Any) -> Keys:
    """A scenario of these pods; a sample names a process by chance, so that none is favoured."""
    return {
        "sample_rule": "random",
        "devices": devices or cards(),
        "pods": list(pods),
        **keys,
    }


def mig(*parts: tuple[int, str, str], boards: int = 1, **keys: Any) -> list[Keys]:
    """H100 cards, then instances: (card, profile, memory)."""
    whole = cards("NVIDIA H100 80GB HBM3", "80GiB")[:boards]
    return whole + [{"parent": p, "profile": f, "memory": m, **keys} for p, f, m in parts]


SMALL: Keys = {"core": 20, "memory": "4GiB"}
BIG: Keys = {"core": 100}
RUNNING: Keys = {"duty": 0.2, "held": "3GiB"}

_NODES: dict[str, Keys] = {
    "mgpu": node(
        pod(
            "two",
            "mgpu",
            container("log"),
            container("a", [1], **RUNNING, **SMALL),
            container("b", [1], core=10, memory="2GiB"),
        ),
        pod("over-two-cards", "mgpu", container("a", [2, 0], **SMALL), policy="native-burst-share"),
        pod("whole", "mgpu", container("a", [0, 1], **BIG), policy="fixed-share"),
        pod("core-only", "mgpu", container("a", [2], core=5)),
        pod("untold", "mgpu", container("a", [0], placed=False, **SMALL)),
        pod("nowhere", "mgpu", container("a", [2], 0.0, placed=False, **SMALL)),
    ),
    "qgpu": node(
        pod(
            "two",
            "qgpu",
            container("a", [1], **RUNNING, **SMALL),
            container("b", [2], core=5, memory="1GiB"),
            app_class="online",
        ),
        pod(
            "rounded-down",  # 121 / 2 and 31 / 2
            "qgpu",
            container(
                "a",
                [0, 2],
                core=60,
                memory="15GiB",
                limits={
                    "tke.cloud.tencent.com/qgpu-core": "121",
                    "tke.cloud.tencent.com/qgpu-memory": "31",
                },
            ),
        ),
        pod("divided", "qgpu", container("a", [2, 1], core=60, memory="5GiB")),
        pod("greedy", "qgpu", container("a", [0], **SMALL), app_class="offline"),
        pod("whole", "qgpu", container("a", [1, 0], **BIG)),
        pod("untold", "qgpu", container("a", [2], placed=False, **SMALL)),
        pod("nowhere", "qgpu", container("a", [2], 0.0, placed=False, **SMALL)),
    ),
    "hami": node(
        pod(
            "after-init",
            "hami",
            container("prepare", kind="init"),
            container("log"),
            container("a", [1], **RUNNING, **SMALL),
            container("b", [0, 2], core=10, memory="3000MiB"),
        ),
        pod("memory-only", "hami", container("a", [2], memory="12GiB")),
        pod("all-memory", "hami", container("a", [0], core=30), policy="hami-core"),
        pod("untold", "hami", container("a", [1], placed=False, **SMALL)),
    ),
    "nvidia": node(
        pod("two-cards", "nvidia", container("a", [2, 0], **RUNNING)),
        pod("one", "nvidia", container("log"), container("a", [1])),
    ),
    "nvidia-time-slicing": node(
        pod("two-of-one", "nvidia", container("a", [1], replicas=2, **RUNNING)),
        pod("one", "nvidia", container("a", [1])),
        pod("two-cards", "nvidia", container("a", [0, 2])),
        devices=cards(sharing="time-slicing", replicas=4),
    ),
    "nvidia-renamed": node(
        pod("one", "nvidia", container("a", [1], **RUNNING)),
        devices=cards(sharing="time-slicing", replicas=4, resource="nvidia.com/gpu.shared"),
    ),
    "nvidia-mps": node(
        pod("one", "nvidia", container("a", [1], **RUNNING)),
        pod("two", "nvidia", container("a", [1]), container("b", [2])),
        devices=cards(sharing="mps", replicas=4),
    ),
    "nvidia-mig-mixed": node(
        pod("small", "nvidia", container("a", [2], 0.5, "2GiB")),
        pod("big", "nvidia", container("a", [3], 0.4, "20GiB")),
        pod("whole", "nvidia", container("a", [1])),
        devices=mig((0, "1g.10gb", "9984MiB"), (0, "4g.40gb", "40GiB"), boards=2),
    ),
    "nvidia-mig-single": node(
        pod("one", "nvidia", container("a", [1], 0.5, "2GiB")),
        pod("two", "nvidia", container("a", [2, 3], 0.3)),
        node={"labels": {"nvidia.com/mig.strategy": "single"}},
        devices=mig(*((0, "2g.20gb", "20GiB") for _ in range(3))),
    ),
    "nvidia-mig-time-slicing": node(
        pod("one", "nvidia", container("a", [1], 0.5, "2GiB")),
        devices=mig((0, "1g.10gb", "9984MiB"), sharing="time-slicing", replicas=4),
    ),
    "dra": node(
        pod("one", "dra", container("a", [1], **RUNNING)),
        pod("extended", "dra", container("a", [2], resource="nvidia.com/gpu")),
        pod("consumed", "dra", container("a", [0], memory="10GiB")),
        pod("shared", "dra", container("a", [0], claim="c"), container("b", [0], claim="c")),
    ),
    "dra-mig": node(
        pod("one", "dra", container("a", [2], 0.5, "2GiB")),
        devices=mig((0, "1g.10gb", "9984MiB"), (0, "3g.40gb", "40GiB")),
    ),
    "amd": node(
        pod("two-cards", "amd", steady("a", [1, 0])),
        devices=[{"model": "AMD Instinct MI300X", "memory": "192GiB", "vendor": "amd"}] * 2,
    ),
    "amd-partitions": node(
        pod("first", "amd", steady("a", [1])),
        pod("others", "amd", steady("a", [2, 11])),
        devices=[
            {"model": "AMD Instinct MI300X", "memory": "192GiB", "vendor": "amd", "partition": p}
            for p in ("cpx", "dpx")
        ],
    ),
    "intel": node(
        pod("one", "intel", container("a", [1], **RUNNING)),
        pod("watcher", "intel", container("a", [0], 0.0, resource="gpu.intel.com/monitoring")),
        devices=[
            {"model": "Intel GPU Max 1550", "memory": "128GiB", "vendor": "intel", "minor": m}
            for m in (1, 0)
        ],
    ),
    "intel-shared": node(
        pod("one", "intel", container("a", [0], **RUNNING)),
        pod("another", "intel", container("a", [0])),
        devices=[
            {"model": "Intel GPU Max 1100", "memory": "48GiB", "vendor": "intel", "replicas": 5}
        ],
    ),
}

# Each has a seed of its own, so that no two devices have the same UUID.
NODES = {name: {**keys, "seed": seed} for seed, (name, keys) in enumerate(_NODES.items())}
