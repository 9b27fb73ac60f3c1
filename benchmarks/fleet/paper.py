"""A large fleet on paper: a run's figures for each unit of work, times the work. Pure.

What no run can measure is assumed, and each assumption stands in ``Assumed`` with its reason.
"""

from dataclasses import dataclass
from math import ceil

from benchmarks.fleet.figures import MILLION, MINUTE_S, Figures

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """The fleet, and what is taken for granted."""

    nodes: int = 10_000
    pods: int = 30  # of a node that use a GPU
    pod_bytes: int = 13_400  # a pod's JSON with its managed fields
    node_bytes: int = 20_000  # a node's, most of it names of images
    events_per_pod: int = 6  # made, bound, started, ready, ended, deleted: each sends it whole
    pod_lives_s: int = DAY_S
    watch_s: float = 330.0  # --pods.source=api renews it after 300 to 360 s
    node_read_s: float = 60.0  # the node is read again: its annotations have units of allocations
    shard_bytes: int = 32 * GIB  # of memory that one Prometheus may have
    headroom: float = 2.0  # for queries, and for the replay of the WAL after a restart
    rules_s: float = 30.0  # of CPU for a shard's rules in a minute: half of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """What scrapes and stores the fleet. Rates are a second's, and a minute's where rules are."""

    every_s: int
    series: float
    samples: float
    scrape_bytes: float
    shards: int
    shard_cpus: float
    rules_s: float
    agent_cpus: float
    agent_bytes: float
    sent_bytes: float
    recorded_samples: float
    recorded_bytes: float
    victoria_cpus: float
    victoria_bytes: float
    tsdb_disk_day: float
    victoria_disk_day: float


def servers(found: Figures, assumed: Assumed, every_s: int, series_per_node: float) -> Servers:
    """Extrapolate in proportion: to nodes, series and samples.

    The rules take the same time whatever else is scraped: they ask for what they name. A shard
    scrapes as an agent does, and evaluates them besides.
    """
    series = assumed.nodes * series_per_node
    samples = series / every_s
    rules_s = found.rules_s_per_million * assumed.nodes * found.standard_samples / MILLION
    memory = series * found.zone.bytes_per_series * assumed.headroom
    shards = max(ceil(memory / assumed.shard_bytes), ceil(rules_s / assumed.rules_s))
    recorded = assumed.nodes * found.recorded.samples_per_s
    scraping = samples / MILLION * found.agent.cpu_s_per_million
    zipped = found.standard_zipped * series_per_node / found.standard_samples
    return Servers(
        every_s=every_s,
        series=series,
        samples=samples,
        scrape_bytes=assumed.nodes * zipped / every_s,
        shards=shards,
        shard_cpus=(scraping + rules_s / MINUTE_S) / shards,
        rules_s=rules_s / shards,
        agent_cpus=scraping,
        agent_bytes=series * found.agent.bytes_per_series,
        sent_bytes=samples * found.sent_bytes_per_sample,
        recorded_samples=recorded,
        recorded_bytes=recorded * found.recorded_bytes_per_sample,
        victoria_cpus=samples / MILLION * found.storage.cpu_s_per_million,
        victoria_bytes=series * found.storage.bytes_per_series,
        tsdb_disk_day=samples * DAY_S * found.block_bytes_per_sample,
        victoria_disk_day=samples * DAY_S * found.victoria_bytes_per_sample,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Watches:
    """What the exporters ask of the API server. Rates are a second's."""

    open: int
    events: float
    event_bytes: float
    renewals: float
    node_reads: float
    node_bytes: float
    list_bytes: float


def watches(assumed: Assumed) -> Watches:
    """One watch a node, of its own pods; ``list_bytes`` is what all nodes list once, together."""
    events = assumed.nodes * assumed.pods * assumed.events_per_pod / assumed.pod_lives_s
    node_reads = assumed.nodes / assumed.node_read_s
    return Watches(
        open=assumed.nodes,
        events=events,
        event_bytes=events * assumed.pod_bytes,
        renewals=assumed.nodes / assumed.watch_s,
        node_reads=node_reads,
        node_bytes=node_reads * assumed.node_bytes,
        list_bytes=assumed.nodes * (assumed.pods * assumed.pod_bytes + assumed.node_bytes),
    )


def herd(assumed: Assumed, spread_s: float) -> tuple[float, float]:
    """Lists and bytes a second while all nodes list, spread over a time."""
    return assumed.nodes / spread_s, watches(assumed).list_bytes / spread_s
