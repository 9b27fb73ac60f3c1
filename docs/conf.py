"""How ``make docs-site`` builds these pages. A link that leads nowhere fails it."""

project = "mgpu-exporter"
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
