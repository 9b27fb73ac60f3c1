"""What tenants gain who rewrite the annotations of their running pods: nothing."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from exporter.agent.allocations.terms import Reason
from exporter.agent.collector import IdlePolicy
from exporter.model import (
    CgroupIdentity,
    Container,
    DeviceMemory,
    DeviceReading,
    Engines,
    Pod,
    PodTable,
    ProcessActivity,
    ProcessMemory,
    Snapshot,
    Window,
)
from tests.agent.collector.bench import DEVICE, SECOND, Bench, row

CYCLES = 6
ASKED = {"honest": 20, "underpayer": 60, "overasker": 10}  # per cent of the card
STATED = {"honest": 20, "underpayer": 1, "overasker": 100, "liar": 100}
PIDS = {name: 10 + place for place, name in enumerate(STATED)}
USED_NS = SECOND // 20  # each, in each second


def hami(name: str) -> Pod:
    """A pod of HAMi's, or one that pretends to be: the liar has no resource at all."""
    core = ASKED.get(name)
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": str(core)} if core else {}
    return _pod(name, limits, "hami.io/vgpu-devices-allocated", "GPU-0,NVIDIA,100,{}:;")


def koordinator(name: str) -> Pod:
    """The same of Koordinator's."""
    core = ASKED.get(name)
    limits = {f"koordinator.sh/gpu-{each}": str(core) for each in ("core", "memory-ratio")}
    stated = '{{"gpu":[{{"minor":0,"resources":{{"koordinator.sh/gpu-core":"{}"}}}}]}}'
    key = "scheduling.koordinator.sh/device-allocated"
    return _pod(name, limits if core else {}, key, stated)


def volcano(name: str) -> Pod:
    """The same of Volcano's."""
    core = ASKED.get(name)
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": str(core)} if core else {}
    return _pod(name, limits, "volcano.sh/vgpu-ids-new", "GPU-0,NVIDIA,100,{}:")


def ack(name: str) -> Pod:
    """The same of Aliyun's."""
    core = ASKED.get(name)
    limits = {"aliyun.com/gpu-mem": "1", "aliyun.com/gpu-core.percentage": str(core)}
    key = "gpushare.alibabacloud.com/core-percentage"
    return _pod(name, limits if core else {}, key, '{{"0":{{"0":{}}}}}')


def kai(name: str) -> Pod:
    """A liar of KAI's: no reservation stands for its group. The others ask another scheme."""
    if name != "liar":
        return hami(name)
    labels = {"runai-gpu-group": "g"}
    return _pod(name, {}, "gpu-fraction", "{}", labels)


def _pod(
    name: str,
    limits: Mapping[str, str],
    key: str,
    stated: str,
    labels: Mapping[str, str] | None = None,
) -> Pod:
    container = Container("c", container_ids=(_cid(name),), limits=limits)
    text = stated.format(1 if key == "gpu-fraction" else STATED[name])
    return Pod(
        name,
        "n",
        name,
        phase="Running",
        containers=(container,),
        annotations={key: text},
        labels=labels or {},
    )


def _cid(name: str) -> str:
    return f"{PIDS[name]:064x}"


def run(pods: list[Pod]) -> tuple[Snapshot, Snapshot]:
    """Six seconds in which each works a twentieth of the time: at the start and at the end.

    The board uses 100 microjoules in each, all of them idle.
    """
    bench = Bench(IdlePolicy.ALLOCATION)
    bench.pods.current = PodTable(
        1,
        {pod.uid: pod for pod in pods},
        {pod.uid: pod.uid for pod in pods},
        {_cid(pod.name): (pod.uid, "c") for pod in pods},
    )
    bench.processes.identities = {
        pid: CgroupIdentity(name, _cid(name), "containerd") for name, pid in PIDS.items()
    }
    activity = tuple(ProcessActivity(pid, Engines(core=USED_NS)) for pid in PIDS.values())
    core = Engines(core=USED_NS * len(PIDS))
    window = Window(0, SECOND, SECOND, 0, core, activity, energy_uj=100, idle_energy_uj=100)
    holders = tuple(ProcessMemory(pid, 100, frozenset({"compute"})) for pid in PIDS.values())
    memory = DeviceMemory(1000, 100 * len(PIDS), None, holders)
    device = replace(DEVICE, minor=0)
    bench.gpus.devices = (DeviceReading(device, window=window, memory=memory),)
    bench.cycle()  # the allocations are known from the first cycle on, and used from the second
    before = bench.cycle()
    for _ in range(CYCLES - 1):
        bench.cycle()
    return before, bench.cycle()


def figure(snapshot: Snapshot, name: str, family: str) -> float | None:
    value = row(snapshot, "container", "n", name, "c", "0", "GPU-0").values.get(family)
    assert not isinstance(value, Mapping)
    return value


def gained(before: Snapshot, after: Snapshot, name: str, family: str) -> float:
    return (figure(after, name, family) or 0) - (figure(before, name, family) or 0)


@pytest.mark.parametrize("scheme", [hami, koordinator, volcano, ack, kai])
def test_forged_annotations_move_no_limit_no_allocation_and_no_bill(
    scheme: Callable[[str], Pod],
) -> None:
    before, after = run([scheme(name) for name in STATED])

    device = row(after, "device", "0", "GPU-0").values
    assert device["allocated_core_ratio"] == pytest.approx(0.9)
    assert {name: figure(after, name, "core_limit_ratio") for name in STATED} == {
        **{name: asked / 100 for name, asked in ASKED.items()},
        "liar": None,
    }
    for name in STATED:
        asked = ASKED.get(name, 0) / 100
        seconds = gained(before, after, name, "allocated_core_seconds_total") / SECOND
        assert seconds == pytest.approx(CYCLES * asked)
        billed = gained(before, after, name, "energy_joules_total")
        assert billed == pytest.approx(CYCLES * 100 * asked)
        used = gained(before, after, name, "core_seconds_total") / SECOND
        assert used == pytest.approx(CYCLES * 0.05)


@pytest.mark.parametrize(
    ("scheme", "reasons"),
    [
        (hami, {"not_requested": 1, "limits_differ": 2}),
        (koordinator, {"not_requested": 1, "limits_differ": 2}),
        (volcano, {"not_requested": 1, "limits_differ": 2}),
        (ack, {"not_requested": 1, "limits_differ": 2}),
        (kai, {"unproven": 1, "limits_differ": 2}),
    ],
)
def test_forged_annotations_are_counted(
    scheme: Callable[[str], Pod], reasons: Mapping[str, int]
) -> None:
    _, after = run([scheme(name) for name in STATED])

    rejected = row(after, "exporter").values["rejected_samples_total"]
    assert isinstance(rejected, Mapping)
    of_allocations = {reason: n for (reason,), n in rejected.items() if reason in set(Reason)}
    assert of_allocations == reasons
