"""Parts of the drawn pictures: colours of the light and dark scheme, boxes, arrows, text."""

from collections.abc import Iterable
from html import escape
from typing import NamedTuple


class Colours(NamedTuple):
    """The colours of one scheme."""

    ground: str
    ink: str
    faint: str
    line: str
    outside: str
    inside: str
    accent: str
    bars: tuple[str, ...]


SCHEMES = {
    "light": Colours(
        "#ffffff",
        "#1f2328",
        "#59636e",
        "#8c959f",
        "#f6f8fa",
        "#ddf4ff",
        "#0969da",
        ("#0969da", "#bf8700", "#6e7781"),
    ),
    "dark": Colours(
        "#0d1117",
        "#e6edf3",
        "#9198a1",
        "#656c76",
        "#161b22",
        "#0c2d4d",
        "#58a6ff",
        ("#58a6ff", "#d29922", "#9198a1"),
    ),
}


def svg(width: int, height: int, title: str, parts: Iterable[str], colours: Colours) -> str:
    """Return a whole picture on the scheme's ground."""
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colours.line}"/>'
        "</marker></defs>"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" role="img">'
    )
    ground = f'<rect width="100%" height="100%" fill="{colours.ground}"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", arrow, ground, *parts, "</svg>", ""])


def text(at: tuple[float, float], words: str, colour: str, style: str = "") -> str:
    """Return one line of text; ``style`` holds further attributes."""
    x, y = at
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}" {style}>{escape(words)}</text>'


class Box(NamedTuple):
    """A box with a bold first line and plain further ones."""

    x: int
    y: int
    width: int
    height: int
    lines: tuple[str, ...]
    outside: bool = False

    @property
    def left(self) -> tuple[int, int]:
        """The middle of the left side."""
        return self.x, self.y + self.height // 2

    @property
    def right(self) -> tuple[int, int]:
        """The middle of the right side."""
        return self.x + self.width, self.y + self.height // 2

    @property
    def top(self) -> tuple[int, int]:
        """The middle of the upper side."""
        return self.x + self.width // 2, self.y

    @property
    def bottom(self) -> tuple[int, int]:
        """The middle of the lower side."""
        return self.x + self.width // 2, self.y + self.height

    def draw(self, colours: Colours) -> str:
        """Return the box and its words."""
        fill = colours.outside if self.outside else colours.inside
        edge = colours.line if self.outside else colours.accent
        shape = (
            f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="6" '
            f'fill="{fill}" stroke="{edge}"/>'
        )
        first = self.y + (self.height - 17 * (len(self.lines) - 1)) / 2 + 4
        middle = self.x + self.width / 2
        words = [
            text(
                (middle, first + 17 * number),
                line,
                colours.faint if number else colours.ink,
                'text-anchor="middle"' + (' font-size="12"' if number else ' font-weight="600"'),
            )
            for number, line in enumerate(self.lines)
        ]
        return "\n".join([shape, *words])


def arrow(start: tuple[int, int], end: tuple[int, int], colours: Colours) -> str:
    """Return a line with a head, bent in the middle where its ends lie on other heights."""
    (x1, y1), (x2, y2) = start, end
    way = f"M{x1} {y1}V{y2}" if x1 == x2 else f"M{x1} {y1}H{(x1 + x2) // 2}V{y2}H{x2}"
    return f'<path d="{way}" fill="none" stroke="{colours.line}" marker-end="url(#arrow)"/>'
