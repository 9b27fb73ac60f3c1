"""Energy and cost of each namespace; the prices are variables."""

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.dashboard import VariableOption

from dashboards.frame import NAMESPACE, NODE, board, events, to
from dashboards.panels import IDLE, NOBODY, SPARE, Panel, series, stat
from dashboards.tables import Column, bar, table

EVENTS = events()

JOULES_PER_KWH = "3.6e6"
# 0.20 becomes 0.20e0, the same number. An emptied box becomes e0, a metric that nobody has: the
# panel finds nothing, instead of a query that cannot be parsed.
PRICE_KWH = "${price_kwh}e0"
PRICE_GPU_HOUR = "${price_gpu_hour}e0"
NO_ENERGY = "No price, or no board measures energy"
NO_SHARE = "No pod was promised a share here"
NO_COST = "No price, or no pod was promised a share"
BY_NAMESPACE = "cluster, $namespace_label"

# Counters of namespaces lose nothing of pods that live shorter than a scrape; those of pods do.
USED_HOURS = f"increase(mgpu_namespace_core_seconds_total{{{NAMESPACE}}}[$__range]) / 3600"
HOURS = f"increase(mgpu_namespace_allocated_core_seconds_total{{{NAMESPACE}}}[$__range]) / 3600"
POD_USED_HOURS = f"increase(mgpu_pod_limited_core_seconds_total{{{NAMESPACE}}}[$__range]) / 3600"
POD_HOURS = f"increase(mgpu_pod_allocated_core_seconds_total{{{NAMESPACE}}}[$__range]) / 3600"
KWH = f"increase(mgpu_namespace_energy_joules_total{{{NAMESPACE}}}[$__range]) / {JOULES_PER_KWH}"


def _by_namespace(expr: str) -> str:
    return f"sum by ({BY_NAMESPACE}) ({expr})"


# Two lower bounds of the idle hours, of which the higher is shown: by pods, without those shorter
# than a scrape; and by namespaces, where use beyond a share is set off against what is idle.
IDLE_OF_PODS = _by_namespace(f"clamp_min({POD_HOURS} - {POD_USED_HOURS}, 0)")
IDLE_IN_ALL = f"clamp_min({_by_namespace(HOURS)} - {_by_namespace(USED_HOURS)}, 0)"
IDLE_HOURS = f"(({IDLE_IN_ALL} > {IDLE_OF_PODS}) or {IDLE_OF_PODS} or {IDLE_IN_ALL})"
BOARD = f"mgpu_device_energy_joules_total{{{NODE}}}"
NOBODYS = f"mgpu_device_unattributed_energy_joules_total{{{NODE}}}"


def dashboard() -> build.Dashboard:
    """Top row: the time range's sums; then the bill; then where energy goes."""
    found = board(
        "cost",
        "What the namespaces drew and were allocated in the time range, and what it cost. Energy "
        "of containers is an estimate whose parts add up to the board's counter.",
        ["namespace"],
        labels=("namespace",),
    )
    found.with_variable(price("price_kwh", "Price of a kWh", "0.20"))
    found.with_variable(price("price_gpu_hour", "Price of a GPU-hour", "2.00"))
    for panel in _totals():
        found.with_panel(panel)
    found.with_row(build.Row("Namespaces")).with_panel(_bill())
    found.with_row(build.Row("Over time"))
    return found.with_panel(_power()).with_panel(_allocated())


def price(name: str, label: str, value: str) -> build.TextBoxVariable:
    """A price that the reader may change."""
    chosen = VariableOption(selected=True, text=value, value=value)
    box = build.TextBoxVariable(name).label(label).default_value(value)
    return box.current(chosen).options([chosen])


def _totals() -> list[Panel]:
    board_kwh = f"sum(increase({BOARD}[$__range])) / {JOULES_PER_KWH}"
    return [
        stat(
            "Energy",
            "Of all boards of the chosen nodes, idle or not, in the time range.",
            board_kwh,
            "kwatth",
        ),
        stat(
            "Cost of that energy",
            "At the price of a kWh above, in its currency.",
            f"{board_kwh} * {PRICE_KWH}",
            "short",
            nothing=NO_ENERGY,
        ),
        stat(
            "Charged to nobody",
            "The part of the energy that is no namespace's and no group's: idle boards, by default "
            "(--energy.idle), and processes that are not known.",
            f"sum(increase({NOBODYS}[$__range])) / sum(increase({BOARD}[$__range]))",
            "percentunit",
        ),
        stat(
            "Allocated GPU-h",
            "Of the chosen namespaces in the time range, used or not. An hour of a whole partition "
            "is one GPU-hour, as one of a whole card is.",
            f"sum({HOURS})",
            "short",
            nothing=NO_SHARE,
        ),
        stat(
            "Allocations cost",
            "At the price of a GPU-hour above, in its currency.",
            f"sum({HOURS}) * {PRICE_GPU_HOUR}",
            "short",
            nothing=NO_COST,
        ),
        stat(
            "Paid for and idle",
            "The part of the allocated GPU-hours that was not used, at least.",
            f"sum({IDLE_HOURS}) / sum({HOURS})",
            "percentunit",
            SPARE,
            nothing=NO_SHARE,
        ),
    ]


def _bill() -> Panel:
    hours = _by_namespace(HOURS)
    return table(
        "The bill of the time range",
        "Costs are in the currency of the prices above. A namespace without a promised share "
        "(time-slicing) has used GPU-hours only. Idle is at least so much: what a pod uses beyond "
        "its share may hide what a short one leaves idle.",
        {"namespace": "Namespace", "cluster": "Cluster"},
        [
            Column("Cost of allocations", f"{hours} * {PRICE_GPU_HOUR}", "short"),
            Column("of that idle", f"{IDLE_HOURS} * {PRICE_GPU_HOUR}", "short"),
            Column("Idle part", f"{IDLE_HOURS} / {hours}", "percentunit", bar(SPARE)),
            Column("Allocated GPU-h", hours, "short"),
            Column("Used GPU-h", _by_namespace(USED_HOURS), "short"),
            Column("Energy", _by_namespace(KWH), "kwatth"),
            Column("Cost of energy", f"{_by_namespace(KWH)} * {PRICE_KWH}", "short"),
        ],
        links={"Namespace": to("overview", namespace="${__value.raw}")},
    )


def _power() -> Panel:
    power = f"rate(mgpu_namespace_energy_joules_total{{{NAMESPACE}}}[$__rate_interval])"
    return series(
        "Power, by namespace",
        "And what is charged to nobody, by reason. With that of groups, on their own dashboard, "
        "the sum is what the boards draw.",
        {
            "{{$namespace_label}}": _by_namespace(power),
            "nobody: {{reason}}": f"sum by (reason) (rate({NOBODYS}[$__rate_interval]))",
        },
        "watt",
        stacked=True,
        colors={"^nobody: idle": IDLE, "^nobody: (?!idle)": NOBODY},
    )


def _allocated() -> Panel:
    share = f"rate(mgpu_namespace_allocated_core_seconds_total{{{NAMESPACE}}}[$__rate_interval])"
    used = f"rate(mgpu_namespace_core_seconds_total{{{NAMESPACE}}}[$__rate_interval])"
    shares = _by_namespace(share)
    # Grafana gives colours by the order of the lines, which is that of the namespaces' names. A
    # namespace that was promised nothing has its line, too, so that the others keep their colours.
    without = f"0 * ({_by_namespace(used)} and on () group({share}))"
    return series(
        "Cost of allocations an hour, by namespace",
        "What the allocations of the moment cost in an hour. A namespace has the same "
        "colour as in the chart of power.",
        {"{{$namespace_label}}": f"({shares} or {without}) * {PRICE_GPU_HOUR}"},
        "short",
        stacked=True,
        nothing=NO_COST,
    )
