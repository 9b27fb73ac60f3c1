"""The document around the figures: head, title, filter and footer."""

from exporter.api.kinds import is_without_pods
from exporter.web.page.choice import SORTS, Choice
from exporter.web.page.entries import Json
from exporter.web.page.html import NBSP, Child, Html, age, h

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


def around(main: Child, document: Json, choice: Choice, age_s: float, metrics_path: str) -> str:
    """The whole document. Links are relative, so that a proxy may serve it under any path."""
    node = document["node"] or ("Simulated node" if document["simulated"] else "This node")
    head = h(
        "head",
        None,
        h("meta", {"charset": "utf-8"}),
        h("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        h("meta", {"name": "color-scheme", "content": "light dark"}),
        h("title", None, f"{'(!) ' if alarming(document) else ''}{node} · mgpu-exporter"),
        h("link", {"rel": "icon", "href": "static/icon.svg", "type": "image/svg+xml"}),
        h("link", {"rel": "stylesheet", "href": "static/page.css"}),
        h("script", {"src": "static/page.js", "type": "module"}),
        h("noscript", None, h("meta", {"http-equiv": "refresh", "content": "5"})),
    )
    body = h(
        "body",
        None,
        h("a", {"class": "skip", "href": "#main"}, "Skip to the figures"),
        _hatch(),
        _header(node, document, choice, age_s),
        _lost(),
        h("main", {"id": "main", "tabindex": "-1"}, main),
        _footer(document, metrics_path),
    )
    html = {"lang": "en", "data-version": document.get("exporter", {}).get("version")}
    return f"<!doctype html>\n{h('html', html, head, body)}\n"


def unread(document: Json) -> list[Json]:
    """The devices that cannot be read."""
    return [device for device in document["devices"] if not device.get("up")]


def alarming(document: Json) -> bool:
    """Whether something is wrong that the tab's title shows. A GPU released on request is not."""
    reasons = ({of["reason"] for of in each.get("unmeasured", ())} for each in unread(document))
    return document["snapshot"]["stale"] or any(each != {"released"} for each in reasons)


def _header(node: str, document: Json, choice: Choice, age_s: float) -> Html:
    return h(
        "header",
        {"class": "top"},
        h(
            "div",
            {"class": "title"},
            h("h1", None, h("bdi", None, node)),
            _freshness(document, age_s),
        ),
        _search(choice, "job, unit, user" if is_without_pods(document) else "pod, owner"),
    )


def _search(choice: Choice, owner: str) -> Html:
    """The form that filters and sorts; ``owner`` names what owns use on this node."""
    options = [
        h("option", {"value": name, "selected": name == choice.sort}, words)
        for name, words in SORTS.items()
    ]
    return h(
        "form",
        {"role": "search", "method": "get", "action": "./", "id": "choice"},
        h(
            "input",
            {
                "type": "search",
                "name": "q",
                "value": choice.text,
                "placeholder": f"Filter: {owner}, model, gpu0 …",
                "aria-label": "Filter by pod, owner, sharing system, process, GPU or model",
                "autocomplete": "off",
                "maxlength": "200",
            },
        ),
        h("select", {"name": "sort", "aria-label": "Sort by"}, options),
        h("input", {"type": "hidden", "name": "all", "value": "1"}) if choice.all else None,
        h("input", {"type": "hidden", "name": "hour", "value": choice.hour})
        if choice.hour
        else None,
        h("button", {"type": "submit"}, "Show"),
    )


def _freshness(document: Json, age_s: float) -> Html:
    """The age of the figures. The script counts ``.since`` up from ``data-age``."""
    stale = document["snapshot"]["stale"]
    since = h("span", {"class": "since"}, age(age_s))
    text: list[str]
    if not document["snapshot"]["number"]:
        text = ["The first collection cycle is not done yet."]
    elif stale:
        text = ["Nothing was measured for ", since, "."]
    else:
        text = ["Measured ", since, " ago"]
    look = "quiet lost" if stale else "quiet"
    return h("p", {"id": "age", "class": look, "data-age": f"{age_s:.3f}"}, text)


def _lost() -> Html:
    """The banner that the script shows when the exporter does not answer."""
    text = "The exporter does not answer. The figures below are old."
    return h("p", {"id": "lost", "class": "banner bad", "role": "alert", "hidden": True}, text)


def _hatch() -> Html:
    """The pattern of unattributed use."""
    return h(
        "svg",
        {"class": "defs", "width": "0", "height": "0", "aria-hidden": "true"},
        h(
            "defs",
            None,
            h(
                "pattern",
                {
                    "id": "hatch",
                    "width": "5",
                    "height": "5",
                    "patternUnits": "userSpaceOnUse",
                    "patternTransform": "rotate(45)",
                },
                h("rect", {"class": "hatch-ground", "width": "5", "height": "5"}),
                h("rect", {"class": "hatch-line", "width": "2", "height": "5"}),
            ),
        ),
    )


def _footer(document: Json, metrics_path: str) -> Html:
    links = (
        ("Metrics", metrics_path.lstrip("/")),
        ("JSON", "api/v1/snapshot"),
        ("Schema", "api/v1/schema"),
        ("Health", "-/healthy"),
    )
    version = document.get("exporter", {}).get("version", "")
    window = document["snapshot"]["window_seconds"]
    return h(
        "footer",
        None,
        h(
            "p",
            None,
            f"Use is averaged over {window:.0f}{NBSP}s; 100{NBSP}% is one whole GPU.",
        ),
        h(
            "nav",
            {"aria-label": "Other views"},
            h("ul", None, [h("li", None, h("a", {"href": to}, name)) for name, to in links]),
        ),
        h("p", {"class": "quiet"}, f"mgpu-exporter {version}"),
    )
