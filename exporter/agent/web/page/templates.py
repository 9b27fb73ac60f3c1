"""The page's text from its values, by the templates in ``templates/``.

Text becomes markup there only. Jinja escapes all of it, and ``text.seen`` marks what is unseen. In
a template the end of a line is nothing, with the spaces around it, because a browser shows them.
"""

import re

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.ext import Extension

from exporter.agent.web.page.text import seen, shortened
from exporter.shown.words import NBSP, age, memory, page_plural, percent


class _Joined(Extension):
    """Joins the lines of a template."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        del name, filename
        return re.sub(r"\s*\n\s*", "", source)


_TEMPLATES = Environment(
    loader=PackageLoader("exporter.agent.web.page"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=seen,
    auto_reload=False,
    extensions=[_Joined],
)
_TEMPLATES.filters |= {
    "age": age,
    "memory": memory,
    "percent": percent,
    "plural": page_plural,
    "shortened": shortened,
}
_TEMPLATES.globals["nbsp"] = NBSP


def written(name: str, **values: object) -> str:
    """The text of a template with these values."""
    return _TEMPLATES.get_template(f"{name}.html").render(values)
