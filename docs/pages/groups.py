"""The table of batch systems' groups on off-kubernetes.md, from the patterns in the code."""

from collections.abc import Iterator
from itertools import groupby

from exporter.agent.sources.cgroups.batchpatterns import SHIPPED
from pages.tables import table

BEGIN = "<!-- by docs/generate.py, from exporter/agent/sources/cgroups/batchpatterns.py -->\n"
END = "<!-- end -->\n"


def off_kubernetes(page: str) -> str:
    """Return the page with the table of the patterns as it is in the code.

    Raises:
        ValueError: one of the two marks is not on the page.

    """
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        message = "off-kubernetes.md has lost the marks around its table of patterns"
        raise ValueError(message)
    rows = table(("`kind`", "system", "cgroup path", "`group`"), _rows())
    return f"{before}{BEGIN}\n{rows}\n{END}{after}"


def _rows() -> Iterator[tuple[str, ...]]:
    for system, shipped in groupby(SHIPPED, key=lambda each: each.system):
        patterns = [each.pattern for each in shipped]
        first, paths = patterns[0], ", ".join(f"`{each.path}`" for each in patterns)
        group = f"N/{first.group}" if first.is_users else first.group
        yield f"`{first.kind}`", system, paths, f"`{group}`"
