"""HAMi's own configuration, as far as allotments depend on it."""

from exporter.settings.schemes import RESOURCE
from exporter.settings.values import Kind, choice, count, matching, pairs

RESOURCE_NAMES = (  # of its device configuration, pkg/device/nvidia, NvidiaConfig
    "resourceCountName",
    "resourceMemoryName",
    "resourceMemoryPercentageName",
    "resourceCoreName",
    "resourcePriorityName",
)
FACTOR_NAME = "memoryFactor"
_FACTOR = count(1, 1 << 20)
_PAIRS = pairs(
    choice(*RESOURCE_NAMES, FACTOR_NAME),
    matching(".{1,400}", "a resource or a number"),
    f"KEY=RESOURCE, where KEY is one of {', '.join(RESOURCE_NAMES)}, or {FACTOR_NAME}=NUMBER",
)


def _read(text: str) -> tuple[tuple[str, str], ...]:
    found = _PAIRS.read(text)
    for key, value in found:
        (_FACTOR if key == FACTOR_NAME else RESOURCE).read(value)
    return found


HAMI = Kind(_read, _PAIRS.allowed, many=True, pairs=True)
