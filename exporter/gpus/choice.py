"""Which sources of GPUs the settings name. A vendor's modules are imported for who asks for it."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from exporter.gpus.awaited import Awaited, never, nvidia_missed
from exporter.gpus.source import GpuSource
from exporter.settings import Settings


def open_gpus(settings: Settings) -> tuple[GpuSource, ...]:
    """Make the sources; none is started.

    ``auto`` is every real source there is; each looks again for a driver that is not there.
    """
    asked = settings.gpus_source
    sysfs = Path(settings.path_sysfs)
    sources: list[GpuSource] = []
    states: list[GpuSource] = []
    for name, opener in _GPUS.items():
        if name not in asked and "auto" not in asked:
            continue
        source = opener(settings)
        if name == "amd" and settings.amd_smi != "off":
            source, state = _checked(settings, source)
            states.append(state)
        if name not in asked:
            source = Awaited(source, nvidia_missed(sysfs) if name == "nvml" else never)
        sources.append(source)
    return (*sources, *states)  # these once the boards are read


def _nvml(settings: Settings) -> GpuSource:
    from exporter.gpus.nvml.accounting import choice_of  # noqa: PLC0415 - see the docstring
    from exporter.gpus.nvml.source import NvmlSource  # noqa: PLC0415 - likewise

    accounting = choice_of(settings.nvml_shares, enable=settings.nvml_enable_accounting)
    return NvmlSource(settings.nvml_library or None, accounting=accounting)


def _amd(settings: Settings) -> GpuSource:
    from exporter.gpus.amd.source import AmdSource  # noqa: PLC0415 - see the docstring

    return AmdSource(Path(settings.path_sysfs), Path(settings.path_procfs))


def _checked(settings: Settings, source: GpuSource) -> tuple[GpuSource, GpuSource]:
    """AMD's source with the cross-check beside it, and the state of the check."""
    from exporter.gpus.amd.smi.check import SmiCheck  # noqa: PLC0415 - see the docstring
    from exporter.gpus.amd.smi.source import CheckedSource, SmiSource  # noqa: PLC0415 - likewise

    path = None if settings.amd_smi == "auto" else Path(settings.amd_smi)
    check = SmiCheck(path, time)
    return CheckedSource(source, check, Path(settings.path_sysfs)), SmiSource(check)


def _drm(settings: Settings) -> GpuSource:
    """What AMD's own source has is left to it, by PCI address."""
    from exporter.gpus.amd.discovery import addresses  # noqa: PLC0415 - see the docstring
    from exporter.gpus.amd.processes import pids_of  # noqa: PLC0415 - likewise
    from exporter.gpus.drm.source import DrmSource  # noqa: PLC0415 - likewise

    asked, sysfs = settings.gpus_source, settings.path_sysfs
    has_amd = "auto" in asked or "amd" in asked
    return DrmSource(
        sysfs,
        settings.path_procfs,
        taken=partial(addresses, Path(sysfs)) if has_amd else tuple,
        computing=partial(pids_of, Path(sysfs)),
        any_driver="drm" in asked,
    )


_GPUS: Mapping[str, Callable[[Settings], GpuSource]] = {  # by the values of --gpus.source
    "nvml": _nvml,
    "amd": _amd,
    "drm": _drm,
}
