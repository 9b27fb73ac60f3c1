"""The files of presets, and the tables about platforms in docs/installation.md."""

import textwrap

import yaml

from charts.table.labels import LABELS
from charts.table.presets import PRESETS, Preset

WIDTH = 100
BEGIN = "<!-- {}: written by charts/generate.py -->"
END = "<!-- end of {} -->"


def text(preset: Preset) -> str:
    """The values file of a preset."""
    # What is a link in the page is a name in a file.
    why = preset.why.replace("**", "").replace("[device files](#amd-and-intel)", "device files")
    why = why.replace("[security](security.md#kubernetes-own-access-control)", "docs/security.md")
    lines = [
        f"{preset.title}. Written by charts/generate.py from charts/table: do not edit.",
        f"{why} See docs/installation.md. Source: {preset.source}.",
    ]
    comment = "".join(
        f"{line}\n"
        for one in lines
        for line in textwrap.wrap(one, WIDTH, initial_indent="# ", subsequent_indent="# ")
    )
    values = yaml.dump(preset.values, Dumper=_Plain, sort_keys=False, allow_unicode=True)
    return comment + values


class _Plain(yaml.SafeDumper):
    """Writes what is there twice twice, without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """Always."""
        del data
        return True


def with_tables(page: str) -> str:
    """The page with its tables of presets and of node labels replaced."""
    for name, table in (("presets", _presets()), ("node labels", _labels())):
        begin, end = BEGIN.format(name), END.format(name)
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        page = f"{head}{begin}\n\n{table}\n{end}{tail}"
    return page


def _presets() -> str:
    rows = (f"| {p.title} | `{p.name}` | {p.why} |\n" for p in PRESETS)
    return "| platform | preset | why |\n|---|---|---|\n" + "".join(rows)


def _labels() -> str:
    rows = (
        f"| {one.whose} | {', '.join(f'`{label}`' for label in one.shown)} |\n" for one in LABELS
    )
    return "| whose | labels |\n|---|---|\n" + "".join(rows)
