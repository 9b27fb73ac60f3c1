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

Every way to share a GPU that the exporter knows: by which resources a pod asks for it, and where it
is written which device a container was given. The first column is the label `scheme` of
`mgpu_container_allocation_info`; beside it stand `policy`, which also says whether anything
enforces the limits (the second table), and `priority`, empty where a system has none. They are
tried in this order, after those that the settings describe
([configuration.md](configuration.md)), and a pod's resource is counted by one of them. A name that
ends in `-`, `_` or `/` is the beginning of names.

Limits are what was promised: a share of the core of one GPU, and bytes. A whole card is all of its
memory. Where nothing is promised (time-slicing, a claim that several containers use) there is no
limit, and `mgpu_container_allocated_replicas` counts what was granted. Where the placement is not
written, or the system's ids name no real device, a container is placed on the device that one of
its processes is seen on. What of a pod cannot be read is counted
([troubleshooting.md](troubleshooting.md)) and costs that pod its limits.

Who may change a pod may change its annotations. So an annotation counts only for containers whose
limits hold a resource of its scheme, and where both state an amount and differ, the limits are
used. [security.md](security.md) says for each scheme what can still be forged.

"""

READINGS_PREFACE = """
## What was read, and what is enforced

Each system as its own source or documents have it, in the version named, with the day on which
that version was read. Cases of these versions are tests of the exporter
(`tests/allocations/upstream/`, each with repository, commit and file). A newer version may write
something else.

The label `policy` is the system's own term for how it shares a card. Where it has none, the policy
says what is known of it: `enforced` if the driver, the container's devices or the system's library
hold it to its allocation; `unenforced` if nothing does, so that a container can take more than it
was promised; `shared` if nothing is promised. It is empty if that is not known.

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
