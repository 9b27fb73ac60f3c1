"""The picture on docs/accuracy.md: errors of up to four readers by scenario, from the results."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.accuracy.summary import READERS, mean

RULES = ("last", "random")  # that fit recorded boards; the first that the table has
TABLE = "### Busy seconds over 20 min"
MOST = 60.0  # percent at the right edge; a longer bar is cut and has its number
LEFT, RIGHT, WIDTH, BAR, GAP, TOP = 150, 60, 760, 9, 12, 64
SCHEMES = {  # background, text, grid, and a colour for each reader
    "light": ("#ffffff", "#1f2328", "#d0d7de", ("#0969da", "#1a7f37", "#bf8700", "#cf222e")),
    "dark": ("#0d1117", "#e6edf3", "#30363d", ("#58a6ff", "#3fb950", "#d29922", "#f85149")),
}

Means = Mapping[str, Mapping[str, float]]


def means(results: str) -> tuple[str, Means]:
    """The rule, and by scenario the mean error of each reader in percent.

    Raises:
        ValueError: the results have no such table.

    """
    _, found, rest = results.partition(TABLE)
    lines = [line for line in rest.split("\n###")[0].splitlines() if line.startswith("|")]
    if not found or not lines:
        raise ValueError(f"the results have no {TABLE}")
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    rule = next(rule for rule in RULES if any(row[1] == rule for row in rows))
    places = {reader: heads.index(reader) for reader in READERS if reader in heads}
    return rule, {
        row[0]: {reader: mean(row[place]) for reader, place in places.items()}
        for row in rows
        if row[1] == rule and not row[0].startswith("**")
    }


def picture(rule: str, of: Means, scheme: str) -> str:
    """The SVG."""
    ground, ink, grid, colours = SCHEMES[scheme]
    readers = list(next(iter(of.values())))
    row = len(readers) * BAR + GAP
    height = TOP + len(of) * row + 24
    scale = (WIDTH - LEFT - RIGHT) / MOST
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" role="img">'
        ),
        f"<title>Mean error of a container's busy seconds over 20 min, rule {rule}</title>",
        f'<rect width="100%" height="100%" fill="{ground}"/>',
        (
            f'<text x="10" y="20" fill="{ink}" font-size="14">Mean error of a container\'s busy '
            f"seconds over 20 min, simulated, rule {rule}</text>"
        ),
    ]
    for number, (reader, colour) in enumerate(zip(readers, colours, strict=False)):
        place = LEFT + number * 145
        parts.append(f'<rect x="{place}" y="32" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{place + 15}" y="41" fill="{ink}">{reader}</text>')
    for percent in range(0, int(MOST) + 1, 10):
        line = LEFT + percent * scale
        parts.append(
            f'<path d="M{line:.1f} {TOP - 8}V{height - 20}" stroke="{grid}"/>'
            f'<text x="{line:.1f}" y="{height - 6}" fill="{ink}" text-anchor="middle">{percent} %'
            "</text>"
        )
    for place, (scenario, errors) in enumerate(of.items()):
        y = TOP + place * row
        middle = y + len(readers) * BAR / 2 + 4
        parts.append(
            f'<text x="{LEFT - 8}" y="{middle}" fill="{ink}" text-anchor="end">{scenario}</text>'
        )
        for number, (error, colour) in enumerate(zip(errors.values(), colours, strict=False)):
            end = min(error, MOST) * scale
            top = y + number * BAR
            parts.append(
                f'<rect x="{LEFT}" y="{top}" width="{end:.1f}" height="{BAR - 1}" '
                f'fill="{colour}"/>'
                f'<text x="{LEFT + end + 4:.1f}" y="{top + 8}" fill="{ink}" font-size="9">'
                f"{error:.1f}</text>"
            )
    return "\n".join([*parts, "</svg>", ""])


def draw(results: str, folder: Path) -> None:
    """Write the pictures into the folder, light and dark, from the tables of the results."""
    rule, of = means(results)
    for scheme in SCHEMES:
        path = folder / f"accuracy-{scheme}.svg"
        path.write_text(picture(rule, of, scheme), encoding="utf-8")
