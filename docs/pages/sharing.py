"""The page of the sharing systems, from ``exporter/allocations``."""

import sys
from collections.abc import Sequence
from functools import partial
from textwrap import dedent

from exporter.allocations.registry import SCHEMES
from exporter.allocations.scheme import IndexBasis, Scheme
from pages.tables import table
from pages.upstream import readings

SHARING_PREFACE = """\
# Sharing systems

Written by `docs/generate.py` from `exporter/allocations/`. Do not edit.

The exporter reads allocations of these sharing systems. You can describe others in the settings
([configuration.md](configuration.md#a-sharing-system-of-your-own)), and those are tried first.

- **Scheme** is a label of `mgpu_container_allocation_info`, beside `policy` (the second table) and
  `priority`.
- **Limits** are what was promised: a share of the core of one GPU, and bytes. Time-slicing promises
  nothing, so there is no limit, and `mgpu_container_allocated_replicas` counts what was granted.
- **The device**, if the system does not name it, is the one that a process of the container is seen
  on.
- **What cannot be read** costs that pod its limits, and is
  [counted](troubleshooting.md#what-was-rejected).
- **Annotations** count only for containers whose limits ask for a resource of the scheme. If both
  state an amount, the limits are used. [security.md](security.md) lists what can still be forged.

A name in the table that ends in `-`, `_` or `/` is the beginning of names.

"""

READINGS_PREFACE = """
## What was read, and what is enforced

Each system as its source or documents have it, in the version named, read on the day named. Tests
hold the exporter to these versions (`tests/allocations/upstream/`). Newer ones may differ.

The label `policy` is the system's own term for how it shares a card. Without such a term it is:

- `enforced`: the driver, the container's devices or a library hold the container to its allocation
- `unenforced`: a container can take more than it was promised
- `shared`: nothing is promised
- empty: not known

"""

BASES = {
    IndexBasis.NVML_INDEX: "NVML's index",
    IndexBasis.MINOR: "minor number: the N of `/dev/nvidiaN`",
    IndexBasis.PCI: "place in the order of PCI addresses",
    IndexBasis.UUID: "UUID",
}

MOST = 6  # names of one kind in a row of the table


def sharing() -> str:
    """The text of sharing.md."""
    heads = ("scheme", "resources", "annotations and labels of the pod", "devices, if named, by")
    overview = SHARING_PREFACE + table(heads, map(_row, SCHEMES))
    read = READINGS_PREFACE + readings()
    return overview + read + "".join(map(_section, SCHEMES))


def _row(scheme: Scheme) -> tuple[str, ...]:
    return (
        f"[`{scheme.name}`](#{scheme.name})",
        _names(scheme.resources) or "claims",
        _names((*scheme.annotations, *scheme.labels)) or "none",
        BASES[scheme.index_basis],
    )


def _names(names: Sequence[str]) -> str:
    more = len(names) - MOST
    listed = ", ".join(f"`{name}`" for name in names[:MOST])
    return f"{listed} and {more} more" if more > 0 else listed


def _section(scheme: Scheme) -> str:
    """What the module says of its system."""
    decode = scheme.decode.func if isinstance(scheme.decode, partial) else scheme.decode
    title, _, text = (sys.modules[decode.__module__].__doc__ or "").partition("\n")
    return f"\n## `{scheme.name}`\n\n{title}\n{dedent(text)}".replace("``", "`")
