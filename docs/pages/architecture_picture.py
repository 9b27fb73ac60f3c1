"""The picture on docs/architecture.md: how data flows from the node to the readers."""

from pages.drawing import SCHEMES, Box, arrow, svg, text

WIDTH, HEIGHT = 980, 430
COLUMNS = {20: "What is read", 250: "Sources, once a second", 500: "Who used what", 750: "Readers"}
WIDE = 190

NODE = (
    Box(20, 70, WIDE, 64, ("Processes", "/proc and cgroups"), outside=True),
    Box(20, 164, WIDE, 64, ("GPU driver", "NVML, sysfs, DRM fdinfo"), outside=True),
    Box(20, 258, WIDE, 64, ("API server", "or kubelet, or log files"), outside=True),
)
SOURCES = (
    Box(250, 70, WIDE, 64, ("Owner of each process", "container, job, unit, user")),
    Box(250, 164, WIDE, 64, ("Windows of each GPU", "busy samples, by process")),
    Box(250, 258, WIDE, 64, ("Pods of the node", "names and requests")),
)
DECODERS = Box(250, 344, WIDE, 50, ("Allocations", "a decoder for each system"))
ATTRIBUTION = Box(500, 158, WIDE, 76, ("Attribution", "divides each window", "among the owners"))
LEDGER = Box(500, 258, WIDE, 64, ("Ledger", "counters over time"))
SNAPSHOT = Box(500, 344, WIDE, 50, ("Snapshot", "never changes"))
READERS = (
    Box(750, 70, WIDE + 20, 64, ("Prometheus", "Grafana, alerts, HPA"), outside=True),
    Box(750, 164, WIDE + 20, 64, ("Live page", "in a browser"), outside=True),
    Box(750, 258, WIDE + 20, 64, ("Terminal", "top, snapshot"), outside=True),
    Box(750, 344, WIDE + 20, 50, ("JSON", "/api/v1"), outside=True),
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
        text((20, 28), "How mgpu-exporter works", colours.ink, 'font-size="17" font-weight="600"'),
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
            (20, 418),
            "Data flows one way. A scrape reads the newest snapshot and waits for no driver.",
            colours.faint,
            'font-size="12"',
        ),
    ]
    return svg(WIDTH, HEIGHT, "How data flows through mgpu-exporter", parts, colours)
