"""How many series a standard node has, by what can be switched off. Pure but for a clock it moves.

The node is simulated for a minute and counted, so that the tables are as the code is.
"""

import re
from collections import Counter
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.fleet.agent import CYCLE_S, Agent, settings
from benchmarks.fleet.clock import SECOND_NS, SetClock
from benchmarks.fleet.nodes import standard
from exporter.metrics.families import (
    CORE,
    FAMILIES,
    LEVELS,
    OFF_BY_DEFAULT,
    OPTIONAL_GROUPS,
    OWN_LEVEL,
    Family,
    families_without,
)
from exporter.metrics.profiles import left_out
from exporter.metrics.text import Format, Renderer

ROOT = Path(__file__).parents[2]
RULES, DASHBOARDS = "rules/mgpu-*.yaml", "dashboards/*.json"
BEGIN_S = 1_700_000_000
CYCLES = 12
NAME = re.compile(r"^\w+", re.MULTILINE)
PLAIN = re.compile(r"\bmgpu_[a-z_]+\b")
MATCHED = re.compile(r'__name__=~\\?"([^"\\]+)')


@cache
def counted() -> dict[str, int]:
    """Series of each family that is served by default and has any, by its full name."""
    clock = SetClock(BEGIN_S)
    agent = Agent(standard(), settings(), clock)
    for _ in range(CYCLES):
        clock.now_ns += CYCLE_S * SECOND_NS
        agent.cycle()
    page = Renderer(families_without(OFF_BY_DEFAULT)).render(agent.snapshot, Format.TEXT).decode()
    return Counter(NAME.findall(page))


class Part(NamedTuple):
    """Some families, what they are, and their series."""

    about: str
    switch: str
    families: tuple[Family, ...]

    @property
    def series(self) -> int:
        """Of a standard node."""
        return sum(counted().get(family.full_name, 0) for family in self.families)


def parts() -> list[Part]:
    """Every family once: by level and type, and those of boards by their group."""
    found = []
    for level in LEVELS:
        core = [f for f in FAMILIES if f.level == level and f.group == CORE]
        for kind in ("counter", "gauge"):
            these = tuple(f for f in core if f.type == kind)
            if these:
                found.append(Part(f"`{level}`: {kind}s", "by name", these))
    for group in OPTIONAL_GROUPS:
        these = tuple(f for f in FAMILIES if f.group == group)
        found.append(Part(f"boards: {group}", f"`{group}`", these))
    return sorted((part for part in found if part.series), key=lambda part: -part.series)


@cache
def named_in(*places: str) -> frozenset[str]:
    """Families that the shipped files name; a place is a pattern of paths."""
    text = "".join(path.read_text(encoding="utf-8") for one in places for path in ROOT.glob(one))
    patterns = {*PLAIN.findall(text), *MATCHED.findall(text)}
    return frozenset(
        f.full_name for f in FAMILIES if any(re.fullmatch(one, f.full_name) for one in patterns)
    )


class Choice(NamedTuple):
    """A choice of families: what goes, what it costs, and the setting if it is not `disable`."""

    name: str
    disable: tuple[str, ...]
    cost: str
    setting: str = ""

    @property
    def series(self) -> int:
        """What is left of a standard node."""
        return series_without(self.disable)


def series_without(disabled: Collection[str]) -> int:
    """Series of a standard node with these groups and families switched off."""
    return sum(counted().get(family.full_name, 0) for family in families_without(disabled))


def _named(pattern: str) -> tuple[str, ...]:
    return tuple(f.full_name for f in FAMILIES if re.search(pattern, f.full_name))


def choices() -> tuple[Choice, ...]:
    """The profiles, and what is often switched off besides."""
    engines = _named("encoder|decoder")
    boards = tuple(group for group in OPTIONAL_GROUPS if group not in {"xid", "ecc"})
    return (
        Choice("everything", (), "nothing: the profile `full`, the default"),
        Choice(
            "the profile `minimal`",
            tuple(sorted(left_out("minimal"))),
            "boards except energy and XIDs, engines except the core; parts of dashboards and rules",
            "profile: minimal",
        ),
        Choice("no encoders and decoders", engines, "video engines"),
        Choice("no boards", boards, "power, temperature, clocks"),
        Choice("rules and dashboards", _beyond(RULES, DASHBOARDS), "what neither uses"),
        Choice("rules", _beyond(RULES), "parts of the dashboards"),
    )


def _beyond(*places: str) -> tuple[str, ...]:
    """What these files do not name; what the exporter says of itself stays."""
    named = named_in(*places)
    return tuple(f.full_name for f in FAMILIES if f.level != OWN_LEVEL and f.full_name not in named)
