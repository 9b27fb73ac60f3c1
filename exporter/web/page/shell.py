"""The document around the figures: head, title, filter and footer."""

from exporter.web.page.choice import SORTS, Choice
from exporter.web.page.html import NBSP, Child, Html, age, h
from exporter.web.page.node import Node

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


def around(main: Child, node: Node, choice: Choice, age_s: float, metrics_path: str) -> str:
    """The whole document. Links are relative, so that a proxy may serve it under any path."""
    name = node.name or ("Simulated node" if node.simulated else "This node")
    head = h(
        "head",
        None,
        h("meta", {"charset": "utf-8"}),
        h("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        h("meta", {"name": "color-scheme", "content": "light dark"}),
        h("title", None, f"{'(!) ' if node.is_alarming else ''}{name} · mgpu-exporter"),
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
        _header(name, node, choice, age_s),
        _lost(),
        h("main", {"id": "main", "tabindex": "-1"}, main),
        _footer(node, metrics_path),
    )
    html = {"lang": "en", "data-version": node.version}
    return f"<!doctype html>\n{h('html', html, head, body)}\n"


def _header(name: str, node: Node, choice: Choice, age_s: float) -> Html:
    return h(
        "header",
        {"class": "top"},
        h(
            "div",
            {"class": "title"},
            h("h1", None, h("bdi", None, name)),
            _freshness(node, age_s),
        ),
        _search(choice, "job, unit, user" if node.is_off_kubernetes else "pod, owner"),
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


def _freshness(node: Node, age_s: float) -> Html:
    """The age of the figures. The script counts ``.since`` up from ``data-age``."""
    stale = node.is_stale
    since = h("span", {"class": "since"}, age(age_s))
    text: list[str]
    if not node.number:
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


def _footer(node: Node, metrics_path: str) -> Html:
    links = (
        ("Metrics", metrics_path.lstrip("/")),
        ("JSON", "api/v1/snapshot"),
        ("Schema", "api/v1/schema"),
        ("Health", "-/healthy"),
    )
    window = node.window_ns / 1e9
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
        h("p", {"class": "quiet"}, f"mgpu-exporter {node.version}"),
    )
