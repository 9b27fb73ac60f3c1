"""Figures to tables in Markdown, and the tables into their pages. Pure but for the writing."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.fleet.config import EVALUATE_S
from benchmarks.fleet.figures import Figures
from benchmarks.fleet.live import Live
from benchmarks.fleet.nodes import KINDS, kinds
from benchmarks.fleet.paper import DAY_S, GIB, KIB, MIB, Assumed, Servers, herd, servers, watches
from benchmarks.fleet.series import Choice, choices, counted, parts

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "scaling.md"
RESULTS = Path(__file__).with_name("results.md")
FILES = "examples/metrics"  # settings files of the choices that name families
INTERVALS_S = (15, 30, 60)
FLEETS = ((2_000, 30), (10_000, 15), (10_000, 60))  # of docs/scaling.md: nodes, seconds
OF_PAGE = {"choices", "costs"}  # the tables that stand there
SPREADS_S = (1.0, 10.0, 30.0)
END = "<!-- end -->\n"
GB, MB = 10**9, 10**6


def begin(name: str) -> str:
    """The line before a table that is written by the benchmark."""
    return f"<!-- {name}: made by make fleet ARGS=--write -->\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = (heads, ["---"] * len(heads), *rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def parts_table() -> str:
    """What a standard node's series are."""
    total = sum(counted().values())
    found = [
        (p.about, p.switch, str(len(p.families)), str(p.series), f"{p.series / total:.0%}")
        for p in parts()
    ]
    found.append(("**all**", "", str(sum(len(p.families) for p in parts())), str(total), ""))
    return table(("families", "switched off", "number", "series", "of all"), found)


def choices_table() -> str:
    """What is left of a standard node's series after switching some off, and the setting."""
    total = sum(counted().values())
    kept = [(_linked(c), str(c.series), f"{1 - c.series / total:.0%}", c.cost) for c in choices()]
    return table(("what is kept", "series", "saved", "what is missing"), kept)


def _linked(choice: Choice) -> str:
    """Its name, with a link to its settings file if it has one."""
    if choice.setting or not choice.disable:
        return choice.name
    return f"[{choice.name}](../{FILES}/{file_of(choice)})"


def file_of(choice: Choice) -> str:
    """The name of the settings file of a choice that names families."""
    return f"{choice.name.replace(' ', '-')}.yaml"


def settings_files() -> dict[str, str]:
    """The settings files of the choices that name families, by name."""
    return {
        file_of(choice): (
            f"# {choice.series} series of a standard node are left. Missing: {choice.cost}.\n"
            "metrics:\n  disable:\n" + "".join(f"    - {name}\n" for name in choice.disable)
        )
        for choice in choices()
        if choice.disable and not choice.setting
    }


def run_table(live: Live, found: Figures) -> str:
    """What the run found."""
    mix = ", ".join(f"{n} {kind} ({KINDS[kind].about})" for kind, n in kinds(live.nodes).items())
    firing = ", ".join(f"{name} {n}" for name, n in live.alerts.items()) or "none"
    rows = [
        ("nodes", mix),
        ("scraped every", f"{found.every_s} s, measured for {found.seconds:.0f} s"),
        ("samples of a standard node's page", f"{found.standard_samples:.0f}"),
        ("its size, plain and gzip", _two(found.standard_plain, found.standard_zipped, KIB, "KiB")),
        ("series in the zone's head", f"{found.head_series:,.0f}"),
        ("rules evaluated", f"every {EVALUATE_S} s, if their group does not say it"),
        ("samples appended", f"{found.samples_per_s:,.0f} a second"),
        (
            "scrape time p50, p99",
            f"{found.scrape_p50 * 1e3:.0f} ms, {found.scrape_p99 * 1e3:.0f} ms",
        ),
        ("scrapes that failed, by nodes down or too slow", f"{found.failed_scrapes:.0f}"),
        ("series that the rules record for each node", f"{found.recorded.series:.0f}"),
        ("their samples, at the rules' intervals", f"{found.recorded.samples_per_s:.1f} a second"),
        ("all shipped rules took, in a minute", f"{found.rules_s:.2f} s"),
        ("their CPU, at most", f"{found.rules_cpu_s:.2f} s"),
        ("the same for a million series", f"{found.rules_s_per_million:.1f} s"),
        ("Prometheus with rules", _cost(found.zone)),
        ("Prometheus agent", _cost(found.agent)),
        ("VictoriaMetrics", _cost(found.storage)),
        ("remote write of everything", f"{found.sent_bytes_per_sample:.1f} bytes a sample"),
        ("remote write of what was recorded", _recorded(found)),
        ("samples that could not be sent", f"{found.lost:.0f}"),
        ("agent's write-ahead log", f"{found.agent_wal_per_sample:.1f} bytes a sample"),
        ("a block of two hours, Prometheus", f"{found.block_bytes_per_sample:.2f} bytes a sample"),
        ("the same in VictoriaMetrics", f"{found.victoria_bytes_per_sample:.2f} bytes a sample"),
        ("alerts that fire at the end", firing),
        ("load of the machine, over five minutes", f"{live.load:.1f} on {os.cpu_count()} cores"),
        ("cycles of simulated nodes that were late", str(found.late)),
    ]
    return table(("figure", "found"), rows)


def _cost(cost: tuple[float, float]) -> str:
    memory, cpu = cost
    return f"{memory / KIB:.1f} KiB a series, {cpu:.1f} s of CPU for a million samples"


def _two(first: float, second: float, unit: int, name: str) -> str:
    return f"{first / unit:.0f} {name}, {second / unit:.0f} {name}"


def _recorded(found: Figures) -> str:
    part = found.recorded.samples_per_s * found.nodes / found.samples_per_s
    return f"{found.recorded_bytes_per_sample:.1f} bytes a sample, {part:.1%} of the samples"


def paper_tables(found: Figures, assumed: Assumed) -> str:
    """The large fleet: the servers by interval and by what is kept, and the API server."""
    per_node = {"everything": found.standard_samples}
    part = found.standard_samples / sum(counted().values())
    per_node |= {c.name: c.series * part for c in choices() if c.name.startswith("rules")}
    columns = {
        f"{name}, {every_s} s": servers(found, assumed, every_s, series)
        for name, series in per_node.items()
        for every_s in (INTERVALS_S if name == "everything" else INTERVALS_S[:1])
    }
    return f"{_servers(columns)}\n{_api(assumed)}"


def costs_table(found: Figures) -> str:
    """What two fleets of standard nodes cost, for those who plan one."""
    fleets = {
        f"{nodes:,} nodes, {every_s} s": servers(
            found, Assumed(nodes=nodes), every_s, found.standard_samples
        )
        for nodes, every_s in FLEETS
    }
    rows = {
        "series": lambda s: f"{s.series / MB:.1f} M",
        "Prometheus of 32 GiB": lambda s: f"{s.shards}, {s.shard_cpus:.1f} CPUs each",
        "disk a day": lambda s: f"{s.tsdb_disk_day / GB:.0f} GB",
        "all series by remote write": lambda s: f"{s.sent_bytes / MB:.1f} MB/s",
        "recorded series only": lambda s: f"{s.recorded_bytes / MB:.1f} MB/s",
    }
    return _columns(fleets, rows)


def _columns(columns: Mapping[str, Servers], rows: Mapping[str, Callable[[Servers], str]]) -> str:
    lines = [(name, *map(write, columns.values())) for name, write in rows.items()]
    return table(("", *columns), lines)


def _servers(columns: Mapping[str, Servers]) -> str:
    rows = {
        "series": lambda s: f"{s.series / MB:.1f} M",
        "samples a second": lambda s: f"{s.samples / MB:.2f} M",
        "scrapes, gzip": lambda s: f"{s.scrape_bytes / MB:.1f} MB/s",
        "shards of Prometheus": lambda s: f"{s.shards}",
        "CPUs of each": lambda s: f"{s.shard_cpus:.1f}",
        "its rules, in a minute": lambda s: f"{s.rules_s:.0f} s of CPU",
        "its disk, all shards": lambda s: f"{s.tsdb_disk_day / GB:.0f} GB a day",
        "agents instead, all": lambda s: f"{s.agent_cpus:.1f} CPUs, {s.agent_bytes / GIB:.0f} GiB",
        "remote write of everything": lambda s: f"{s.sent_bytes / MB:.1f} MB/s",
        "of what was recorded": lambda s: (
            f"{s.recorded_samples:,.0f} samples/s, {s.recorded_bytes / MB:.2f} MB/s"
        ),
        "VictoriaMetrics of everything": lambda s: (
            f"{s.victoria_cpus:.1f} CPUs, {s.victoria_bytes / GIB:.0f} GiB, "
            f"{s.victoria_disk_day / GB:.0f} GB a day"
        ),
    }
    return _columns(columns, rows)


def _api(assumed: Assumed) -> str:
    asked = watches(assumed)
    spread = [
        (
            f"all nodes list, spread over {seconds:.0f} s",
            f"{(rate := herd(assumed, seconds))[0]:,.0f} a second, {rate[1] / MIB:,.0f} MiB/s",
        )
        for seconds in SPREADS_S
    ]
    return table(
        ("asked of the API server", "how much"),
        [
            ("watches open", f"{asked.open:,}"),
            ("renewed", f"{asked.renewals:.0f} a second, without a list"),
            (
                f"events, where a pod lives {assumed.pod_lives_s // DAY_S} day",
                f"{asked.events:.0f} a second, {asked.event_bytes / KIB:.0f} KiB/s",
            ),
            (
                "reads of a node",
                f"{asked.node_reads:.0f} a second, {asked.node_bytes / KIB:.0f} KiB/s",
            ),
            *spread,
        ],
    )


def put(page: str, name: str, text: str) -> str:
    """The page with this text between its marks.

    Raises:
        ValueError: the page has no such marks.

    """
    head, mark, rest = page.partition(begin(name))
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"no place for {name!r}")
    return f"{head}{mark}\n{text}\n{end}{tail}"


def write(texts: Mapping[str, str]) -> None:
    """Put the texts into their places, and write the settings files."""
    for name, text in texts.items():
        path = PAGE if name in OF_PAGE else RESULTS
        path.write_text(put(path.read_text(encoding="utf-8"), name, text), encoding="utf-8")
    for name, text in settings_files().items():
        (ROOT / FILES / name).write_text(text, encoding="utf-8")
