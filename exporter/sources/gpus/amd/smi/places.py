"""Where ``libamd_smi.so`` is looked for."""

import re
from collections.abc import Sequence
from pathlib import Path

NAME = "libamd_smi.so"
ROOTS = (Path("/"), Path("/host"))
PLACES = (  # of the library's folder, the best first
    "opt/rocm/lib",
    "opt/rocm-*/lib",
    "usr/lib/x86_64-linux-gnu",  # Debian, Ubuntu
    "usr/lib64",  # Fedora, RHEL, SUSE
    "usr/lib",  # Arch
)


def find(roots: Sequence[Path] = ROOTS) -> Path | None:
    """The first library in the usual places; of one folder the unnumbered name, else the newest."""
    for root in roots:
        for place in PLACES:
            for folder in sorted(root.glob(place), key=_numbers, reverse=True):
                names = sorted(folder.glob(f"{NAME}*"), key=_numbers)
                if names:
                    plain = folder / NAME
                    return plain if plain in names else names[-1]
    return None


def _numbers(path: Path) -> list[int]:
    """The versions in its name, so that 10 comes behind 9."""
    return [int(number) for number in re.findall(r"\d+", str(path))]
