"""How ``make docs-site`` builds these pages. A link that leads nowhere fails it."""

import re
from pathlib import Path

from sphinx.application import Sphinx

project = "mgpu-exporter"
repository = "https://github.com/mgpu-exporter/mgpu-exporter/blob/main/"
author = "The mgpu-exporter authors"
project_copyright = author

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_site"]
nitpicky = True

myst_heading_anchors = 4  # as GitHub makes them, for links such as page.md#a-heading
myst_enable_extensions = ["colon_fence"]

html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sourcelink = False


def outward(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let links to files beside docs/ lead to the repository; what is not there stays an error."""
    folder = Path(app.srcdir, docname).parent
    root = Path(app.srcdir).parent

    def lead(link: re.Match[str]) -> str:
        path = (folder / link[1]).resolve()
        if path.is_relative_to(app.srcdir) or not path.exists():
            return link[0]
        return f"]({repository}{path.relative_to(root)}"

    source[0] = re.sub(r"\]\((\.\./[^)#]+)", lead, source[0])


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", outward)
