"""The card of a GPU: its state, its gauges, and the containers on it."""

from collections.abc import Iterable, Sequence

from exporter.api.figures import UNMEASURED
from exporter.facts.history import Known
from exporter.facts.marks import Mark, MarkKind
from exporter.facts.tree import UnattributedEntry
from exporter.model import MIG, PARTITIONED, DeviceFacts, Methods
from exporter.web.page.cells import core_of, marked, memory_of, swatch
from exporter.web.page.charts import button
from exporter.web.page.entries import key_of, shortened
from exporter.web.page.gauges import Gpu, Tenant, core, memory
from exporter.web.page.glossary import OWNED, reason
from exporter.web.page.html import NBSP, Html, cut, gibibytes, h, held_of, many, percent

TENANTS_SHOWN = 5
PLACES = 24  # by use, on a narrow screen; page.css has a class for each
IDLE = 0.005  # of one GPU's core: rounds to 0 %
BY_OTHERS = {MarkKind.LOST, MarkKind.UNREADABLE}  # the card says it in a sentence


def card(
    gpu: Gpu,
    marks: Sequence[Mark],
    place: int = PLACES,
    hour: Html | None = None,
    owner: str = "Container",
) -> Html:
    """The card of one GPU. One that is idle, without marks, is folded.

    ``place`` is its place by use, ``hour`` the charts of its last hour, if they are shown.
    ``owner`` is what its tenants are called.
    """
    facts = gpu.facts
    name = f"gpu-{facts.uuid}"
    order = f" o{place}" if place < PLACES else ""
    inside = _inside(gpu, hour, owner)
    if not marks and (is_divided(facts) or is_idle(gpu)):
        return _folded(gpu, order, inside, is_open=hour is not None)
    return h(
        "article",
        {
            "class": f"gpu{'' if facts.is_up else ' down'}{order}",
            "data-k": name,
            "aria-labelledby": name,
        },
        h(
            "header",
            None,
            h("h3", {"id": name}, card_name(facts)),
            h("span", {"class": "model"}, h("bdi", None, _model(facts))),
            h("ul", {"class": "facts"}, [h("li", None, fact) for fact in sensed(facts)]),
        ),
        _marks(marks),
        None if facts.is_up else _down(facts),
        inside,
    )


def _marks(marks: Iterable[Mark]) -> Html | None:
    """What is wrong with the device, each in a sentence."""
    said = [mark for mark in marks if mark.kind not in BY_OTHERS]
    listed = [h("li", None, marked([mark]), f" {mark.detail}") for mark in said]
    return h("ul", {"class": "marks", "data-k": "marks"}, listed) if listed else None


def _inside(gpu: Gpu, hour: Html | None, owner: str) -> list[Html | None]:
    facts = gpu.facts
    return [
        core(gpu) if facts.is_up else None,
        memory(gpu) if facts.is_up else None,
        _tenants(gpu, owner),
        h(
            "div",
            {"class": "below"},
            _more(facts),
            button(f"gpu-{facts.uuid}", card_name(facts), shown=hour is not None),
        ),
        hour,
    ]


def _folded(gpu: Gpu, order: str, inside: Sequence[Html | None], *, is_open: bool) -> Html:
    """The card of a GPU that is idle or divided: one line that opens to the rest."""
    facts = gpu.facts
    name = f"gpu-{facts.uuid}"
    holds = len({tenant.entry.key for tenant in gpu.tenants})
    used = facts.memory.used_bytes
    said = ["idle", many(holds, "tenant") if holds else "nothing runs on it"]
    if is_divided(facts):
        said = [*sensed(facts), "see its partitions"]
    elif used is not None:
        said.append(f"{held_of(used, facts.memory.total_bytes)} held")
    return h(
        "details",
        {"class": f"gpu idle{order}", "data-k": name, "open": is_open},
        h(
            "summary",
            None,
            h("h3", {"id": name}, card_name(facts)),
            h("span", {"class": "model"}, h("bdi", None, _model(facts))),
            h("span", {"class": "facts"}, " · ".join(said)),
        ),
        inside,
    )


def is_divided(facts: DeviceFacts) -> bool:
    """Whether only the device's partitions are measured."""
    return has_partitions(facts) and facts.is_up and facts.average.core is None


def has_partitions(facts: DeviceFacts) -> bool:
    """Whether the device is a board in MIG mode, or in partitions."""
    return facts.device.sharing in {MIG, PARTITIONED}


def is_idle(gpu: Gpu) -> bool:
    """Whether nothing was seen to work on the device now and in the last ten minutes."""
    used = gpu.facts.average.core
    return gpu.facts.is_up and used is not None and max(used, *_known(gpu.core_past), 0.0) < IDLE


def by_use(gpus: Iterable[Gpu]) -> dict[str, int]:
    """The place of each device by its mean use of the last ten minutes; unread ones come first."""

    def weight(gpu: Gpu) -> tuple[bool, float]:
        past = _known(gpu.core_past) or [gpu.facts.average.core or 0.0]
        return gpu.facts.is_up, -sum(past) / len(past)

    return {gpu.facts.uuid: place for place, gpu in enumerate(sorted(gpus, key=weight))}


def _known(past: Known) -> list[float]:
    return [value for value in past if value is not None]


def card_name(facts: DeviceFacts) -> str:
    """The name of a card: the board's index, with the partition's number if its UUID has one."""
    uuid, parent = facts.uuid, facts.device.parent_uuid
    part = uuid.removeprefix(parent) if parent else ""
    return f"GPU{NBSP}{facts.index}{part if len(part) < len(uuid) else ''}"


def _model(facts: DeviceFacts) -> str:
    return " ".join(filter(None, (facts.device.model, facts.device.profile)))


def sensed(facts: DeviceFacts) -> list[str]:
    """The device's temperature, power, clock and kind of sharing, as far as they are known."""
    made, sensors = [], facts.sensors
    heat, clocks = sensors.by_label("temperature_celsius"), sensors.by_label("clock_hertz")
    warmest = heat.get("gpu", heat.get("hotspot"))
    if warmest is not None:
        made.append(f"{warmest:.0f}{NBSP}°C")
    watts, limit = sensors.number("power_watts"), sensors.number("power_limit_watts")
    if watts is not None:
        of = f"{NBSP}/{NBSP}{limit:.0f}" if limit else ""
        made.append(f"{watts:.0f}{of}{NBSP}W")
    clock = clocks.get("sm", clocks.get("graphics"))
    if clock is not None:
        made.append(f"{clock / 1e9:.2f}{NBSP}GHz")
    sharing = facts.device.sharing
    return [*made, sharing.upper()] if sharing else made


def _down(facts: DeviceFacts) -> Html:
    reasons = facts.unmeasured.values()
    return h(
        "p",
        {"class": "problem"},
        h("strong", None, f"This GPU cannot be read: {', '.join(reasons) or 'no answer'}. "),
        " ".join(UNMEASURED[reason] for reason in reasons),
    )


def _tenants(gpu: Gpu, owner: str) -> Html | None:
    """The containers on the device: the first few, and the others on request."""
    unattributed = [_unattributed(part) for part in gpu.unattributed]
    rows = [_tenant(tenant) for tenant in gpu.tenants]
    first, others = rows[:TENANTS_SHOWN], rows[TENANTS_SHOWN:]
    if not rows and not unattributed:
        return _no_tenants(gpu.facts)
    rest = None
    if others:
        summary = h("summary", None, f"{len(others)} more")
        rest = h("details", {"class": "rest", "data-k": "rest"}, summary, _table(others, owner))
    return h("div", {"class": "who"}, _table([*first, *unattributed], owner), rest)


def _no_tenants(facts: DeviceFacts) -> Html | None:
    """Why there are none; None for a device that cannot be read, because nobody knows."""
    if not facts.is_up:
        return None
    text = "See the cards of its partitions." if has_partitions(facts) else "Nothing runs on it."
    return h("p", {"class": "quiet"}, text)


def _table(rows: Sequence[Html], owner: str) -> Html:
    head = h(
        "tr",
        None,
        h("th", {"scope": "col"}, owner),
        h("th", {"scope": "col", "class": "n"}, "Core"),
        h("th", {"scope": "col", "class": "n"}, "Memory"),
    )
    caption = h("caption", {"class": "sr"}, f"Use of this GPU by {owner.lower()}")
    return h("table", None, caption, h("thead", None, head), h("tbody", None, rows))


def _tenant(tenant: Tenant) -> Html:
    part = tenant.part
    return h(
        "tr",
        {"data-k": key_of(tenant.entry.key, part.name)},
        h(
            "th",
            {"scope": "row", "title": f"{tenant.name} {part.name}"},
            h(
                "div",
                {"class": "who-is"},
                swatch(tenant.colour),
                cut(shortened(tenant.entry.name)),
                marked(part.marks),
                h("bdi", {"class": "within"}, _within(tenant)),
            ),
        ),
        h("td", {"class": "n"}, core_of(part)),
        h("td", {"class": "n"}, memory_of(part)),
    )


def _within(tenant: Tenant) -> str:
    """The container and its namespace, once if they are equal."""
    names = (tenant.part.name, tenant.entry.space)
    return " · ".join(name for name in dict.fromkeys(names) if name)


def _unattributed(part: UnattributedEntry) -> Html:
    """A row of unattributed use. With it, the rows add up to the device."""
    return h(
        "tr",
        {"data-k": key_of("unattributed", part.reason)},
        h(
            "th",
            {"scope": "row"},
            swatch(None),
            "unattributed",
            h("span", {"class": "within"}, reason(OWNED, part.reason)),
        ),
        h("td", {"class": "n"}, percent(part.core)),
        h("td", {"class": "n"}, gibibytes(part.memory_bytes)),
    )


def _ways(methods: Methods) -> str:
    ways = {"busy": methods.busy, "shares": methods.shares, "energy": methods.energy}
    return ", ".join(f"{what} by {how}" for what, how in ways.items())


def _samples(facts: DeviceFacts) -> str | None:
    """How often the driver samples, and whether busy samples name a process."""
    naming, period = facts.sampling.labels
    often = "" if period == "none" else f"one every {period} s; "
    return None if naming == "none" else f"{often}name a process: {naming}"


def _more(facts: DeviceFacts) -> Html:
    device, average, sensors = facts.device, facts.average, facts.sensors
    reasons = (f"{quantity} ({why})" for quantity, why in facts.unmeasured.items())
    pairs = [
        ("UUID", facts.uuid),
        ("PCI bus", device.pci_bus_id),
        ("Part of", device.parent_uuid),
        ("Driver", device.driver_version),
        ("Memory traffic", _ratio(average.memory_active)),
        ("Encoder", _ratio(average.encoder)),
        ("Decoder", _ratio(average.decoder)),
        ("SMs active", _ratio(sensors.number("sm_active_ratio"))),
        ("Tensor cores", _ratio(sensors.number("tensor_active_ratio"))),
        ("Measured by", _ways(facts.methods) if facts.methods is not None else None),
        ("Samples", _samples(facts)),
        ("Not measured", ", ".join(reasons)),
    ]
    return h(
        "details",
        {"class": "more", "data-k": "more"},
        h("summary", None, "Details"),
        h(
            "dl",
            None,
            [[h("dt", None, k), h("dd", None, h("bdi", None, v))] for k, v in pairs if v],
        ),
    )


def _ratio(value: float | None) -> str | None:
    return None if value is None else percent(value)
