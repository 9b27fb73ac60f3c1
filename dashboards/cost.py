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
USED_HOURS = f"increase(mgpu_pod_core_seconds_total{{{NAMESPACE}}}[$__range]) / 3600"
ALL_HOURS = f"increase(mgpu_namespace_core_seconds_total{{{NAMESPACE}}}[$__range]) / 3600"
HOURS = f"increase(mgpu_pod_allocated_core_seconds_total{{{NAMESPACE}}}[$__range]) / 3600"
IDLE_HOURS = f"clamp_min({HOURS} - {USED_HOURS}, 0)"
KWH = f"increase(mgpu_namespace_energy_joules_total{{{NAMESPACE}}}[$__range]) / {JOULES_PER_KWH}"
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
    found.with_variable(_price("price_kwh", "Price of a kWh", "0.20"))
    found.with_variable(_price("price_gpu_hour", "Price of a GPU-hour", "2.00"))
    for panel in _totals():
        found.with_panel(panel)
    found.with_row(build.Row("Namespaces")).with_panel(_bill())
    found.with_row(build.Row("Over time"))
    return found.with_panel(_power()).with_panel(_allocated())


def _price(name: str, label: str, value: str) -> build.TextBoxVariable:
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
            "The part of the allocated GPU-hours that was not used.",
            f"sum({IDLE_HOURS}) / sum({HOURS})",
            "percentunit",
            SPARE,
            nothing=NO_SHARE,
        ),
    ]


def _bill() -> Panel:
    def total(expr: str) -> str:
        return f"sum by ({BY_NAMESPACE}) ({expr})"

    return table(
        "The bill of the time range",
        "Costs are in the currency of the prices above. A namespace without a promised share "
        "(time-slicing) has used GPU-hours only.",
        {"namespace": "Namespace", "cluster": "Cluster"},
        [
            Column("Cost of allocations", f"{total(HOURS)} * {PRICE_GPU_HOUR}", "short"),
            Column("of that idle", f"{total(IDLE_HOURS)} * {PRICE_GPU_HOUR}", "short"),
            Column("Idle part", f"{total(IDLE_HOURS)} / {total(HOURS)}", "percentunit", bar(SPARE)),
            Column("Allocated GPU-h", total(HOURS), "short"),
            Column("Used GPU-h", total(ALL_HOURS), "short"),
            Column("Energy", total(KWH), "kwatth"),
            Column("Cost of energy", f"{total(KWH)} * {PRICE_KWH}", "short"),
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
            "{{$namespace_label}}": f"sum by ({BY_NAMESPACE}) ({power})",
            "nobody: {{reason}}": f"sum by (reason) (rate({NOBODYS}[$__rate_interval]))",
        },
        "watt",
        stacked=True,
        colors={"^nobody: idle": IDLE, "^nobody: (?!idle)": NOBODY},
    )


def _allocated() -> Panel:
    share = f"rate(mgpu_pod_allocated_core_seconds_total{{{NAMESPACE}}}[$__rate_interval])"
    used = f"rate(mgpu_namespace_core_seconds_total{{{NAMESPACE}}}[$__rate_interval])"
    shares = f"sum by ({BY_NAMESPACE}) ({share})"
    # Grafana gives colours by the order of the lines, which is that of the namespaces' names. A
    # namespace that was promised nothing has its line, too, so that the others keep their colours.
    without = f"0 * (sum by ({BY_NAMESPACE}) ({used}) and on () group({share}))"
    return series(
        "Cost of allocations an hour, by namespace",
        "What the allocations of the moment cost in an hour. A namespace has the same "
        "colour as in the chart of power.",
        {"{{$namespace_label}}": f"({shares} or {without}) * {PRICE_GPU_HOUR}"},
        "short",
        stacked=True,
        nothing=NO_COST,
    )
