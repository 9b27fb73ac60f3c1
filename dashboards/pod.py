"""Pods and containers: use against allocation, and the neighbours on the same cards."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.boards import alerts, firing
from dashboards.cost import PRICE_GPU_HOUR, price
from dashboards.frame import (
    CARD,
    NODE,
    POD,
    SILENT,
    WAITS,
    WORKLOAD,
    board,
    events,
    hit,
    in_range,
    to,
)
from dashboards.lines import lines, most_of_containers
from dashboards.panels import (
    ALLOCATED,
    ANY,
    BAD,
    FREE,
    GOOD,
    HIGH,
    IDLE,
    LOOK,
    NO_SHARE,
    UNMEASURED,
    Panel,
    Words,
    folded,
    series,
    stat,
    timeline,
)
from dashboards.tables import FILLED, OWN_CLUSTER, SHARE_USE, Column, colored, table

EVENTS = events(POD)

CONTAINER = "{{$container_label}} GPU {{gpu}} {{$pod_label}}"
BY_CONTAINER = "cluster, instance, $namespace_label, $pod_label, $container_label, gpu, uuid"
ON_ITS_CARDS = (
    "and on (cluster, instance, uuid) "
    f"group by (cluster, instance, uuid) (mgpu_container_core_seconds_total{{{POD}}})"
)
STATE: Words = {
    "0": ("GPU lost", BAD),
    "1": ("read", GOOD),
    "2": ("node silent", BAD),
    "3": ("ended", FREE),
}
KEYS = {"pod": "Pod", "container": "Container", "uuid": "UUID"}
# Of a lost card and of a silent node, the containers' series are absent. They are shown by what was
# known in the time range, so that their pod is not taken for one without a GPU.
WAS = in_range(f"mgpu_container_allocation_info{{{POD}}}")
KNOWN = f"group by ({BY_CONTAINER}) ({WAS} or {hit(POD)})"
LOST = (
    f"group by ({BY_CONTAINER}) ({hit(POD)}"
    f" or {WAS} and on ({CARD}) group by ({CARD}) (mgpu_device_up{{{NODE}}} == 0))"
)
OF_SILENT = f"({KNOWN} and on (cluster, instance) {SILENT})"
NOTHING_SERVED = "No model server is scraped, or the rules of examples/tokens are not loaded"
BY_NEIGHBOUR = "$namespace_label, $pod_label"
MOST = most_of_containers(BY_NEIGHBOUR, NODE, f" {ON_ITS_CARDS}")
NEIGHBOUR = "{{$namespace_label}}/{{$pod_label}}"


def _pod(family: str) -> str:
    return f"mgpu_pod_{family}{{{POD}}}"


def _own(family: str) -> str:
    return f"mgpu_container_{family}{{{POD}}}"


def _rate(name: str) -> str:
    return f"rate({name}[$__rate_interval])"


def _firing(more: str) -> str:
    """The alerts about the chosen pods, about the cards they are or were on, about their nodes."""
    of_pods = firing(f',$namespace_label=~"$namespace",$pod_label=~"$pod"{more}')
    of_cards = firing(f',$pod_label="",uuid!=""{more}')
    cards = f"group by ({CARD}) ({WAS} or {hit(POD)})"
    of_nodes = firing(f',$pod_label="",uuid=""{more}')
    return f"{of_pods} or {of_cards} and on ({CARD}) {cards} or {of_nodes}"


def dashboard() -> build.Dashboard:
    """First what is wrong with it and what it uses; then its neighbours; then the rest."""
    found = board(
        "pod",
        "What the chosen pods use of what they were allocated, by container and device, and who "
        "else is on their cards.",
        ["namespace", "pod"],
        labels=WORKLOAD,
    )
    for panel in _totals():
        found.with_panel(panel)
    about = "Of the chosen pods, of their cards and of their nodes. "
    found.with_panel(_containers()).with_panel(alerts("pod", _firing, about))
    found.with_row(build.Row("Use against allocation")).with_panel(_core()).with_panel(_memory())
    found.with_row(build.Row("Neighbours on the same cards"))
    found.with_panel(_neighbours()).with_panel(_neighbours_memory())
    found.with_panel(_waiting()).with_panel(_waited_for())
    found.with_row(build.Row("More of its use"))
    for panel in _more():
        found.with_panel(panel)
    found.with_row(build.Row("What is known of it"))
    found.with_panel(_identity()).with_panel(_unmeasured())
    found.with_variable(price("price_gpu_hour", "Price of a GPU-hour", "2.00"))
    return found.with_row(folded("Tokens and requests of vLLM, SGLang and Triton", _served()))


def _totals() -> list[Panel]:
    share = f"sum({_rate(_pod('allocated_core_seconds_total'))})"
    within = f"sum({_rate(_pod('limited_core_seconds_total'))})"
    waiting = f"max({_rate(_own('core_waiting_seconds_total'))})"
    return [
        stat(
            "Not read",
            "Containers of the chosen pods that cannot be measured now, because their GPU is lost "
            "or their node is silent.",
            f"count({LOST} or {OF_SILENT}) or 0 * count({KNOWN})",
            "short",
            ANY,
            width=3,
        ),
        stat(
            "Waiting",
            "Of the container that waited most, the part of its time in which it may have waited "
            "for others. An upper bound: a program that pauses looks the same.",
            waiting,
            "percentunit",
            ((None, GOOD), (WAITS, LOOK), (0.5, IDLE)),
            width=3,
        ),
        stat(
            "Share used",
            "Core use of the chosen pods' containers that have a share, against their shares. Over "
            "100 % they take what others leave, or what others were promised.",
            f"{within} / {share}",
            "percentunit",
            ((None, GOOD), (1.001, LOOK), (1.5, IDLE)),
            nothing=NO_SHARE,
            width=3,
        ),
        stat(
            "GPUs used",
            "GPUs' worth of core in use.",
            f"sum({_rate(_pod('core_seconds_total'))})",
            "short",
            width=3,
        ),
        stat(
            "Promised",
            "GPUs' worth of core promised.",
            share,
            "short",
            nothing=NO_SHARE,
            width=3,
        ),
        stat(
            "Memory full",
            "Device memory held against the allocation, on the device where that is most.",
            f"max({_pod('memory_limit_utilization_ratio')})",
            "percentunit",
            HIGH,
            nothing="No pod's device memory is limited here",
            width=3,
        ),
        stat(
            "Idle for",
            "How long ago one of the chosen pods last used a GPU.",
            f"time() - max({_pod('last_active_timestamp_seconds')})",
            "s",
            ((None, GOOD), (3600, LOOK), (14400, IDLE)),
            width=3,
        ),
        stat(
            "Power",
            "What the chosen pods draw, estimated.",
            f"sum({_rate(_pod('energy_joules_total'))})",
            "watt",
            width=3,
        ),
    ]


def _core() -> Panel:
    return series(
        "Core use, and the share",
        "GPUs' worth of core in use on each device, and what was promised there.",
        {
            CONTAINER: f"sum by ({BY_CONTAINER}) ({_rate(_own('core_seconds_total'))})",
            f"{CONTAINER} (share)": f"sum by ({BY_CONTAINER}) ({_own('core_limit_ratio')})",
        },
        "percentunit",
        colors={"share\\)$": ALLOCATED},
        dashed="share\\)$",
    )


def _memory() -> Panel:
    return series(
        "Memory held, and the allocation",
        "Device memory of each container on each device, and what was allocated there.",
        {
            CONTAINER: f"sum by ({BY_CONTAINER}) ({_own('memory_used_bytes')})",
            f"{CONTAINER} (allocated)": f"sum by ({BY_CONTAINER}) ({_own('memory_limit_bytes')})",
        },
        "bytes",
        colors={"allocated\\)$": ALLOCATED},
        dashed="allocated\\)$",
    )


def _containers() -> Panel:
    core, share = _rate(_own("core_seconds_total")), _own("core_limit_ratio")
    held, limit = _own("memory_used_bytes"), _own("memory_limit_bytes")
    elsewhere = {"0": ("as given", GOOD), "1": ("elsewhere", IDLE)}
    state = (
        f"0 * {LOST} or 2 * {OF_SILENT}"
        f" or group by ({BY_CONTAINER}) ({_own('allocation_info')})"
        f" or 3 * {KNOWN}"
    )
    return table(
        "Containers now",
        "Each container on each device: what it uses, against what it was allocated there. Those "
        "that cannot be measured now, and those that ended in the time range, have their state "
        "alone.",
        {"container": "Container", "gpu": "GPU", "pod": "Pod", "instance": "Node", "uuid": "UUID"},
        [
            Column(name, f"sum by ({BY_CONTAINER}) ({expr})", unit, cell)
            for name, expr, unit, cell in (
                ("State", state, "short", colored(words=STATE)),
                ("Core", core, "percentunit", None),
                ("Share", share, "percentunit", None),
                (
                    "Use of share",
                    f"sum by ({BY_CONTAINER}) ({core}) / sum by ({BY_CONTAINER}) ({share} > 0)",
                    "percentunit",
                    SHARE_USE,
                ),
                ("Memory", held, "bytes", None),
                ("Allocated", limit, "bytes", None),
                (
                    "Memory full",
                    f"sum by ({BY_CONTAINER}) ({held}) / sum by ({BY_CONTAINER}) ({limit} > 0)",
                    "percentunit",
                    FILLED,
                ),
                ("Highest", _own("memory_used_peak_bytes"), "bytes", None),
                ("Device", _own("placement_mismatch"), "short", colored(words=elsewhere)),
            )
        ],
        links={
            "GPU": to(
                "pod",
                "node",
                cluster=OWN_CLUSTER,
                node="${__data.fields.Node}",
                uuid="${__data.fields.UUID}",
            )
        },
        carried=("UUID",),
        widest="Pod",  # of a Deployment's pods, the ends of the names differ
        height=6,
    )


def _neighbour_lines(figure: str) -> dict[str, str]:
    return lines(f"{figure} {ON_ITS_CARDS}", BY_NEIGHBOUR, MOST, NEIGHBOUR, "other pods")


def _neighbours() -> Panel:
    use = f"rate(mgpu_container_core_seconds_total{{{NODE}}}[$__rate_interval])"
    busy = f"rate(mgpu_device_busy_seconds_total{{{NODE}}}[$__rate_interval])"
    return series(
        "Core use on the same cards",
        "GPUs' worth of core on the cards of the chosen pods: of those that used or held most in "
        "the time range, of the others together, and what is free.",
        {
            **_neighbour_lines(use),
            "free": f"sum(clamp_min(1 - ({busy} {ON_ITS_CARDS}), 0))",
        },
        "short",
        stacked=True,
        colors={"^free$": FREE},
    )


def _neighbours_memory() -> Panel:
    held = f"mgpu_container_memory_used_bytes{{{NODE}}}"
    free = f"mgpu_device_memory_total_bytes{{{NODE}}} - mgpu_device_memory_used_bytes{{{NODE}}}"
    return series(
        "Memory on the same cards",
        "Device memory on the cards of the chosen pods: of those that used or held most in the "
        "time range, of the others together, and what is free.",
        {
            **_neighbour_lines(held),
            "free": f"sum(({free}) {ON_ITS_CARDS})",
        },
        "bytes",
        stacked=True,
        colors={"^free$": FREE},
    )


def _waiting() -> Panel:
    return series(
        "Waiting for others",
        "Upper bound of the share of time in which each container waited while others ran: a "
        "program that pauses by itself looks the same.",
        {CONTAINER: f"sum by ({BY_CONTAINER}) ({_rate(_own('core_waiting_seconds_total'))})"},
        "percentunit",
        most=1,
    )


def _waited_for() -> Panel:
    waited = _own("core_waiting_on_seconds_total")
    pods, groups = (f'{waited[:-1]},by_namespace{is_so}""}}' for is_so in ("!=", "="))
    return series(
        "Waiting, by who ran instead",
        "Upper bound of the time in which the chosen pods waited, as a sum over their containers, "
        "by the pod or group that ran. Needs the exporter's --metrics.enable=contention.",
        {
            "{{by_namespace}}/{{by_pod}}": f"sum by (by_namespace, by_pod) ({_rate(pods)})",
            "{{by_pod}}": f"sum by (by_pod) ({_rate(groups)})",
        },
        "percentunit",
        stacked=True,
        nothing="Nothing waits, or --metrics.enable=contention is not set",
    )


def _more() -> list[Panel]:
    return [
        series(
            "Memory traffic, encoder, decoder",
            "Share of the device's time in which each was in use for the container.",
            {
                f"{CONTAINER} memory": _rate(_own("memory_active_seconds_total")),
                f"{CONTAINER} encoder": _rate(_own("encoder_seconds_total")),
                f"{CONTAINER} decoder": _rate(_own("decoder_seconds_total")),
            },
            "percentunit",
        ),
        series(
            "Power, by container",
            "Estimated: the active energy of a device is split by core use.",
            {CONTAINER: _rate(_own("energy_joules_total"))},
            "watt",
            stacked=True,
        ),
    ]


def _served() -> list[Panel]:
    def recorded(name: str) -> str:
        return f"namespace_pod:mgpu_{name}:ratio_rate5m{{{POD}}}"

    money = f"* {PRICE_GPU_HOUR} / 3600"
    return [
        series(
            "Energy of a token and a request",
            "Joules, estimated, by the rules of examples/tokens.",
            {
                "token {{$pod_label}}": recorded("joules_per_token"),
                "request {{$pod_label}}": recorded("joules_per_request"),
            },
            "joule",
            nothing=NOTHING_SERVED,
        ),
        series(
            "Cost of a million tokens and of a thousand requests",
            "What the pod was allocated meanwhile, at the price of a GPU-hour above.",
            {
                "10⁶ tokens {{$pod_label}}": "1e6 * "
                f"{recorded('allocated_gpu_seconds_per_token')} {money}",
                "10³ requests {{$pod_label}}": "1e3 * "
                f"{recorded('allocated_gpu_seconds_per_request')} {money}",
            },
            "short",
            nothing=NOTHING_SERVED,
        ),
    ]


def _identity() -> Panel:
    return table(
        "Allocations",
        "The sharing system of each allocation, its policy and the container's priority. Without a "
        "UUID the device is not known yet.",
        {
            **KEYS,
            "cluster": "Cluster",
            "scheme": "System",
            "policy": "Policy",
            "priority": "Priority",
        },
        [
            Column(
                "Number",
                "sum by (cluster, instance, $namespace_label, $pod_label, $container_label, uuid, "
                f"scheme, policy, priority) ({_own('allocation_info')})",
                "short",
            )
        ],
    )


def _unmeasured() -> Panel:
    return timeline(
        "What cannot be measured",
        "Quantities whose series are absent, and why; docs/troubleshooting.md has a line for each "
        "reason.",
        {
            "{{$container_label}} {{quantity}}: {{reason}} {{$pod_label}}": "max by ($pod_label, "
            f"$container_label, quantity, reason) ({_own('unmeasured')})"
        },
        UNMEASURED,
        known=_own("allocation_info"),
        none="all is measured",
        width=24,
    )
