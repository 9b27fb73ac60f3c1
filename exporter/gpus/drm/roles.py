"""What the engines of each driver are for. Data from the kernel's documentation and sources.

A driver names its classes of engines as it likes. ``core`` is what shades and computes. Intel's
``video`` (``vcs``) decodes and encodes, and does not say which: it is the decoder. Scaling
(``video-enhance``, ``vpe``) is neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

CORE, ENCODER, DECODER, COPY = "core", "encoder", "decoder", "copy"


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver. ``roles``: engine class → quantity.

    ``omits_unused``: an engine that a client has not used is not listed. ``wakes``: the device is
    woken to be asked, and kept awake by being asked. ``profiling``: the file of the device that
    must hold one of these bits for engines to be counted at all. ``vendor`` where there is no PCI
    id to tell it.
    """

    roles: Mapping[str, str]
    omits_unused: bool = False
    wakes: bool = False
    profiling: int = 0
    vendor: str = ""


DRIVERS: Mapping[str, Driver] = MappingProxyType(
    {
        "i915": Driver({"render": CORE, "compute": CORE, "video": DECODER, "copy": COPY}),
        "xe": Driver({"rcs": CORE, "ccs": CORE, "vcs": DECODER, "bcs": COPY}, wakes=True),
        "amdgpu": Driver(
            {
                "gfx": CORE,
                "compute": CORE,
                "dec": DECODER,
                "jpeg": DECODER,
                "enc": ENCODER,
                "enc_1": ENCODER,
                "dma": COPY,
            },
            omits_unused=True,
        ),
        "nouveau": Driver({}),
        "panfrost": Driver({"fragment": CORE, "vertex-tiler": CORE}, profiling=1, vendor="arm"),
        "panthor": Driver({"panthor": CORE}, profiling=2, vendor="arm"),
        "lima": Driver({"gp": CORE, "pp": CORE}, vendor="arm"),
        "msm": Driver({"gpu": CORE}, vendor="qualcomm"),
        "v3d": Driver({"bin": CORE, "render": CORE, "csd": CORE}, vendor="broadcom"),
        "etnaviv": Driver({"2D": CORE, "3D": CORE}, vendor="vivante"),
    }
)
"""The drivers that are taken up by themselves: those known to implement the specification."""

NO_ENGINE = frozenset({"video-enhance", "vecs", "vpe", "tfu", "cache_clean", "cpu", "other"})
_ANY = {
    "copy": COPY,
    "bcs": COPY,
    "dma": COPY,
    "video": DECODER,
    "vcs": DECODER,
    "dec": DECODER,
    "jpeg": DECODER,
    "enc": ENCODER,
}


def role_of(driver: str, engine: str) -> str | None:
    """The quantity that an engine class counts as, None where it counts as none.

    Of a driver that is not known, what is not known to be something else is its core.
    """
    known = DRIVERS.get(driver)
    if known is not None and known.roles:
        return known.roles.get(engine)
    return None if engine in NO_ENGINE else _ANY.get(engine, CORE)
