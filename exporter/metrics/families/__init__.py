"""The table of all metric families that the exporter serves. Data, a module for each kind of fact.

The exposition, the documentation and the tests are generated from it. A family's full name is
``mgpu_<level>_<name>``: ``_total`` marks a counter, and the unit says what its numbers are divided
by. Its labels are those of its level, then its own. It reads its values from the facts of its
level.
"""

from collections.abc import Collection

from exporter.metrics.families.devicefamilies import BOARD, DEVICE
from exporter.metrics.families.exporterfamilies import EXPORTER
from exporter.metrics.families.family import (
    CORE,
    LEVELS,
    OFF_BY_DEFAULT,
    OWN_LEVEL,
    PREFIX,
    Family,
    FamilyOf,
    Sample,
)
from exporter.metrics.families.ownerfamilies import CONTAINER, GROUP, GROUP_KIND, NAMESPACE, POD

__all__ = [
    "BOARD",
    "CORE",
    "FAMILIES",
    "LEVELS",
    "OFF_BY_DEFAULT",
    "OPTIONAL_GROUPS",
    "OWN_LEVEL",
    "PREFIX",
    "Family",
    "FamilyOf",
    "Sample",
    "families_without",
    "groups_without",
]

FAMILIES: tuple[Family, ...] = (
    *DEVICE,
    *BOARD,
    *CONTAINER,
    *POD,
    *NAMESPACE,
    *GROUP,
    *GROUP_KIND,
    *EXPORTER,
)

OPTIONAL_GROUPS = tuple(dict.fromkeys(f.group for f in FAMILIES if f.group != CORE))
"""The groups that ``--metrics.disable`` can switch off."""


def families_without(disabled: Collection[str]) -> tuple[Family, ...]:
    """The table without the disabled families. ``disabled`` has groups and full names."""
    return tuple(f for f in FAMILIES if f.group not in disabled and f.full_name not in disabled)


def groups_without(disabled: Collection[str]) -> frozenset[str]:
    """The groups of which no family is left. What only they need is not read."""
    return frozenset(OPTIONAL_GROUPS) - {family.group for family in families_without(disabled)}
