"""The page of the sharing systems, from ``exporter/agent/allocations``.

A scheme's section is its module's text up to the paragraph that begins with "Source".
"""

import sys
from collections.abc import Sequence
from functools import partial
from textwrap import dedent

from exporter.agent.allocations.registry import SCHEMES
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import IndexBasis
from pages.choosing import EXAMPLES, WAYS, Way
from pages.tables import table
from pages.upstream import readings

SHARING_PREFACE = """\
# Sharing systems

<!-- Written by docs/generate.py from exporter/agent/allocations/: do not edit. -->

**For these systems the exporter reads, without any setting, what each container was allocated, and
on which GPU.** [Others that you describe](configuration.md#a-sharing-system-of-your-own) go first.

- `mgpu_container_allocation_info` has the labels `scheme`, `policy`
  ([below](#what-was-read-and-what-is-enforced)) and `priority`.
- In MIG mode the instance is the allocation, whatever the container asked for.
- Time-slicing promises nothing, and MPS no time: it limits threads, drivers count time. So the
  policy `mps` has no core limit, idle, borrowed or waiting time.
- A device that the system does not name is the one on which the container is seen.
- An init container has only what no other container of its pod asks for in the same domain.
- Annotations count only for containers whose limits ask for a resource of the scheme
  ([what can be forged](security.md#who-can-forge-what)).
- A pod with unreadable values has no limits, and is
  [counted](troubleshooting.md#what-was-rejected). `mgpu-exporter check` names such pods.

A name that ends in `-`, `_` or `/` is a prefix. The minor number is the N of
`/dev/nvidiaN`, for Intel of `/dev/dri/cardN`.

"""

CHOOSING_PREFACE = """
## Choosing a share

The examples are on a card of 32 GiB, with N = 4.

"""

LIMITS_TEXT = """
## Limits of cgroups, by the driver or the kernel

These limits are read of any container on the card, without root:

- NVIDIA's driver from R615 on (MPS v3 memory partitioning): `evidence="driver"`
- the kernel's dmem controller, since 6.14, with amdgpu, xe or NVIDIA's driver, once `+dmem` is in
  `cgroup.subtree_control`: `evidence="kernel"`

`mgpu_container_memory_limit_bytes` is then the enforced limit, `…_memory_guaranteed_bytes` the soft
one, `…_memory_borrowed_bytes` what is used beyond it, `…_memory_protected_bytes` the kernel's best
effort, `…_memory_charged_bytes` what the cgroup is charged. Groups have the same. Where the driver
has no figure, or lists no process (`role="figure"`), `…_memory_used_bytes` is the charge.

Those that borrow may be evicted when another within its guarantee meets a full card.
`sort_desc(mgpu_container_memory_borrowed_bytes > 0)` lists them.

`mgpu-exporter check` finds limits that cannot be read or are beyond the card's memory, and
guarantees of deleted cgroups.
"""

READINGS_PREFACE = """
## What was read, and what is enforced

Versions that were read; newer ones may differ. The label `policy` is the system's own
term for how it shares a card, else one of:

- `enforced`: the driver, the container's devices or a library enforce the allocation
- `unenforced`: a container can take more than it was promised
- `shared`: nothing is promised
- empty: not known

"""

BASES = {
    IndexBasis.NVML_INDEX: "NVML's index",
    IndexBasis.MINOR: "minor number",
    IndexBasis.PCI: "PCI order",
    IndexBasis.UUID: "id",
    None: "not named",
}

MOST = 6  # names of one kind in a row of the table


def sharing() -> str:
    """The text of sharing.md."""
    heads = ("scheme: devices by", "resources", "annotations and labels of the pod")
    overview = SHARING_PREFACE + table(heads, map(_row, SCHEMES))
    read = READINGS_PREFACE + readings()
    return overview + _choosing() + LIMITS_TEXT + read + "".join(map(_section, SCHEMES))


def _row(scheme: Scheme) -> tuple[str, ...]:
    return (
        f"[`{scheme.name}`](#{scheme.name}): {BASES[scheme.index_basis]}",
        _names(scheme.resources) or ("none" if scheme.annotations else "claims"),
        _names((*scheme.annotations, *scheme.labels)) or "none",
    )


def _choosing() -> str:
    heads = ("system", "a pod asks for", "steps and limits", "enforced", "policies", "example")
    return CHOOSING_PREFACE + table(heads, map(_way, WAYS))


def _way(way: Way) -> tuple[str, ...]:
    link = f"[{way.share}](../{EXAMPLES}/{way.example}.yaml)"
    name = f"[{way.name}](#{way.scheme})"
    return name, way.asks, way.steps, way.enforced, way.policies, link


def _names(names: Sequence[str]) -> str:
    more = len(names) - MOST
    listed = ", ".join(f"`{name}`" for name in names[:MOST])
    return f"{listed} and {more} more" if more > 0 else listed


def _section(scheme: Scheme) -> str:
    """What users of the system need of its module's text: what comes before the sources."""
    read = scheme.read.func if isinstance(scheme.read, partial) else scheme.read
    module = read.__module__
    title, _, text = (sys.modules[module].__doc__ or "").partition("\n")
    text = dedent(text.partition("\n\nSource")[0]).replace("``", "`")
    path = module.replace(".", "/") + ".py"
    return f"\n## `{scheme.name}`\n\n{title}\n{text} [Sources](../{path}).\n"
