"""The picture on docs/architecture.md: how data flows from the node to the readers."""

from pages.drawing import SCHEMES, Box, arrow, svg, text

WIDTH, HEIGHT = 770, 430
COLUMNS = {10: "What is read", 203: "Sources, once a second", 396: "Who used what", 589: "Readers"}
WIDE = 166

NODE = (
    Box(10, 70, WIDE, 64, ("Processes", "/proc and cgroups"), outside=True),
    Box(10, 164, WIDE, 64, ("GPU driver", "NVML, sysfs, DRM fdinfo"), outside=True),
    Box(10, 258, WIDE, 64, ("API server", "or kubelet, or log files"), outside=True),
)
SOURCES = (
    Box(203, 70, WIDE, 64, ("Owner of each process", "container, job, unit, user")),
    Box(203, 164, WIDE, 64, ("Windows of each GPU", "busy samples, by process")),
    Box(203, 258, WIDE, 64, ("Pods of the node", "names and requests")),
)
DECODERS = Box(203, 344, WIDE, 50, ("Allocations", "a decoder for each system"))
ATTRIBUTION = Box(396, 158, WIDE, 76, ("Attribution", "divides each window", "among the owners"))
LEDGER = Box(396, 258, WIDE, 64, ("Ledger", "counters over time"))
SNAPSHOT = Box(396, 344, WIDE, 50, ("Snapshot", "never changes"))
READERS = (
    Box(589, 70, WIDE + 5, 64, ("Prometheus", "Grafana, alerts, HPA"), outside=True),
    Box(589, 164, WIDE + 5, 64, ("Live page", "in a browser"), outside=True),
    Box(589, 258, WIDE + 5, 64, ("Terminal", "top, snapshot"), outside=True),
    Box(589, 344, WIDE + 5, 50, ("JSON", "/api/v1"), outside=True),
)


def architecture(scheme: str) -> str:
    """Return the SVG in one colour scheme."""
    colours = SCHEMES[scheme]
    lines = [
        *((start.right, end.left) for start, end in zip(NODE, SOURCES, strict=True)),
        (SOURCES[0].right, ATTRIBUTION.left),
        (SOURCES[1].right, ATTRIBUTION.left),
        (SOURCES[2].right, ATTRIBUTION.left),
        (SOURCES[2].bottom, DECODERS.top),
        (DECODERS.right, ATTRIBUTION.left),
        (ATTRIBUTION.bottom, LEDGER.top),
        (LEDGER.bottom, SNAPSHOT.top),
        *((SNAPSHOT.right, reader.left) for reader in READERS),
    ]
    parts = [
        text((10, 28), "How mgpu-exporter works", colours.ink, 'font-size="17" font-weight="600"'),
        *(
            text((x, 56), words, colours.faint, 'font-size="12" letter-spacing="0.3"')
            for x, words in COLUMNS.items()
        ),
        *(arrow(start, end, colours) for start, end in lines),
        *(
            box.draw(colours)
            for box in (*NODE, *SOURCES, DECODERS, ATTRIBUTION, LEDGER, SNAPSHOT, *READERS)
        ),
        text(
            (10, 418),
            "Data flows one way. A scrape reads the newest snapshot and waits for no driver.",
            colours.faint,
            'font-size="12"',
        ),
    ]
    return svg(WIDTH, HEIGHT, "How data flows through mgpu-exporter", parts, colours)
