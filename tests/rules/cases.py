"""For each alert: series over which it is raised, and the like over which it is not.

In promtool's notation, a value each minute. What a case does not change it has from the firing one,
so that each quiet case differs in what its name says.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

Series = Mapping[str, str]

NODE = 'job="mgpu-exporter",instance="gpu-node-1"'
GPU = f'{NODE},gpu="0",uuid="GPU-a"'
POD = f'{NODE},namespace="n",pod="p"'
MAIN = f'{GPU},namespace="n",pod="p",container="c"'
NEXT = f'{GPU},namespace="n",pod="neighbour",container="c"'
OTHER = MAIN.replace("GPU-a", "GPU-b").replace('gpu="0"', 'gpu="1"')

HOURS = "x400"  # minutes
CRONJOB = 'job="kube-state-metrics",namespace="mgpu-exporter",cronjob="mgpu-exporter-bill-close"'
CREATED = f"kube_cronjob_created{{{CRONJOB}}}"
CLOSED = f"kube_cronjob_status_last_successful_time{{{CRONJOB}}}"


class Example(NamedTuple):
    """``quiet`` says why nothing is raised: the series that differ then; None leaves one out."""

    firing: Series
    quiet: Mapping[str, Mapping[str, str | None]]
    minute: int = 50


def _core(of: str, rate: float, share: float | None) -> dict[str, str]:
    """A container that uses so much of a GPU, against an allocated share."""
    found = {f"mgpu_container_core_seconds_total{{{of}}}": f"0+{rate * 60}{HOURS}"}
    if share is not None:
        found[f"mgpu_container_allocated_core_seconds_total{{{of}}}"] = f"0+{share * 60}{HOURS}"
    return found


def _waits(rate: float) -> dict[str, str]:
    return {f"mgpu_container_core_waiting_seconds_total{{{MAIN}}}": f"0+{rate * 60}{HOURS}"}


def _busy(rate: float) -> dict[str, str]:
    return {f"mgpu_device_busy_seconds_total{{{GPU}}}": f"0+{rate * 60}{HOURS}"}


def _allocated(of: str, policy: str = "") -> str:
    return f'mgpu_container_allocation_info{{{of},scheme="mgpu",policy="{policy}"}}'


def _unattributed(rate: float, reason: str) -> dict[str, str]:
    name = f'mgpu_device_unattributed_core_seconds_total{{{GPU},reason="{reason}"}}'
    return {name: f"0+{rate * 60}{HOURS}"}


V = TypeVar("V")


def _with_second(series: Mapping[str, V]) -> dict[str, V]:
    """The series, and the same of a second device."""
    pairs = (
        (key.replace("GPU-a", "GPU-b").replace('gpu="0"', 'gpu="1"'), values)
        for key, values in series.items()
    )
    return {**series, **dict(pairs)}


def _on_two(example: Example) -> Example:
    """The same on two devices of the node, which are to raise one alert."""
    quiet = {why: _with_second(series) for why, series in example.quiet.items()}
    return Example(_with_second(example.firing), quiet, example.minute)


def _books(whole: str, part: str, rate: float) -> Example:
    """Devices of which a tenth is charged to nobody."""
    device = f"mgpu_device_{whole}{{{GPU}}}"
    mine = f'mgpu_namespace_{part}{{{NODE},namespace="n",uuid="GPU-a"}}'
    group = f'mgpu_group_kind_{part}{{{NODE},kind="docker",uuid="GPU-a"}}'
    nobody = f'mgpu_device_unattributed_{part}{{{GPU},reason="idle"}}'
    parts = {mine: 0.4, group: 0.3, nobody: 0.2}
    example = Example(
        {
            device: f"0+{rate * 60}{HOURS}",
            **{name: f"0+{rate * share * 60}{HOURS}" for name, share in parts.items()},
        },
        {
            "they add up": {nobody: f"0+{rate * 0.3 * 60}{HOURS}"},
            "next to nothing was done": {
                device: f"0+0.001{HOURS}",
                **dict.fromkeys(parts, f"0+0.0002{HOURS}"),
            },
            "the device is not measured": {device: None},
            "the sums of namespaces were left out": {
                mine: None,
                f"mgpu_container_core_seconds_total{{{MAIN}}}": f"0+{rate * 24}{HOURS}",
            },
            "those of groups were": {
                group: None,
                f'mgpu_group_core_seconds_total{{{GPU},kind="docker",group="x"}}': f"0+1{HOURS}",
            },
            "all of groups was": {group: None},
            "all of pods was": {mine: None, PODS: f"1{HOURS}"},
        },
    )
    return _on_two(example)


def _same_books(name: str, rate: float) -> Example:
    """Where device and parts have counters of the same name."""
    return _books(name, name, rate)


FULLNESS = f"mgpu_pod_memory_limit_utilization_ratio{{{POD}}}"
OWN_POD = f'mgpu_pod_info{{{NODE},namespace="gpus",pod="p"}}'
OWN_UP = f'up{{{NODE},namespace="gpus"}}'
POD_CORE = f"mgpu_pod_core_seconds_total{{{POD}}}"
PROCESSES = f"mgpu_container_processes{{{MAIN}}}"
PROCESSES_OF_SECOND = PROCESSES.replace('container="c"', 'container="d"')
MISMATCH = f"mgpu_container_placement_mismatch{{{MAIN}}}"
UNMEASURED = f'mgpu_container_unmeasured{{{MAIN},quantity="core",reason="no_hostpid"}}'
NEXT_UNMEASURED = UNMEASURED.replace(MAIN, NEXT)
OTHER_UNMEASURED = UNMEASURED.replace(MAIN, OTHER)
CORE_ALLOCATED = f"mgpu_device_allocated_core_ratio{{{GPU}}}"
MEMORY_ALLOCATED = f"mgpu_device_allocated_memory_bytes{{{GPU}}}"
MEMORY = f"mgpu_device_memory_total_bytes{{{GPU}}}"
USED = f"mgpu_device_memory_used_bytes{{{GPU}}}"
HELD = f"mgpu_container_memory_used_bytes{{{MAIN}}}"
BY_NOBODY = f'mgpu_device_unattributed_memory_bytes{{{GPU},reason="no_pid"}}'
XID_79 = f'mgpu_device_xid_last_timestamp_seconds{{{GPU},xid="79"}}'
XID_94 = XID_79.replace("79", "94")
XID_63 = XID_79.replace("79", "63")
XID_31 = f'mgpu_device_xid_last_timestamp_seconds{{{GPU},xid="31"}}'
ECC = f'mgpu_device_ecc_errors_total{{{GPU},kind="uncorrected"}}'
REMAPPING = f'mgpu_device_row_remapping{{{GPU},state="pending"}}'
REMAPPING_FAILED = REMAPPING.replace("pending", "failed")
RETIRING = f"mgpu_device_retired_pages_pending{{{GPU}}}"
RECOVERY = f"mgpu_device_recovery_action{{{GPU}}}"
LANES = f"mgpu_device_pcie_link_width{{{GPU}}}"
MAX_LANES = f"mgpu_device_pcie_link_max_width{{{GPU}}}"
NVLINK = f'mgpu_device_nvlink_errors_total{{{GPU},kind="replay"}}'
HOT = f'mgpu_device_throttle_seconds_total{{{GPU},reason="hw_thermal"}}'
LOST = f'mgpu_device_unmeasured{{{GPU},quantity="device",reason="gpu_lost"}}'
LOST_INSTANCE = LOST.replace("GPU-a", "MIG-a")
INSTANCE = f'mgpu_device_info{{{NODE},gpu="0",uuid="MIG-a",parent_uuid="GPU-a",vendor="nvidia"}}'
STUCK = f'mgpu_device_unmeasured{{{GPU},quantity="device",reason="driver_stuck"}}'
UNOPENED = f'mgpu_exporter_unreadable_devices{{{NODE},source="nvml"}}'
NOT_UNMEASURED = dict.fromkeys((UNMEASURED, NEXT_UNMEASURED, OTHER_UNMEASURED))
CARD = f'mgpu_device_info{{{GPU},pci_bus_id="00000000:10:00.0"}}'
SECOND = f'mgpu_device_info{{{NODE},gpu="1",uuid="GPU-b",pci_bus_id="00000000:20:00.0"}}'
INSTANCES = [
    f'mgpu_device_info{{{NODE},gpu="1",uuid="MIG-{i}",pci_bus_id="00000000:20:00.0"}}'
    for i in range(2)
]
KUBE = 'node="gpu-node-2"'
OFFERED = f'kube_node_status_capacity{{{KUBE},resource="nvidia_com_gpu",unit="integer"}}'
READY = f'kube_node_status_condition{{{KUBE},condition="Ready",status="true"}}'
KNOWN = 'kube_node_info{node="gpu-node-1"}'
UNOBSERVED = f"mgpu_device_unobserved_seconds_total{{{GPU}}}"
BUILD = f'mgpu_exporter_build_info{{{NODE},version="1"}}'
UP = f"up{{{NODE}}}"
SNAPSHOT = f"mgpu_exporter_snapshot_timestamp_seconds{{{NODE}}}"
CGROUPS = f'mgpu_exporter_source_up{{{NODE},source="cgroups"}}'
NVML = CGROUPS.replace("cgroups", "nvml")
PODS = f'mgpu_exporter_source_up{{{NODE},source="pods_api"}}'
OVERRUNS = f"mgpu_exporter_cycle_overruns_total{{{NODE}}}"
CYCLES = f"mgpu_exporter_cycles_total{{{NODE}}}"
RELOADED = f"mgpu_exporter_config_last_reload_successful{{{NODE}}}"
UNIT = f'{GPU},kind="systemd",group="ollama.service"'
UNIT_CORE = f'mgpu_group_kind_core_seconds_total{{{NODE},kind="systemd",uuid="GPU-a"}}'
UNIT_CORE_B = UNIT_CORE.replace("GPU-a", "GPU-b")
USER_CORE = UNIT_CORE.replace("systemd", "user")
UNIT_HOLDS = f"mgpu_group_memory_used_bytes{{{UNIT}}}"
(OWN_USE, OWN_SHARE) = _core(MAIN, 0, 0)
(NEXT_USE, NEXT_SHARE) = _core(NEXT, 0, 0)
(BUSY,) = _busy(0)
SHARE = f"mgpu_container_core_limit_ratio{{{MAIN}}}"
LATELY = f"mgpu_container_core_utilization_ratio{{{MAIN}}}"
GROUP = f'mgpu_group_core_seconds_total{{{GPU},kind="user",group="bob"}}'


def _waits_on(namespace: str, pod: str, rate: float) -> dict[str, str]:
    labels = f'{MAIN},by_namespace="{namespace}",by_pod="{pod}"'
    name = f"mgpu_container_core_waiting_on_seconds_total{{{labels}}}"
    return {name: f"0+{rate * 60}{HOURS}"}


CASES: dict[str, Example] = {
    "MgpuPodNearMemoryLimit": Example(
        {FULLNESS: f"0.97{HOURS}"},
        {
            "it has room": {FULLNESS: f"0.9{HOURS}"},
            "it soon gave it back": {FULLNESS: f"0.97x40 0.5{HOURS}"},
            "it has no allocation": {FULLNESS: None},
        },
    ),
    "MgpuContainerOverCoreShare": Example(
        {**_core(MAIN, 0.5, 0.4), _allocated(MAIN, "fixed-share"): f"1{HOURS}"},
        {
            "within its share": _core(MAIN, 0.42, 0.4),
            "its policy lets it take what is free": {
                _allocated(MAIN, "fixed-share"): None,
                _allocated(MAIN, "burst-share"): f"1{HOURS}",
            },
            "promised no share": {OWN_SHARE: None},
            "no longer measured": {OWN_USE: "0+30x45 stale"},
        },
    ),
    "MgpuContainerCrowdsOutNeighbour": Example(
        {**_core(MAIN, 0.6, 0.3), **_core(NEXT, 0.4, 0.7), **_busy(1)},
        {
            "the neighbour has its share": _core(NEXT, 0.66, 0.7),
            "the neighbour does not work": _core(NEXT, 0, 0.7),
            "the card has room": _busy(0.8),
            "within its share": _core(MAIN, 0.31, 0.3),
            "the neighbour is on another card": {
                NEXT_USE: None,
                NEXT_SHARE: None,
                **_core(OTHER, 0.4, 0.7),
            },
            "the neighbour is not measured": {NEXT_USE: None},
        },
    ),
    "MgpuContainerStarved": Example(
        {
            **_core(MAIN, 0.2, 0.5),
            **_core(NEXT, 0.8, 0.3),
            **_busy(1),
            **_waits(0.8),
            **_waits_on("n", "neighbour", 0.3),
            **_waits_on("", "user/bob", 0.5),
            SHARE: f"0.5{HOURS}",
            LATELY: f"0.2 0.3{HOURS}",
        },
        {
            "it has its share": _core(MAIN, 0.47, 0.5),
            "the card has room": _busy(0.9),
            "it does not work": _waits(0),
            "it works in bursts, and has its share in them": {
                LATELY: " ".join(["0x8 0.5 0.2"] * 40)
            },
            "it is not measured": {OWN_USE: None},
            "its waiting is not measured": dict.fromkeys(_waits(0)),
        },
    ),
    "MgpuContainerStarved without a share": Example(
        {**_core(MAIN, 0.2, None), **_core(NEXT, 0.8, 0.3), **_busy(1), **_waits(0.7)},
        {
            "it waits for less than half of the time": _waits(0.4),
            "the card has room": _busy(0.9),
        },
    ),
    "MgpuContainerStarved by a group": Example(
        {**_core(MAIN, 0.2, None), **_core(NEXT, 0.1, 0.3), GROUP: f"0+42{HOURS}", **_busy(1)}
        | _waits(0.7),
        {"it is on another card": {BUSY: None}},
    ),
    "MgpuAllocatedGpuIdle": Example(
        {POD_CORE: f"9{HOURS}", _allocated(MAIN): f"1{HOURS}", UP: f"1{HOURS}"},
        {
            "it worked an hour ago": {POD_CORE: "0x200 0+1x400"},
            "it has come lately": {POD_CORE: "_x200 0x200", _allocated(MAIN): "_x200 1x200"},
            "it has no allocation": {_allocated(MAIN): None},
            "its use is not measured": {POD_CORE: None},
            "its use is no longer measured": {POD_CORE: "9x200 stale"},
            "its use was not measured until lately": {POD_CORE: "9x10 stale _x200 9x200"},
            "its exporter was down meanwhile": {
                POD_CORE: "9x60 stale _x100 0x400",
                UP: "1x60 0x100 1x400",
            },
        },
        minute=260,
    ),
    "MgpuGpuUsedWithoutAllocation": Example(
        {PROCESSES: f"1{HOURS}", PROCESSES_OF_SECOND: f"1{HOURS}"},
        {
            "it was allocated": {_allocated(MAIN): f"1{HOURS}"},
            "the pod was allocated as a whole": {
                f'mgpu_container_allocation_info{{{POD},container=""}}': f"1{HOURS}"
            },
            "it was allocated, and that information left out": {
                f"mgpu_pod_allocated_gpus{{{POD}}}": f"1{HOURS}"
            },
            "it has no process": {PROCESSES: f"0{HOURS}", PROCESSES_OF_SECOND: None},
            "it only looked in": {PROCESSES: "0x40 1x5 0x400", PROCESSES_OF_SECOND: None},
        },
    ),
    "MgpuPlacementMismatch": Example(
        {MISMATCH: f"1{HOURS}"}, {"the two agree": {MISMATCH: f"0{HOURS}"}}
    ),
    "MgpuContainerUnmeasured": Example(
        dict.fromkeys((UNMEASURED, NEXT_UNMEASURED, OTHER_UNMEASURED), f"1{HOURS}"),
        {
            "they are measured": NOT_UNMEASURED,
            "the container is about to be known": {
                **NOT_UNMEASURED,
                UNMEASURED.replace("no_hostpid", "container_pending"): f"1{HOURS}",
                UNMEASURED.replace("no_hostpid", "container_unknown"): f"1{HOURS}",
            },
            "another quantity": {
                **NOT_UNMEASURED,
                UNMEASURED.replace('"core"', '"encoder"'): f"1{HOURS}",
            },
            "their GPU cannot be read, which has an alert of its own": {
                **NOT_UNMEASURED,
                UNMEASURED.replace("no_hostpid", "gpu_lost"): f"1{HOURS}",
                LOST: f"1{HOURS}",
            },
        },
    ),
    "MgpuDeviceOvercommitted": Example(
        {CORE_ALLOCATED: f"1.2{HOURS}"},
        {
            "all of it is allocated": {CORE_ALLOCATED: f"1{HOURS}"},
            "memory fits": {
                CORE_ALLOCATED: None,
                MEMORY_ALLOCATED: f"24e9{HOURS}",
                MEMORY: f"24e9{HOURS}",
            },
        },
    ),
    "MgpuUnattributedUse": Example(
        {**_busy(0.5), **_unattributed(0.2, "host_process")},
        {
            "little of it": _unattributed(0.05, "host_process"),
            "the device hardly works": {**_busy(0.04), **_unattributed(0.03, "host_process")},
            "MPS does not tell": {
                **dict.fromkeys(_unattributed(0, "host_process")),
                **_unattributed(0.3, "mps"),
            },
        },
        minute=120,
    ),
    "MgpuGpuUsedOutsidePods": Example(
        {  # one alert for the node, whatever kinds and cards there are
            UNIT_CORE: f"0+30{HOURS}",
            UNIT_CORE_B: f"0+20{HOURS}",
            USER_CORE: f"0+20{HOURS}",
            UNIT_HOLDS: f"5e9{HOURS}",
            MEMORY: f"8e9{HOURS}",
            PODS: f"1{HOURS}",
        },
        {
            "a daemon looks in": {
                UNIT_CORE: f"0+3{HOURS}",
                UNIT_CORE_B: f"0+4{HOURS}",
                USER_CORE: f"0+1{HOURS}",
                UNIT_HOLDS: f"5e8{HOURS}",
            },
            "for ten minutes": {
                UNIT_CORE: "0x30 0+30x5 150x400",
                UNIT_CORE_B: None,
                USER_CORE: None,
                UNIT_HOLDS: None,
            },
            "a pod whose name is not known yet": {
                UNIT_CORE: None,
                UNIT_CORE_B: None,
                USER_CORE: None,
                UNIT_HOLDS: None,
                UNIT_CORE.replace("systemd", "pod"): f"0+30{HOURS}",
            },
            "the machine is of no cluster": {
                PODS: None,
                PODS.replace("pods_api", "pods_none"): f"1{HOURS}",
            },
        },
    ),
    "MgpuGpuUsedOutsidePods and idles": Example(
        {UNIT_CORE: f"0{HOURS}", UNIT_HOLDS: f"5e9{HOURS}", MEMORY: f"80e9{HOURS}"}
        | {UNIT_HOLDS.replace("ollama", "display"): f"5e9{HOURS}"}
        | {PODS.replace("pods_api", "pods_files"): f"1{HOURS}"},
        {"they hold little": {UNIT_HOLDS: f"2e9{HOURS}"}},
    ),
    "MgpuBooksOutOfBalance core": _books("busy_seconds_total", "core_seconds_total", 0.8),
    "MgpuBooksOutOfBalance memory_active": _same_books("memory_active_seconds_total", 0.5),
    "MgpuBooksOutOfBalance encoder": _same_books("encoder_seconds_total", 0.5),
    "MgpuBooksOutOfBalance decoder": _same_books("decoder_seconds_total", 0.5),
    "MgpuBooksOutOfBalance energy": _same_books("energy_joules_total", 250),
    "MgpuBooksOutOfBalance memory": Example(
        {
            USED: f"10e9{HOURS}",
            HELD: f"7e9{HOURS}",
            UNIT_HOLDS: f"1e9{HOURS}",
            BY_NOBODY: f"1e9{HOURS}",
        },
        {
            "they add up": {BY_NOBODY: f"2e9{HOURS}"},
            "groups were left out": {UNIT_HOLDS: None},
            "next to nothing is held": {USED: f"5e7{HOURS}"},
            "containers were left out": {HELD: None, POD_CORE: f"0{HOURS}"},
            "all of pods was left out": {HELD: None, PODS: f"1{HOURS}"},
        },
    ),
    "MgpuXidHardware": Example(
        {XID_79: "2500x400", SNAPSHOT: f"0+60{HOURS}"},
        {
            "long ago": {XID_79: "60x400"},
            "the card is lost, which has its own alert": {LOST: f"1{HOURS}"},
            "the card is back": {LOST: "1x45 stale"},
            "a program's": {XID_79: None, XID_31: "2500x400"},
            "contained in a program": {XID_79: None, XID_94: "2500x400"},
        },
    ),
    "MgpuXidWarning": Example(
        {XID_94: "2500x400", SNAPSHOT: f"0+60{HOURS}"},
        {
            "long ago": {XID_94: "60x400"},
            "a reset is needed": {XID_94: None, XID_79: "2500x400"},
            "a program's": {XID_94: None, XID_31: "2500x400"},
        },
    ),
    "MgpuXidError": Example(
        {XID_31: "2500x400", SNAPSHOT: f"0+60{HOURS}"},
        {
            "long ago": {XID_31: "60x400"},
            "of the hardware": {XID_31: None, XID_79: "2500x400"},
            "contained in a program": {XID_31: None, XID_94: "2500x400"},
            "another alert says it": {XID_31: None, XID_63: "2500x400"},
        },
    ),
    "MgpuEccUncorrected": Example(
        {ECC: "0x40 2x400"},
        {
            "long ago": {ECC: "0x5 2x400"},
            "corrected": {ECC: None, ECC.replace("uncorrected", "corrected"): "0x40 2x400"},
        },
    ),
    "MgpuRowRemapping": Example(
        {REMAPPING: f"1{HOURS}"},
        {
            "no row waits": {REMAPPING: f"0{HOURS}"},
            "it failed": {REMAPPING: None, REMAPPING_FAILED: f"1{HOURS}"},
        },
    ),
    "MgpuRowRemappingFailed": Example(
        {REMAPPING_FAILED: f"1{HOURS}"},
        {
            "there are spare rows": {REMAPPING_FAILED: f"0{HOURS}"},
            "a row waits": {REMAPPING_FAILED: f"0{HOURS}", REMAPPING: f"1{HOURS}"},
        },
    ),
    "MgpuRetiredPagesPending": Example(
        {RETIRING: f"1{HOURS}"}, {"no page waits": {RETIRING: f"0{HOURS}"}}
    ),
    "MgpuGpuRecoveryAction": Example(
        {RECOVERY: f"1{HOURS}"}, {"it is healthy": {RECOVERY: f"0{HOURS}"}}
    ),
    "MgpuPcieLinkDegraded": Example(
        {LANES: f"8{HOURS}", MAX_LANES: f"16{HOURS}"},
        {
            "it has all its lanes": {LANES: f"16{HOURS}"},
            "the most is not known": {MAX_LANES: None},
        },
    ),
    "MgpuNvlinkErrors": Example(
        {NVLINK: f"0+1{HOURS}"},
        {
            "they were long ago": {NVLINK: f"7{HOURS}"},
            "errors that it corrects by itself": {
                NVLINK: None,
                NVLINK.replace("replay", "crc_flit"): f"0+1{HOURS}",
            },
        },
    ),
    "MgpuGpuThrottled": Example(
        {HOT: f"0+20{HOURS}"},
        {
            "now and then": {HOT: f"0+3{HOURS}"},
            "at its power limit, as is normal under load": {
                HOT: None,
                HOT.replace("hw_thermal", "sw_power_cap"): f"0+50{HOURS}",
            },
        },
    ),
    "MgpuGpuLost with its XID": Example(
        {
            LOST: f"1{HOURS}",
            XID_79: f"60{HOURS}",  # hours before
            XID_31: f"900{HOURS}",
            f'mgpu_device_info{{{GPU},vendor="nvidia"}}': f"1{HOURS}",
            PROCESSES: "1x30 stale",
            f'mgpu_group_processes{{{GPU},kind="slurm",group="4711"}}': "1x30 stale",
        },
        {"it is back": {LOST: "1x48 stale"}},
    ),
    "MgpuGpuLost with its instances": Example(
        {
            LOST: f"1{HOURS}",
            LOST_INSTANCE: f"1{HOURS}",
            XID_79: f"60{HOURS}",
            INSTANCE: f"1{HOURS}",
            PROCESSES.replace("GPU-a", "MIG-a"): "1x30 stale",
        },
        {"both are back": {LOST: "1x48 stale", LOST_INSTANCE: "1x48 stale"}},
    ),
    "MgpuGpuLost of an instance alone": Example(
        {
            LOST_INSTANCE: f"1{HOURS}",
            INSTANCE: f"1{HOURS}",
            PROCESSES.replace("GPU-a", "MIG-a"): "1x30 stale",
        },
        {"it is back": {LOST_INSTANCE: "1x48 stale"}},
    ),
    "MgpuGpuLost of another vendor": Example(
        {LOST: f"1{HOURS}", f'mgpu_device_info{{{GPU},vendor="amd"}}': f"1{HOURS}"},
        {"it is back": {LOST: "1x48 stale"}},
    ),
    "MgpuGpuLost": Example(
        {LOST: f"1{HOURS}"},
        {"it is back": {LOST: "1x48 stale"}, "another reason": {LOST: None, STUCK: f"1{HOURS}"}},
    ),
    "MgpuGpuMissing": Example(
        {CARD: f"1{HOURS}", SECOND: "1x30 stale"},
        {
            "it is there": {SECOND: f"1{HOURS}"},
            "it came back at once": {SECOND: "1x30 _x5 1x400"},
            "there is one more": {SECOND: "_x30 1x400"},
            "a card was divided": {
                SECOND: "1x10 stale",
                **dict.fromkeys(INSTANCES, "_x10 1x400"),
            },
            "instances of it were joined": {
                SECOND: "_x10 1x400",
                **dict.fromkeys(INSTANCES, "1x10 stale"),
            },
            "nothing is known of the node": {CARD: "1x30 stale"},
        },
    ),
    "MgpuGpuMissing of all": Example(
        {CARD: "1x30 stale", NVML: f"1{HOURS}", CYCLES: f"0+60{HOURS}"},
        {
            "it came back": {CARD: "1x30 stale _x5 1x400"},
            "there never was one": {CARD: None},
            "the driver does not answer": {NVML: f"0{HOURS}"},
            "nothing is measured at all": {CYCLES: "0+60x30 1800x400"},
            "the exporter is gone": {NVML: "1x30 stale", CYCLES: "0+60x30 stale"},
        },
    ),
    "MgpuGpuMissing of all, and their information was left out": Example(
        {CARD: "1x30 stale", NVML: f"1{HOURS}", CYCLES: f"0+60{HOURS}"},
        {
            "they are there": {f"mgpu_device_up{{{GPU}}}": f"1{HOURS}"},
            "they are in use": {HELD: f"1e9{HOURS}"},
        },
    ),
    "MgpuGpuMissing after two days": Example(
        {CARD: "1x3000", SECOND: "1x30 stale"},
        {"it was taken out the day before yesterday": {SECOND: "1x5 stale"}},
        minute=1460,
    ),
    "MgpuGpuUnreadable": Example(
        {STUCK: f"1{HOURS}"},
        {
            "it is lost": {STUCK: None, LOST: f"1{HOURS}"},
            "it was let go of": {
                STUCK: None,
                STUCK.replace("driver_stuck", "released"): f"1{HOURS}",
            },
            "of one quantity only": {
                STUCK: None,
                STUCK.replace('"device"', '"energy"'): f"1{HOURS}",
            },
        },
    ),
    "MgpuGpuUnreadable before it has a UUID": Example(
        {UNOPENED: f"1{HOURS}"}, {"all could be opened": {UNOPENED: f"0{HOURS}"}}
    ),
    "MgpuUseUnobserved": _on_two(
        Example({UNOBSERVED: f"0+6{HOURS}"}, {"once": {UNOBSERVED: "0x30 8x400"}})
    ),
    "MgpuExporterAbsent": Example(
        {UP: f"0{HOURS}"},
        {
            "one is there": {BUILD: f"1{HOURS}"},
            "its version was left out": {f"mgpu_device_up{{{GPU}}}": f"1{HOURS}"},
        },
    ),
    "MgpuNamespaceOverwritten": Example(
        {OWN_POD: f"1{HOURS}", OWN_POD.replace('"p"', '"q"'): f"1{HOURS}", OWN_UP: f"1{HOURS}"},
        {
            "a pod is of another": {OWN_POD.replace('"gpus"', '"n"'): f"1{HOURS}"},
            "its target has none": {OWN_UP: None, UP: f"1{HOURS}"},
            "the target's was kept, and ours renamed": {
                OWN_POD: None,
                OWN_POD.replace('"p"', '"q"'): None,
                OWN_POD.replace("}", ',exported_namespace="n"}'): f"1{HOURS}",
            },
            "a tenant keeps his own": {
                f"scrape_samples_scraped{{{NODE}}}": f"900{HOURS}",
                f"scrape_samples_post_metric_relabeling{{{NODE}}}": f"90{HOURS}",
            },
        },
    ),
    "MgpuExporterDown": Example(
        {UP: f"0{HOURS}"},
        {
            "it answers": {UP: f"1{HOURS}"},
            "it was restarted": {UP: "1x47 0 1x400"},
            "another program": {UP: None, 'up{job="node-exporter",instance="x"}': f"0{HOURS}"},
        },
    ),
    "MgpuExporterDown of another job name": Example(
        {
            UP.replace("mgpu-exporter", "gpus"): "1x30 0x400",
            BUILD.replace("mgpu-exporter", "gpus"): "1x30 stale",
        },
        {"it never was an exporter": {BUILD.replace("mgpu-exporter", "gpus"): None}},
    ),
    "MgpuBillDayOpen": Example(
        {CREATED: "0x3000", CLOSED: "1000x3000"},
        {"a day was closed since": {CLOSED: "80000x3000"}},
        minute=2260,
    ),
    "MgpuBillDayOpen of what never closed a day": Example(
        {CREATED: "0x3000"},
        {"it is new": {CREATED: "80000x3000"}},
        minute=2260,
    ),
    "MgpuExporterMissing": Example(
        {
            OFFERED: f"4{HOURS}",
            OFFERED.replace("nvidia_com_gpu", "nvidia_com_mig_1g_10gb"): f"7{HOURS}",
            READY: f"1{HOURS}",
            KNOWN: f"1{HOURS}",
            BUILD: f"1{HOURS}",
        },
        {
            "it has one": {BUILD.replace("gpu-node-1", "gpu-node-2"): f"1{HOURS}"},
            "it has one, whose instance is an address": {
                BUILD.replace("gpu-node-1", "10.0.0.2:10045").replace("}", f",{KUBE}}}"): (
                    f"1{HOURS}"
                ),
            },
            "it has one that is down": {UP.replace("gpu-node-1", "gpu-node-2"): f"0{HOURS}"},
            "it has no GPU": {
                OFFERED: f"0{HOURS}",
                OFFERED.replace("nvidia_com_gpu", "nvidia_com_mig_1g_10gb"): None,
                OFFERED.replace("nvidia_com_gpu", "cpu"): f"64{HOURS}",
            },
            "the node is not ready": {READY: f"0{HOURS}"},
            "it came just now": {READY: "_x40 1x400"},
            "exporters are not named by nodes": {
                BUILD: None,
                BUILD.replace("gpu-node-1", "10.0.0.2:10045"): f"1{HOURS}",
            },
            "another cluster has no exporters at all": {
                OFFERED: None,
                OFFERED.replace("nvidia_com_gpu", "nvidia_com_mig_1g_10gb"): None,
                OFFERED.replace("{", '{cluster="b",'): f"4{HOURS}",
                READY: None,
                READY.replace("{", '{cluster="b",'): f"1{HOURS}",
                KNOWN.replace("{", '{cluster="b",'): f"1{HOURS}",
            },
        },
    ),
    "MgpuExporterStuck": Example({CYCLES: f"60{HOURS}"}, {"it measures": {CYCLES: f"0+60{HOURS}"}}),
    "MgpuExporterBlind": Example(
        {CGROUPS: f"0{HOURS}"},
        {
            "it sees": {CGROUPS: f"1{HOURS}"},
            "names are old, use is measured": {CGROUPS: None, PODS: f"0{HOURS}"},
        },
    ),
    "MgpuExporterStale": Example(
        {PODS: f"0{HOURS}"},
        {
            "it answers": {PODS: f"1{HOURS}"},
            "for a minute": {PODS: "1x45 0x400"},
            "another source of pods stands in": {
                PODS.replace("pods_api", "pods_kubelet"): f"1{HOURS}"
            },
            "it is not names that are missing": {PODS: None, CGROUPS: f"0{HOURS}"},
        },
    ),
    "MgpuExporterStale of allocations": Example(
        {PODS: f"1{HOURS}", PODS.replace("pods_api", "podresources"): f"0{HOURS}"},
        {"all answer": {PODS.replace("pods_api", "podresources"): f"1{HOURS}"}},
    ),
    "MgpuExporterOverrun": Example(
        {OVERRUNS: f"0+20{HOURS}", CYCLES: f"0+60{HOURS}"},
        {"now and then": {OVERRUNS: f"0+3{HOURS}"}},
    ),
    "MgpuExporterConfigReloadFailed": Example(
        {RELOADED: f"0{HOURS}"}, {"the settings are in use": {RELOADED: f"1{HOURS}"}}
    ),
}
