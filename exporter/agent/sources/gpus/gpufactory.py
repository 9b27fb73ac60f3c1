"""Opens the GPU sources that the settings name. Imports a vendor's modules only if needed.

``auto`` opens every real source in case the node has such GPUs: none of a kind is no failure.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from exporter.agent.settings import Settings
from exporter.agent.sources import door
from exporter.agent.sources.door import Whole
from exporter.agent.sources.gpus.fleet import AnyFleet
from exporter.agent.sources.gpus.sysfs import NotedReads

NVIDIA_MODULE, NVIDIA_ID, DISPLAY_CLASS = "nvidia", "0x10de", "0x03"
OTHER_MODULES = ("amdgpu", "i915", "xe")


def nvidia_missed(sysfs: Path) -> Callable[[], bool]:
    """A function that returns whether NVIDIA GPUs should be there. The bus is read whole once.

    They should if one is on the bus, if NVIDIA's module is loaded, or if no other vendor's is.
    """
    on_bus: bool | None = None  # None: not all of it could be read

    def missed() -> bool:
        nonlocal on_bus
        on_bus = _nvidia_on_bus(f"{sysfs}/bus/pci/devices") if on_bus is None else on_bus
        modules = sysfs / "module"
        # Of a module that cannot be looked for nothing is concluded, neither way.
        is_alone = all(door.is_gone(modules / name) for name in OTHER_MODULES)
        is_loaded = isinstance(door.about(modules / NVIDIA_MODULE), Whole)
        return bool(on_bus) or is_alone or is_loaded

    return missed


def _nvidia_on_bus(folder: str) -> bool | None:
    """Whether one of NVIDIA's GPUs is on the bus; None if that is not known now."""
    reads = NotedReads()
    for device in reads.names(folder):
        vendor = reads.text(f"{folder}/{device}/vendor")
        if vendor == NVIDIA_ID and reads.text(f"{folder}/{device}/class").startswith(DISPLAY_CLASS):
            return True
    return None if reads.unread else False


def open_gpus(settings: Settings) -> tuple[AnyFleet, ...]:
    """The sources, none of them started.

    ``auto`` stands for every real source. Each of them looks again for a driver that is missing.
    """
    asked = settings.gpus_source
    sysfs = Path(settings.path_sysfs)
    sources: list[AnyFleet] = []
    for name, opener in _GPUS.items():
        if name not in asked and "auto" not in asked:
            continue
        source = opener(settings)
        # Nobody has named it. So it is missed only where the node is one for NVIDIA's: else a node
        # without GPUs of a vendor would show a source that is down.
        if name not in asked:
            source.missed = nvidia_missed(sysfs) if name == "nvml" else lambda: False
        sources.append(source)
    return tuple(sources)


def _nvml(settings: Settings) -> AnyFleet:
    from exporter.agent.sources.gpus.nvml.nvmlsource import NvmlSource  # noqa: PLC0415 - see the docstring

    return NvmlSource(settings.nvml_library or None)


def _amd(settings: Settings) -> AnyFleet:
    from exporter.agent.sources.gpus.amd.amdsource import AmdSource  # noqa: PLC0415 - see the docstring

    return AmdSource(Path(settings.path_sysfs), Path(settings.path_procfs))


def _drm(settings: Settings) -> AnyFleet:
    """The DRM source without the devices of AMD's own source, by PCI address."""
    from exporter.agent.sources.gpus.amd.amddiscovery import addresses  # noqa: PLC0415 - see the docstring
    from exporter.agent.sources.gpus.amd.kfd import processes_of  # noqa: PLC0415 - likewise
    from exporter.agent.sources.gpus.drm.drmsource import DrmSource  # noqa: PLC0415 - likewise

    asked, sysfs = settings.gpus_source, settings.path_sysfs
    has_amd = "auto" in asked or "amd" in asked
    return DrmSource(
        sysfs,
        settings.path_procfs,
        taken=partial(addresses, Path(sysfs)) if has_amd else tuple,
        computing=partial(processes_of, Path(sysfs)),
        any_driver="drm" in asked,
    )


_GPUS: Mapping[str, Callable[[Settings], AnyFleet]] = {  # by the values of --gpus.source
    "nvml": _nvml,
    "amd": _amd,
    "drm": _drm,
}
