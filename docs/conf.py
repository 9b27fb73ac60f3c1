"""How ``make docs-site`` builds these pages. A link or picture that leads nowhere fails it."""

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

project = "mgpu-exporter"
repository = "https://github.com/mgpu-exporter/mgpu-exporter/blob/main/"
author = "The mgpu-exporter authors"
project_copyright = author

# Pygments' PromQL knows no recorded series: there is a colon in their names.
suppress_warnings = ["misc.highlighting_failure"]
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


def check_pictures(app: Sphinx, docname: str, source: list[str]) -> None:
    """Warn, which fails the build, of a picture in HTML that is not there; Sphinx does not look."""
    folder = Path(app.srcdir, docname).parent
    for name in re.findall(r'\bsrc(?:set)?="([^":]+)"', source[0]):
        if not (folder / name).is_file():
            logging.getLogger(__name__).warning("no such picture: %s", name, location=docname)


def copy_pictures(app: Sphinx, failure: Exception | None) -> None:
    """Copy all pictures, because Sphinx does not copy those that pages name in HTML."""
    if failure is None and app.builder.format == "html":
        pictures = "pictures"
        shutil.copytree(Path(app.srcdir, pictures), Path(app.outdir, pictures), dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", outward)
    app.connect("source-read", check_pictures)
    app.connect("build-finished", copy_pictures)
