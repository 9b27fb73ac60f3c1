"""The policies of sharing systems, and which of them lend.

Under one that lends, a container may use more of the core than its share where others leave it
free, so it is not marked. Both wings read this: a decoder may state only policies that stand here
(``policies``), so a new one says here whether it lends.
"""

# Those that a described scheme may name. Any other that it names does not lend.
DESCRIBED_LENDING = ("best-effort", "burst", "burst-share", "elastic", "work-conserving")

LENDS = dict.fromkeys(
    (
        *DESCRIBED_LENDING,  # two of them are qGPU's
        "mixed",  # qGPU
        *("guaranteed-burst-share", "native-burst-share"),  # mGPU
        *("balance", "none"),  # vgpu-manager
    ),
    True,
) | dict.fromkeys(
    (
        "fixed-share",  # qGPU, mGPU
        "fixed",  # vgpu-manager
        *("cgpu", "core_mem", "share", "topology", "default"),  # Alibaba
        *("hami-core", "mig", "mps", "time-sharing", "time-slicing"),
        *("enforced", "unenforced", "shared"),  # of ours, where a system has no term
    ),
    False,
)


def policies(*names: str, **others: str) -> dict[str, str]:
    """Return a system's policies by what it writes: their names, or something else.

    Raises:
        ValueError: for one of them nothing says here whether it lends.

    """
    written = {name: name for name in names} | others
    if unknown := set(written.values()) - LENDS.keys():
        raise ValueError(f"exporter/model/policies.py does not say whether these lend: {unknown}")
    return written
