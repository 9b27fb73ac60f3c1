"""What the cards cost, who pays for it, and their energy; method and prices are variables."""

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.dashboard import VariableOption

from dashboards.frame import NAMESPACE, NODE, board, events, to
from dashboards.panels import (
    FREE,
    IDLE,
    NOBODY,
    OF_CLUSTER,
    SPARE,
    UNOBSERVED,
    USED,
    Panel,
    series,
    stat,
)
from dashboards.tables import LARGEST, OWN_CLUSTER, Column, or_all, ranked, table
from exporter.answers.bill.parts import METHODS, Part

EVENTS = events()

JOULES_PER_KWH = "3.6e6"
# 0.20 becomes 0.20e0, the same number. An emptied box becomes e0, a metric that nobody has: the
# panel finds nothing, instead of a query that cannot be parsed.
PRICE_KWH = "${price_kwh}e0"
PRICE_GPU_HOUR = "${price_gpu_hour}e0"
NO_ENERGY = "No price, or no board measures energy"
NO_RULES = "Nothing is recorded: load rules/mgpu-recording.yaml"
NO_COST = "No price, or nothing is recorded (rules/mgpu-recording.yaml)"

# GPUs, as rules/mgpu-recording.yaml divides them: the parts of `mgpu-exporter bill`.
RECORDED_EACH = "2m"
CHOSEN = f'{NAMESPACE},method=~"$method"'
BILLED = "namespace:mgpu_billed_gpus:rate5m"
IDLE_OF_CARDS = f'namespace_card:mgpu_unused_share_gpus:rate5m{{{NAMESPACE},part="allocated_idle"}}'
LENT = f'namespace_card:mgpu_lent_gpus:rate5m{{{CHOSEN},part="allocated_idle"}}'
BORROWED = f"mgpu_namespace_borrowed_core_seconds_total{{{NAMESPACE}}}"
CARD_OF = f"uuid:mgpu_device:card{{{NODE}}}"
PRICES = "max by (model) (model:mgpu_gpu_hour:price)"
PAYER = "cluster, $namespace_label, kind"
NOBODY_NAMED = "(none)"
OF_NAMESPACE = "own_namespace"  # of a row, for a link
BY_NAMESPACE = "cluster, $namespace_label"

KWH = f"increase(mgpu_namespace_energy_joules_total{{{NAMESPACE}}}[$__range]) / {JOULES_PER_KWH}"
BOARD = f"mgpu_device_energy_joules_total{{{NODE}}}"
BOARD_IDLE = f"mgpu_device_idle_energy_joules_total{{{NODE}}}"
NOBODYS = f"reason_instance:mgpu_unattributed_energy_joules:sum_rate5m{{{NODE}}}"
POD_IDLE = f"namespace_pod:mgpu_allocated_idle_core_seconds:sum{{{NAMESPACE}}}"
POD_OWNER = f"namespace_pod:mgpu_pod:owner{{{NAMESPACE}}}"


def _billed(part: str = "", more: str = "") -> str:
    """The recorded GPUs of a part, or of all."""
    only = f',part="{part}"' if part else ""
    return f"{BILLED}{{{CHOSEN}{only}{more}}}"


def _hours(gpus: str) -> str:
    """GPU-hours of the time range: a sample stands for two minutes."""
    return f"sum_over_time({gpus}[$__range]) / 30"


def _cost(gpus: str) -> str:
    """The price of GPU-hours: that which is recorded for the model, else the same for all."""
    return f"({gpus} * on (model) group_left () {PRICES} or {gpus} * {PRICE_GPU_HOUR})"


def _sum(labels: str, expr: str) -> str:
    return f"sum by ({labels}) ({expr})"


def _named(expr: str) -> str:
    """Who pays, with words for what has no name: Grafana joins a row without one to all others."""
    label = "$namespace_label"
    with_kind = f'label_replace({expr}, "kind", "{NOBODY_NAMED}", "kind", "")'
    with_link = or_all(with_kind, label, OF_NAMESPACE)
    return f'label_replace({with_link}, "{label}", "{NOBODY_NAMED}", "{label}", "")'


def dashboard() -> build.Dashboard:
    """Top row: the time range's sums; then who pays, what is idle, and all of it over time."""
    found = board(
        "cost",
        "What the cards cost in the time range and who pays, as `mgpu-exporter bill` divides it. "
        "Energy of containers is an estimate whose parts add up to the board's counter.",
        ["namespace"],
        labels=("namespace", "pod"),
    )
    found.with_variable(_method())
    found.with_variable(price("price_gpu_hour", "Price of a GPU-hour", "2.00"))
    found.with_variable(price("price_kwh", "Price of a kWh", "0.20"))
    for panel in _totals():
        found.with_panel(panel)
    found.with_row(build.Row("Who pays")).with_panel(_payers())
    found.with_row(build.Row("What is left, and who borrows"))
    found.with_panel(_unallocated()).with_panel(_owners()).with_panel(_borrowers())
    found.with_row(build.Row("Over time")).with_panel(_trend()).with_panel(_trend_of_parts())
    return found.with_panel(_power()).with_panel(_power_of_boards())


def _method() -> build.CustomVariable:
    options = [VariableOption(selected=not i, text=m, value=m) for i, m in enumerate(METHODS)]
    variable = build.CustomVariable("method").label("Method").values(",".join(METHODS))
    return variable.current(options[0]).options(options)


def price(name: str, label: str, value: str) -> build.TextBoxVariable:
    """A price that the reader may change."""
    chosen = VariableOption(selected=True, text=value, value=value)
    box = build.TextBoxVariable(name).label(label).default_value(value)
    return box.current(chosen).options([chosen])


def _totals() -> list[Panel]:
    kwh = f"sum(increase({BOARD}[$__range])) / {JOULES_PER_KWH}"
    idle = f"sum({_hours(_billed(Part.ALLOCATED_IDLE))})"
    idle_part = f"increase({BOARD_IDLE}[$__range])"
    return [
        stat(
            "GPU-hours",
            "Of all cards, used or not; of chosen namespaces what they pay for. A board with MIG "
            "is one card.",
            f"sum({_hours(_billed())})",
            "short",
            nothing=NO_RULES,
        ),
        stat(
            "Their price",
            "By the prices of models that a rule records (docs/bill.md); of other models by the "
            "price of a GPU-hour above.",
            f"sum({_cost(_hours(_billed()))})",
            "short",
            nothing=NO_COST,
        ),
        stat(
            "Paid for and idle",
            "The part of the time that is paid for that was kept for somebody and not used.",
            f"{idle} / (sum({_hours(_billed(Part.USED))}) + {idle})",
            "percentunit",
            SPARE,
            nothing=NO_RULES,
        ),
        stat(
            "Energy, all",
            "Of all boards of the chosen nodes, of all namespaces, idle or not, in the time range.",
            kwh,
            "kwatth",
        ),
        stat(
            "Its idle part",
            "What the boards would have drawn without any use, estimated; of the boards whose idle "
            "part is known, against the energy of these.",
            f"sum({idle_part}) / sum(increase({BOARD}[$__range]) and {idle_part})",
            "percentunit",
            SPARE,
        ),
        stat(
            "Cost of that energy",
            "At the price of a kWh above, in its currency.",
            f"{kwh} * {PRICE_KWH}",
            "short",
            nothing=NO_ENERGY,
        ),
    ]


def _payers() -> Panel:
    # It has no kind. VictoriaMetrics 1.79 finds the wrong one where it asks for a label of its own.
    energy = f'label_replace({_sum(BY_NAMESPACE, KWH)}, "kind", "{NOBODY_NAMED}", "", "")'
    parts = [
        Column(name, _named(_sum(PAYER, _hours(_billed(part)))), "short")
        for part, name in (
            (Part.USED, "Used"),
            (Part.ALLOCATED_IDLE, "Idle"),
            (Part.UNALLOCATED, "Unallocated"),
            (Part.UNATTRIBUTED, "Unattributed"),
            (Part.UNOBSERVED, "Unobserved"),
        )
    ]
    return table(
        "What each namespace pays",
        "And each kind of group outside Kubernetes; the row without both names is nobody's. By "
        "allocation they pay for what was kept for them, by use for what they used and for their "
        "own idle part. The parts are GPU-hours. Energy is not in the price.",
        {"namespace": "Namespace", "kind": "Kind", "cluster": "Cluster"},
        [
            Column("Price", _named(_sum(PAYER, _cost(_hours(_billed())))), "short"),
            Column("GPU-hours", _named(_sum(PAYER, _hours(_billed()))), "short"),
            *parts,
            Column("Energy", _named(energy), "kwatth"),
            Column("Its cost", _named(f"{energy} * {PRICE_KWH}"), "short"),
        ],
        links={
            "Namespace": to(
                "cost",
                "overview",
                cluster=OWN_CLUSTER,
                namespace=f"${{__data.fields.{OF_NAMESPACE}}}",
            )
        },
        carried=(OF_NAMESPACE,),
        nothing=NO_RULES,
    )


def _unallocated() -> Panel:
    free, where = _hours(_billed(Part.UNALLOCATED)), "cluster, instance, model"
    return table(
        "Capacity that nobody had",
        "Unallocated GPU-hours by node and model, and their price.",
        {"instance": "Node", "model": "Model"},
        [
            Column("Price", _sum(where, _cost(free)), "short"),
            Column("GPU-hours", _sum(where, free), "short"),
        ],
        nothing="None, or nothing is recorded",
        widest="Model",
        width=10,
    )


def _owners() -> Panel:
    pod = "cluster, instance, $namespace_label, $pod_label"
    # A young pod was there at no whole five minutes yet.
    there = f"last_over_time({POD_OWNER}[$__range:5m]) or {POD_OWNER}"
    info = f"group by ({pod}, owner_name) ({there})"
    idle = f"sum by ({pod}) (increase({POD_IDLE}[$__range]))"
    owner = "cluster, $namespace_label, owner_name"
    return table(
        "Idle, by owner",
        "GPU-hours of core that were allocated to an owner's pods and not used, of the 20 that "
        "leave most, recorded each five minutes: shorter pods are in the namespace's row alone.",
        {"namespace": "Namespace", "owner_name": "Owner", "cluster": "Cluster"},
        [
            Column(
                "GPU-h",
                f"topk(20, sum by ({owner}) ({idle} * on ({pod}) "
                f"group_left (owner_name) {info})) / 3600",
                "short",
            )
        ],
        links={
            "Namespace": to("cost", "overview", cluster=OWN_CLUSTER, namespace="${__value.raw}"),
            "Owner": to(
                "cost",
                "overview",
                cluster=OWN_CLUSTER,
                namespace="${__data.fields.Namespace}",
                owner="${__value.raw}",
            ),
        },
        nothing=NO_RULES,
        width=14,
    )


def _borrowers() -> Panel:
    card = "cluster, instance, card"
    with_namespace = f"{card}, $namespace_label"
    device, on_card = "cluster, job, instance, uuid", f"on ({card})"
    seconds = f"sum by ({device}, $namespace_label) (increase({BORROWED}[$__range]))"
    cards = f"max by ({device}, card) (last_over_time({CARD_OF}[$__range]))"
    borrowed = f"{seconds} / 3600 * on ({device}) group_left (card) {cards}"
    by_namespace = ranked(f"{_sum(with_namespace, borrowed)} > 0")
    lent = f"{on_card} sum by ({card}) ({by_namespace})"
    idle, taken = (_sum(with_namespace, _hours(one)) for one in (IDLE_OF_CARDS, LENT))
    return table(
        "Who borrows, by card",
        f"GPU-hours beyond a share, the {LARGEST} largest of a namespace on a card, and what each "
        "namespace left idle on the same card. Prometheus cannot say which owner's idle time a "
        "borrower used: any of the others may use it.",
        {"instance": "Node", "namespace": "Namespace", "card": "Card", "cluster": "Cluster"},
        [
            Column("Borrowed", by_namespace, "short"),
            Column("Idle", f"({idle} - {taken} or {idle}) > 1e-9 and {lent}", "short"),
        ],
        nothing="Nobody borrows, or nothing is recorded",
        known=by_namespace,  # of a card that has a row, somebody borrows
        width=24,
    )


def _trend() -> Panel:
    # Grafana gives colours by the order of the lines, which is that of the namespaces' names. A
    # namespace that pays nothing has its line, too, so that the others keep their colours.
    of = ',$namespace_label!=""'
    every = f"namespace_instance:mgpu_core_seconds:sum_rate5m{{{NAMESPACE}}}"
    without = f"0 * {_sum(PAYER, every)}"

    def paid(of: str) -> str:
        return _sum(PAYER, _cost(f"avg_over_time({_billed(more=of)}[$__rate_interval])"))

    return series(
        "What they pay in an hour",
        "By namespace, and by kind of group. A namespace has the same colour as in the chart of "
        "power.",
        {
            f"{{{{$namespace_label}}}} {OF_CLUSTER}": f"{paid(of)} or {without}",
            f"{{{{kind}}}} {OF_CLUSTER}": paid(',kind!=""'),
        },
        "short",
        stacked=True,
        nothing=NO_COST,
    ).interval(RECORDED_EACH)


def _trend_of_parts() -> Panel:
    return series(
        "The parts of the cards' time",
        "In GPUs: together all cards that Prometheus knows.",
        {"{{part}}": _sum("part", f"avg_over_time({_billed()}[$__rate_interval])")},
        "short",
        stacked=True,
        colors={
            "^used$": USED,
            "^allocated_idle$": IDLE,
            "^unallocated$": FREE,
            "^unattributed$": NOBODY,
            "^unobserved$": UNOBSERVED,
        },
        nothing=NO_RULES,
    ).interval(RECORDED_EACH)


def _power() -> Panel:
    power = f"namespace_instance:mgpu_energy_joules:sum_rate5m{{{NAMESPACE}}}"
    return series(
        "Power, by namespace",
        "And what is charged to nobody, by reason. With that of groups, on their own dashboard, "
        "the sum is what the boards draw.",
        {
            f"{{{{$namespace_label}}}} {OF_CLUSTER}": _sum(BY_NAMESPACE, power),
            "nobody: {{reason}}": _sum("reason", NOBODYS),
        },
        "watt",
        stacked=True,
        colors={"^nobody: idle": IDLE, "^nobody: (?!idle)": NOBODY},
        nothing=NO_RULES,
    ).interval(RECORDED_EACH)


def _power_of_boards() -> Panel:
    return series(
        "Power of the boards",
        "And its idle part: what they would draw without any use, estimated.",
        {
            "all": f"sum(rate({BOARD}[$__rate_interval]))",
            "idle part": f"sum(rate({BOARD_IDLE}[$__rate_interval]))",
        },
        "watt",
        colors={"idle part": IDLE},
    )
