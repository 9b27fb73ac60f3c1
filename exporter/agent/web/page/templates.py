"""The page's text from its values, by the templates in ``templates/``.

Text becomes markup there only. Jinja escapes all of it, and ``seen`` marks what is unseen. In
a template the end of a line is nothing, with the spaces around it, because a browser shows them.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from exporter.shown.words import NBSP, age, memory, page_plural, percent

if TYPE_CHECKING:
    from jinja2 import Environment

# Control characters, characters that have no width or change the direction of text, and lone halves
# of surrogate pairs, which UTF-8 cannot encode. Each is shown as a mark.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
LONG_ID = re.compile("[0-9a-f]{64}")


def seen(value: object) -> object:
    """A value as a template writes it: nothing for None, a mark for each unseen character."""
    if value is None:
        return ""
    if type(value) is str and not value.isprintable():
        return UNSEEN.sub("\ufffd", value)
    return value


def shortened(name: str) -> str:
    """A name with its long ids cut to the length that container runtimes show."""
    return LONG_ID.sub(lambda found: found[0][:12], name)


@cache
def _templates() -> "Environment":
    """All templates. On most nodes nobody ever opens a page, and Jinja takes 4 MiB."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - see above
    from jinja2.ext import Extension  # noqa: PLC0415

    class Joined(Extension):
        """Joins the lines of a template."""

        def preprocess(self, source: str, *_: object, **__: object) -> str:
            return re.sub(r"\s*\n\s*", "", source)

    templates = Environment(
        loader=PackageLoader("exporter.agent.web.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=seen,
        auto_reload=False,
        extensions=[Joined],
    )
    templates.filters |= {
        "age": age,
        "memory": memory,
        "percent": percent,
        "plural": page_plural,
        "shortened": shortened,
    }
    templates.globals["nbsp"] = NBSP
    return templates


def written(name: str, **values: object) -> str:
    """The text of a template with these values."""
    return _templates().get_template(f"{name}.html").render(values)
