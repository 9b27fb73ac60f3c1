"""How a GPU's board is: power, engines, traffic, health, errors; and the alerts that fire."""

from collections.abc import Callable, Mapping

import yaml

from dashboards.frame import CARD, DEVICE, FIRING, FIRING_SINCE, SILENT, in_range, to
from dashboards.panels import (
    ANY,
    BAD,
    IDLE,
    LOOK,
    READ,
    USED,
    Panel,
    Words,
    series,
    timeline,
)
from dashboards.tables import OWN_CLUSTER, Column, colored, table, tinted
from rules.generate import FOLDER

# Which alerts a board shows; it is given a selector of what else is asked of them, or "".
Firing = Callable[[str], str]
RUNBOOK = "https://github.com/mgpu-exporter/mgpu-exporter/blob/main/docs/runbooks/${__value.raw}.md"
GPU = "GPU {{card}} {{instance}}"
LINE = "{{instance}} GPU {{gpu}}"  # of a timeline, which cuts the names of its lines in front
# The power cap is normal under load: it has a colour of its own, and a value that no part has.
CAPPED, NOT_CAPPED = ',reason="sw_power_cap"', ',reason!="sw_power_cap"'
AT_CAP = -3
# Of a table, which has a row for each device of a silent node, too.
STATE: Words = {"-1": ("silent", BAD), **READ}
# In the order of their weight, which no order of words is.
SEVERITY = {"0": ("critical", BAD), "1": ("warning", IDLE), "2": ("info", USED)}


def of(family: str, more: str = "") -> str:
    """A family of the chosen devices."""
    return f"mgpu_device_{family}{{{DEVICE}{more}}}"


def rate(family: str, more: str = "") -> str:
    """What a counter of theirs rises by in a second."""
    return f"rate({of(family, more)}[$__rate_interval])"


def placed(expr: str) -> str:
    """A figure of each device, with its place as ``card``: "3", or "0-1" for a part of a card.

    The label ``gpu`` is the card's number, which all instances and partitions of the card share.
    """
    info = f"max by ({CARD}, gpu_instance) ({of('info')})"
    return with_place(f"({expr}) * on ({CARD}) group_left (gpu_instance) {info}")


def with_place(expr: str) -> str:
    """With the place as ``card``, of series that have the labels that it is made of."""
    with_dash = f'label_join({expr}, "card", "-", "gpu", "gpu_instance")'
    return f'label_replace({with_dash}, "card", "$1", "card", "(.+?)-?")'


def of_silent(family: str) -> str:
    """What the devices of silent nodes had last."""
    return f"({in_range(of(family))} and on (cluster, instance) {SILENT})"


def of_each(queries: Mapping[str, str]) -> dict[str, str]:
    """Figures of each device by their legends, which may name the device by its place."""
    return {legend: placed(expr) for legend, expr in queries.items()}


def power() -> list[Panel]:
    """What it draws, how hot it is and how fast."""
    return [
        series(
            "Power", "What each board draws.", of_each({GPU: of("power_watts")}), "watt", width=8
        ),
        series(
            "Temperature",
            "Of the GPU and of its memory.",
            of_each({f"{GPU} {{{{sensor}}}}": of("temperature_celsius")}),
            "celsius",
            width=8,
        ),
        series(
            "Clocks",
            "What the clocks are at.",
            of_each({f"{GPU} {{{{clock}}}}": of("clock_hertz")}),
            "hertz",
            width=8,
        ),
    ]


def health() -> list[Panel]:
    """Can it be read, what holds its clocks down, what cannot be measured."""
    return [
        timeline(
            "Can be read",
            "Whether the driver answers for a card and for all of its partitions.",
            {LINE: f"min by (cluster, instance, gpu) ({of('up')})"},
            READ,
            known=of("up"),
            width=8,
        ),
        timeline(
            "Clocks held down",
            "Share of the time in which clocks were held down, by reason. The power cap is normal "
            "under load; heat and the power brake are not.",
            {
                f"{LINE} {{{{reason}}}}": "("
                f"{rate('throttle_seconds_total', NOT_CAPPED)} > 0.01)"
                f" or {AT_CAP} + 0 * ({rate('throttle_seconds_total', CAPPED)} > 0.01)"
            },
            (
                (AT_CAP, "at the power cap", USED),
                (0, "under 50 % of the time", LOOK),
                (0.5, "50 % and more", IDLE),
                (0.9, "90 % and more", BAD),
            ),
            known=of("throttle_seconds_total"),
            none="no clock",
            width=16,
        ),
        table(
            "Not measured now",
            "Quantities whose series are absent, and why; docs/troubleshooting.md has a line for "
            "each reason. A card with partitions is several devices.",
            {"gpu": "GPU", "quantity": "Quantity", "reason": "Reason", "instance": "Node"},
            [
                Column(
                    "Devices",
                    f"count by (cluster, instance, gpu, quantity, reason) ({of('unmeasured')})",
                    "short",
                )
            ],
            nothing="All is measured, or no exporter is scraped here",
            widest="Reason",
            width=12,
        ),
        timeline(
            "XIDs over time",
            "When the driver reported an error, by its number.",
            {
                f"{LINE} XID {{{{xid}}}}": "sum by (cluster, instance, gpu, xid) "
                f"(increase({of('xid_errors_total')}[$__rate_interval])) > 0"
            },
            ((0, "reported", BAD),),
            known=of("xid_errors_total"),
            none="no XID",
        ),
    ]


def _meanings() -> Words:
    """What each alert says, from the rules."""
    groups = yaml.safe_load((FOLDER / "mgpu-alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    return {rule["alert"]: (rule["annotations"]["summary"], "text") for rule in rules}


def firing(more: str = "") -> str:
    """The alerts of the chosen clusters and nodes."""
    return f"ALERTS{{{FIRING}{more}}}"


def alerts(source: str, which: Firing = firing, about: str = "") -> Panel:
    """The alerts of rules/ that fire, and what each says; ``about`` is which of them."""
    by = "alertname, cluster, instance, gpu, $namespace_label, $pod_label"
    since = f"time() - {FIRING_SINCE} and ignoring (alertstate) ({which('')})"
    severity = " or ".join(
        f"{number} + 0 * min by ({by}) ({which(one)})"
        for number, (name, _) in SEVERITY.items()
        for one in [f',severity="{name}"']
    )

    def explained(expr: str) -> str:
        return f'label_replace({expr}, "meaning", "$1", "alertname", "(.*)")'

    return table(
        "Alerts that fire",
        f"{about}Of the rules of this project, where this Prometheus evaluates them. Each has a "
        "runbook.",
        {
            "alertname": "Alert",
            "meaning": "Meaning",
            "cluster": "Cluster",
            "instance": "Node",
            "gpu": "GPU",
            "namespace": "Namespace",
            "pod": "Pod",
        },
        [
            Column("Severity", explained(severity), "short", colored(words=SEVERITY)),
            Column("For", explained(f"max by ({by}) ({since})"), "s"),
        ],
        lowest_of="Severity",
        widest="Meaning",
        texts={"Meaning": _meanings()},
        links={
            "Alert": RUNBOOK,
            "Node": to(source, "node", cluster=OWN_CLUSTER, node="${__value.raw}"),
            "Pod": to(
                source,
                "pod",
                cluster=OWN_CLUSTER,
                node="${__data.fields.Node}",
                namespace="${__data.fields.Namespace}",
                pod="${__value.raw}",
            ),
        },
        nothing="No alert fires, or this Prometheus has not the rules",
        known=which(""),
        height=6,
    )


def engines() -> list[Panel]:
    """What its parts do, and what goes over its links."""
    return [
        series(
            "Memory traffic, encoder, decoder",
            "Share of the time in which each was in use.",
            of_each(
                {
                    f"{GPU} memory": rate("memory_active_seconds_total"),
                    f"{GPU} encoder": rate("encoder_seconds_total"),
                    f"{GPU} decoder": rate("decoder_seconds_total"),
                }
            ),
            "percentunit",
        ),
        series(
            "SM, tensor and memory activity",
            "Share of the SMs that were busy, of the warps that fit on them, and of the time that "
            "tensor cores were in use and that memory moved data. Hopper and newer only.",
            of_each(
                {
                    f"{GPU} SM": of("sm_active_ratio"),
                    f"{GPU} occupancy": of("sm_occupancy_ratio"),
                    f"{GPU} tensor": of("tensor_active_ratio"),
                    f"{GPU} memory": of("dram_active_ratio"),
                }
            ),
            "percentunit",
            nothing="No GPU here measures it: Hopper and newer do",
        ),
        series(
            "PCIe traffic",
            "As the device sees it.",
            of_each({f"{GPU} {{{{direction}}}}": rate("pcie_bytes_total")}),
            "Bps",
        ),
        series(
            "NVLink traffic",
            "Payload over all links of a device.",
            of_each({f"{GPU} {{{{direction}}}}": rate("nvlink_bytes_total")}),
            "Bps",
            nothing="No GPU here counts traffic of NVLink",
        ),
    ]


def _counted(label: str, expr: str) -> str:
    """A count by GPU and a label."""
    return f"sum by (cluster, instance, gpu, {label}) ({expr})"


def errors() -> list[Panel]:
    """What went wrong."""
    # Prometheus stretches a growth to the whole time range: one XID may become 1.01.
    xids = f"increase({of('xid_errors_total')}[$__range])"
    return [
        table(
            "XIDs",
            "Errors that the driver reported in the time range, by number. The runbooks "
            "MgpuXidHardware and MgpuXidError say what they mean.",
            {"instance": "Node", "gpu": "GPU", "xid": "XID"},
            [
                Column(
                    "Errors",
                    f"round({_counted('xid', xids)}) > 0",
                    "short",
                    tinted(ANY),
                )
            ],
            nothing="No XID was reported in the time range",
            width=12,
        ),
        table(
            "Memory errors",
            "Errors of the memory in the time range, and what of it is replaced: rows, or pages "
            "before Ampere.",
            {"instance": "Node", "gpu": "GPU", "kind": "Kind"},
            [
                Column(
                    "Errors",
                    _counted("kind", f"increase({of('ecc_errors_total')}[$__range])"),
                    "short",
                ),
                Column("Replaced rows", _counted("kind", of("remapped_rows")), "short"),
                Column("Retired pages", _counted("kind", of("retired_pages")), "short"),
            ],
            nothing="No GPU here counts memory errors",
            width=12,
        ),
    ]
