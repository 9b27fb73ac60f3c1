"""The card of a GPU: its state, its gauges, and the containers on it."""

from collections.abc import Sequence

from exporter.rows.alerts import card_name as named_card
from exporter.web.page.cells import core_of, memory_of, mismatch, swatch
from exporter.web.page.charts import button
from exporter.web.page.entries import Json, Series, key_of, series_of, shortened
from exporter.web.page.gauges import Tenant, core, memory
from exporter.web.page.glossary import OWNED, reason
from exporter.web.page.html import NBSP, Html, cut, gibibytes, h, held_of, many, percent

TENANTS_SHOWN = 5
PLACES = 24  # by use, on a narrow screen; page.css has a class for each
IDLE = 0.005  # of one GPU's core: rounds to 0 %
PARTITIONED = ("mig", "partitioned")


def card(
    device: Json,
    tenants: Sequence[Tenant],
    series: Series,
    words: Json,
    place: int = PLACES,
    hour: Html | None = None,
    owner: str = "Container",
) -> Html:
    """The card of one GPU. One that is idle is folded.

    ``place`` is its place by use, ``hour`` the charts of its last hour, if they are shown.
    ``owner`` is what its tenants are called.
    """
    name = f"gpu-{device['uuid']}"
    up = device.get("up", False)
    order = f" o{place}" if place < PLACES else ""
    if is_divided(device) or is_idle(device, series):
        inside = _inside(device, tenants, series, words, hour, owner)
        return _folded(device, tenants, order, inside, is_open=hour is not None)
    return h(
        "article",
        {
            "class": f"gpu{'' if up else ' down'}{order}",
            "data-k": name,
            "aria-labelledby": name,
        },
        h(
            "header",
            None,
            h("h3", {"id": name}, card_name(device)),
            h("span", {"class": "model"}, h("bdi", None, _model(device))),
            h("ul", {"class": "facts"}, [h("li", None, fact) for fact in facts(device)]),
        ),
        None if up else _down(device, words),
        _inside(device, tenants, series, words, hour, owner),
    )


def _inside(
    device: Json,
    tenants: Sequence[Tenant],
    series: Series,
    words: Json,
    hour: Html | None,
    owner: str,
) -> list[Html | None]:
    up = device.get("up", False)
    return [
        core(device, tenants, series) if up else None,
        memory(device, tenants, series) if up else None,
        _tenants(device, tenants, words, owner),
        h(
            "div",
            {"class": "below"},
            _more(device),
            button(f"gpu-{device['uuid']}", card_name(device), shown=hour is not None),
        ),
        hour,
    ]


def _folded(
    device: Json,
    tenants: Sequence[Tenant],
    order: str,
    inside: Sequence[Html | None],
    *,
    is_open: bool,
) -> Html:
    """The card of a GPU that is idle or divided: one line that opens to the rest."""
    name = f"gpu-{device['uuid']}"
    holds = len({tenant.entry.key for tenant in tenants})
    used = device.get("memory_used_bytes")
    said = ["idle", many(holds, "tenant") if holds else "nothing runs on it"]
    if is_divided(device):
        said = [*facts(device), "see its partitions"]
    elif used is not None:
        said.append(f"{held_of(used, device.get('memory_total_bytes'))} held")
    return h(
        "details",
        {"class": f"gpu idle{order}", "data-k": name, "open": is_open},
        h(
            "summary",
            None,
            h("h3", {"id": name}, card_name(device)),
            h("span", {"class": "model"}, h("bdi", None, _model(device))),
            h("span", {"class": "facts"}, " · ".join(said)),
        ),
        inside,
    )


def is_divided(device: Json) -> bool:
    """Whether only the device's partitions are measured."""
    divided = device.get("info", {}).get("sharing") in PARTITIONED
    return divided and bool(device.get("up")) and "utilization_ratio" not in device


def is_idle(device: Json, series: Series) -> bool:
    """Whether nothing was seen to work on the device now and in the last ten minutes."""
    used = device.get("utilization_ratio")
    past = _past(device, series)
    return bool(device.get("up")) and used is not None and max(used, *past, 0.0) < IDLE


def by_use(devices: Sequence[Json], series: Series) -> dict[str, int]:
    """The place of each device by its mean use of the last ten minutes; unread ones come first."""

    def weight(device: Json) -> tuple[bool, float]:
        past = _past(device, series) or [device.get("utilization_ratio") or 0.0]
        return bool(device.get("up")), -sum(past) / len(past)

    return {device["uuid"]: place for place, device in enumerate(sorted(devices, key=weight))}


def _past(device: Json, series: Series) -> list[float]:
    """The device's known core use of the last ten minutes."""
    own = series.get(series_of(device), {})
    return [value for value in own.get("core_utilization_ratio", ()) if value is not None]


def card_name(device: Json) -> str:
    """The name of a card: the board's index, with the partition's number if its UUID has one."""
    parent = device.get("info", {}).get("parent_uuid")
    return named_card(str(device["index"]), device["uuid"], parent or "")


def _model(device: Json) -> str:
    info = device.get("info", {})
    return " ".join(filter(None, (info.get("model", ""), info.get("profile", ""))))


def facts(device: Json) -> list[str]:
    """The device's temperature, power, clock and kind of sharing, as far as they are known."""
    made = []
    heat = {each["sensor"]: each["value"] for each in device.get("temperature_celsius", ())}
    warmest = heat.get("gpu", heat.get("hotspot"))
    if warmest is not None:
        made.append(f"{warmest:.0f}{NBSP}°C")
    if "power_watts" in device:
        limit = device.get("power_limit_watts")
        of = f"{NBSP}/{NBSP}{limit:.0f}" if limit else ""
        made.append(f"{device['power_watts']:.0f}{of}{NBSP}W")
    clocks = {each["clock"]: each["value"] for each in device.get("clock_hertz", ())}
    clock = clocks.get("sm", clocks.get("graphics"))
    if clock is not None:
        made.append(f"{clock / 1e9:.2f}{NBSP}GHz")
    sharing = device.get("info", {}).get("sharing")
    return [*made, sharing.upper()] if sharing else made


def _down(device: Json, words: Json) -> Html:
    reasons = [each["reason"] for each in device.get("unmeasured", ())]
    advice = [words["unmeasured"].get(reason, "") for reason in reasons]
    return h(
        "p",
        {"class": "problem"},
        h("strong", None, f"This GPU cannot be read: {', '.join(reasons) or 'no answer'}. "),
        " ".join(advice),
    )


def _tenants(device: Json, tenants: Sequence[Tenant], words: Json, owner: str) -> Html | None:
    """The containers on the device: the first few, and the others on request."""
    unattributed = [_unattributed(part) for part in device["unattributed"]]
    rows = [_tenant(tenant, words) for tenant in tenants]
    first, others = rows[:TENANTS_SHOWN], rows[TENANTS_SHOWN:]
    if not rows and not unattributed:
        return _no_tenants(device)
    rest = None
    if others:
        summary = h("summary", None, f"{len(others)} more")
        rest = h("details", {"class": "rest", "data-k": "rest"}, summary, _table(others, owner))
    return h("div", {"class": "who"}, _table([*first, *unattributed], owner), rest)


def _no_tenants(device: Json) -> Html | None:
    """Why there are none; None for a device that cannot be read, because nobody knows."""
    if not device.get("up", False):
        return None
    partitioned = device.get("info", {}).get("sharing") in PARTITIONED
    text = "See the cards of its partitions." if partitioned else "Nothing runs on it."
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


def _tenant(tenant: Tenant, words: Json) -> Html:
    figures = tenant.part.figures
    return h(
        "tr",
        {"data-k": key_of(tenant.entry.key, tenant.part.name)},
        h(
            "th",
            {"scope": "row", "title": f"{tenant.name} {tenant.part.name}"},
            h(
                "div",
                {"class": "who-is"},
                swatch(tenant.colour),
                cut(shortened(tenant.entry.name)),
                mismatch(figures),
                h("bdi", {"class": "within"}, _within(tenant)),
            ),
        ),
        h("td", {"class": "n"}, core_of(figures, words)),
        h("td", {"class": "n"}, memory_of(figures, words)),
    )


def _within(tenant: Tenant) -> str:
    """The container and its namespace, once if they are equal."""
    names = (tenant.part.name, tenant.entry.space)
    return " · ".join(name for name in dict.fromkeys(names) if name)


def _unattributed(part: Json) -> Html:
    """A row of unattributed use. With it, the rows add up to the device."""
    core, held = part.get("core_utilization_ratio"), part.get("memory_used_bytes")
    return h(
        "tr",
        {"data-k": key_of("unattributed", part["reason"])},
        h(
            "th",
            {"scope": "row"},
            swatch(None),
            "unattributed",
            h("span", {"class": "within"}, reason(OWNED, part["reason"])),
        ),
        h("td", {"class": "n"}, percent(core)),
        h("td", {"class": "n"}, gibibytes(held)),
    )


def _ways(method: Json) -> Json:
    return {what: method[what] for what in ("busy", "shares", "energy") if what in method}


def _samples(method: Json) -> str | None:
    """How often the driver samples, and whether busy samples name a process."""
    period, naming = method.get("period", "none"), method.get("naming", "none")
    often = "" if period == "none" else f"one every {period} s; "
    return None if naming == "none" else f"{often}name a process: {naming}"


def _more(device: Json) -> Html:
    info = device.get("info", {})
    method = device.get("method_info", {})
    pairs = [
        ("UUID", device["uuid"]),
        ("PCI bus", info.get("pci_bus_id")),
        ("Part of", info.get("parent_uuid")),
        ("Driver", info.get("driver_version")),
        ("Memory traffic", _ratio(device, "memory_active_ratio")),
        ("Encoder", _ratio(device, "encoder_utilization_ratio")),
        ("Decoder", _ratio(device, "decoder_utilization_ratio")),
        ("SMs active", _ratio(device, "sm_active_ratio")),
        ("Tensor cores", _ratio(device, "tensor_active_ratio")),
        ("Measured by", ", ".join(f"{what} by {how}" for what, how in _ways(method).items())),
        ("Samples", _samples(method)),
        (
            "Not measured",
            ", ".join(f"{e['quantity']} ({e['reason']})" for e in device.get("unmeasured", ())),
        ),
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


def _ratio(device: Json, name: str) -> str | None:
    return percent(device[name]) if name in device else None
