"""The part of security.md that says what a tenant can forge of an allocation."""

from exporter.agent.allocations.registry import SCHEMES
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import Evidence
from pages.tables import table

BEGIN = (
    "<!-- From here to the end mark: written by docs/generate.py from "
    "exporter/agent/allocations. -->\n"
)
END = "<!-- end -->\n"


def security(page: str) -> str:
    """Return the page with the table of the sharing systems as it is in the code.

    Raises:
        ValueError: one of the two marks is not on the page.

    """
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        message = "security.md has lost the marks around its table of sharing systems"
        raise ValueError(message)
    heads = ("a tenant can change", "amounts come from", "the device comes from", "systems")
    return f"{before}{BEGIN}\n{table(heads, _rows())}\n{END}{after}"


def _rows() -> list[tuple[str, ...]]:
    """One row for all schemes of which the same can be said, those that leave least open first."""
    names: dict[tuple[str, ...], list[str]] = {}
    for scheme in sorted(SCHEMES, key=lambda scheme: len(_forgeable(scheme))):
        names.setdefault(_cells(scheme), []).append(f"[`{scheme.name}`](sharing.md#{scheme.name})")
    return [(*cells, ", ".join(these)) for cells, these in names.items()]


def _cells(scheme: Scheme) -> tuple[str, ...]:
    return (
        " and ".join(_forgeable(scheme)) or "nothing",
        ", else ".join(scheme.amounts),
        ", else ".join(scheme.placement) or "it is not named",
    )


def _forgeable(scheme: Scheme) -> list[str]:
    found = []
    if scheme.amounts[0] is Evidence.ANNOTATION:
        found.append("the amounts")
    elif Evidence.ANNOTATION in scheme.amounts:
        found.append("amounts that the limits leave open")
    if Evidence.ANNOTATION in scheme.placement:
        found.append("the device")
    return found
