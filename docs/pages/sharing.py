"""The page of the sharing systems, from ``exporter/allocations``.

A scheme's section is its module's text up to the paragraph that begins with "Source".
"""

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

A sharing system gives several containers a part of one GPU each. For these systems the exporter
knows how much each container was allocated, and on which GPU, without any setting. You can
[describe others](configuration.md#a-sharing-system-of-your-own), which are tried first.

| term | meaning |
|---|---|
| scheme | a label of `mgpu_container_allocation_info`, beside `policy` \
([below](#what-was-read-and-what-is-enforced)) and `priority` |
| limits | what was promised: a share of one GPU's core, and bytes. Time-slicing promises \
nothing: `mgpu_container_allocated_replicas` counts what was granted |
| device | if the system does not name it: the one on which a process of the container is seen |
| annotations | count only for containers whose limits ask for a resource of the scheme. If \
both state an amount, the limits are used ([what can be \
forged](security.md#who-can-forge-what)) |
| unreadable values | cost that pod its limits, and are \
[counted](troubleshooting.md#what-was-rejected) |

A name that ends in `-`, `_` or `/` is the beginning of names.

"""

READINGS_PREFACE = """
## What was read, and what is enforced

The version of each system that was read, and the day. Tests hold the exporter to these versions;
newer ones may differ. The label `policy` is the system's own term for how it shares a card.
Without such a term it is:

| `policy` | meaning |
|---|---|
| `enforced` | the driver, the container's devices or a library hold the container to its \
allocation |
| `unenforced` | a container can take more than it was promised |
| `shared` | nothing is promised |
| empty | not known |

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
    """What users of the system need of its module's text: what comes before the sources."""
    decode = scheme.decode.func if isinstance(scheme.decode, partial) else scheme.decode
    module = decode.__module__
    title, _, text = (sys.modules[module].__doc__ or "").partition("\n")
    text = dedent(text.partition("\n\nSource")[0]).replace("``", "`")
    path = module.replace(".", "/") + ".py"
    return f"\n## `{scheme.name}`\n\n{title}\n{text} [Sources](../{path}).\n"
