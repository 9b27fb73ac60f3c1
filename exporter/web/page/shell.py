"""The document around the figures: head, title, filter, footer."""

from exporter.web.page.choice import SORTS, Choice
from exporter.web.page.entries import Json
from exporter.web.page.html import Html, h
from exporter.web.page.whole import main
from exporter.web.page.words import NBSP, age, fixed

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


def page(document: Json, history: Json, choice: Choice, metrics_path: str) -> str:
    """The page of these documents. Links are relative, so that a proxy may put it anywhere."""
    node = document["node"] or ("Simulated node" if document["simulated"] else "This node")
    head = h(
        "head",
        None,
        h("meta", {"charset": "utf-8"}),
        h("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        h("meta", {"name": "color-scheme", "content": "light dark"}),
        h("title", None, f"{node} · mgpu-exporter"),
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
        _header(node, document, choice),
        h("main", {"id": "main", "tabindex": "-1"}, main(document, history, choice)),
        _footer(document, metrics_path),
    )
    return f"<!doctype html>\n{h('html', {'lang': 'en'}, head, body)}\n"


def _header(node: str, document: Json, choice: Choice) -> Html:
    return h(
        "header",
        {"class": "top"},
        h(
            "div",
            {"class": "title"},
            h("h1", None, h("bdi", None, node)),
            h("p", {"id": "age", "class": "quiet"}, freshness(document)),
        ),
        h(
            "form",
            {"role": "search", "method": "get", "action": "./", "id": "choice"},
            h(
                "input",
                {
                    "type": "search",
                    "name": "q",
                    "value": choice.text,
                    "placeholder": "Filter: pod, process, gpu0 …",
                    "aria-label": "Filter by pod, container, process or GPU",
                    "autocomplete": "off",
                    "maxlength": "200",
                },
            ),
            h(
                "select",
                {"name": "sort", "aria-label": "Sort pods by"},
                [
                    h("option", {"value": name, "selected": name == choice.sort}, words)
                    for name, words in SORTS.items()
                ],
            ),
            h("input", {"type": "hidden", "name": "all", "value": "1"}) if choice.all else None,
            h("button", {"type": "submit"}, "Show"),
        ),
    )


def freshness(document: Json) -> str:
    """How old the figures are."""
    snapshot = document["snapshot"]
    if not snapshot["number"]:
        return "The first collection cycle is not done yet."
    if snapshot["stale"]:
        return f"Nothing was measured for {age(snapshot['age_seconds'])}."
    exporter = document.get("exporter", {})
    if "cpu_budget_ratio" not in exporter:
        return f"Measured {age(snapshot['age_seconds'])} ago"
    seconds = fixed(exporter["collection_interval_seconds"], 1)
    return f"Measured {age(snapshot['age_seconds'])} ago, every {seconds}{NBSP}s"


def _hatch() -> Html:
    """The pattern of what nobody is named for."""
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
            f"Use is averaged over {fixed(window, 0)}{NBSP}s; 100{NBSP}% is one whole GPU. "
            "Hatched: used by nobody who can be named. The thin line below a bar: allotted.",
        ),
        h(
            "nav",
            {"aria-label": "Other views"},
            h("ul", None, [h("li", None, h("a", {"href": to}, name)) for name, to in links]),
        ),
        h("p", {"class": "quiet"}, f"mgpu-exporter {version}"),
    )
