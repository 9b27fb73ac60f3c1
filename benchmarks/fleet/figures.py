"""What a run found, for each unit of work. Pure."""

from statistics import mean
from typing import NamedTuple

from benchmarks.fleet.history import Kept
from benchmarks.fleet.live import Live, Moment
from benchmarks.fleet.recorded import Recorded

APPENDED = "prometheus_tsdb_head_samples_appended_total"
HEAD = "prometheus_tsdb_head_series"
AGENT_ADDED = "prometheus_agent_samples_appended_total"
RULES_S = "prometheus_rule_group_duration_seconds_sum"
SENT, SENT_BYTES = (
    "prometheus_remote_storage_samples_total",
    "prometheus_remote_storage_bytes_total",
)
FAILED = "prometheus_remote_storage_samples_failed_total"
ROWS = "vm_rows_inserted_total"
MILLION = 1_000_000
MINUTE_S = 60


class Cost(NamedTuple):
    """What one server needs: memory for each series, CPU seconds for a million samples."""

    bytes_per_series: float
    cpu_s_per_million: float


class Figures(NamedTuple):
    """All that the extrapolation stands on, and what else is worth telling. Times in seconds."""

    nodes: int
    every_s: int
    seconds: float
    standard_samples: float
    standard_plain: float
    standard_zipped: float
    samples_per_s: float
    head_series: float
    recorded: Recorded
    scrape_p50: float
    scrape_p99: float
    failed_scrapes: float
    rules_s: float
    zone: Cost
    agent: Cost
    storage: Cost
    sent_bytes_per_sample: float
    recorded_bytes_per_sample: float
    lost: float
    agent_wal_per_sample: float
    block_bytes_per_sample: float
    victoria_bytes_per_sample: float
    late: int

    @property
    def rules_cpu_s(self) -> float:
        """CPU of the rules in a minute: what the zone's Prometheus needs beyond an agent.

        It keeps the samples besides, so that this is too much rather than too little. Unlike the
        time that an evaluation takes, it depends little on what else runs on the machine.
        """
        beyond = self.zone.cpu_s_per_million - self.agent.cpu_s_per_million
        return beyond / MILLION * self.samples_per_s * MINUTE_S

    @property
    def rules_s_per_million(self) -> float:
        """The same for a million series."""
        return self.rules_cpu_s / self.head_series * MILLION


def figures(live: Live, kept: tuple[Kept, Kept], recorded: Recorded) -> Figures:
    """Work them out."""
    begin, end = live.begin, live.end
    seconds = end.at_s - begin.at_s
    pages = [page for page in live.pages if page.kind == "standard"]
    appended = _rise(begin.zone.sum(APPENDED), end.zone.sum(APPENDED))
    sent = _rise(begin.agent.sum(SENT), end.agent.sum(SENT))
    sent_on = _rise(begin.zone.sum(SENT), end.zone.sum(SENT))
    sent_bytes = _rise(begin.agent.sum(SENT_BYTES), end.agent.sum(SENT_BYTES))
    sent_on_bytes = _rise(begin.zone.sum(SENT_BYTES), end.zone.sum(SENT_BYTES))
    series = end.zone.sum(HEAD)
    return Figures(
        nodes=live.nodes,
        every_s=live.every_s,
        seconds=seconds,
        standard_samples=mean(page.samples for page in pages),
        standard_plain=mean(page.plain for page in pages),
        standard_zipped=mean(page.zipped for page in pages),
        samples_per_s=appended / seconds,
        head_series=series,
        recorded=recorded,
        scrape_p50=live.answers["scrape p50"],
        scrape_p99=live.answers["scrape p99"],
        failed_scrapes=live.answers["failed scrapes"],
        rules_s=_rise(begin.zone.sum(RULES_S), end.zone.sum(RULES_S)) / seconds * MINUTE_S,
        zone=_cost(live, "zone", series, appended),
        agent=_cost(live, "agent", end.agent.sum("prometheus_agent_active_series"), sent),
        storage=_cost(
            live, "storage", series, _rise(begin.storage.sum(ROWS), end.storage.sum(ROWS))
        ),
        sent_bytes_per_sample=sent_bytes / sent,
        recorded_bytes_per_sample=sent_on_bytes / max(sent_on, 1),
        lost=end.agent.sum(FAILED) + end.zone.sum(FAILED),
        agent_wal_per_sample=live.disk["agent wal"] / end.agent.sum(AGENT_ADDED),
        block_bytes_per_sample=kept[0].bytes_per_sample,
        victoria_bytes_per_sample=kept[1].bytes_per_sample,
        late=live.late,
    )


def _cost(live: Live, server: str, series: float, samples: float) -> Cost:
    """Memory over that of the idle server; the CPU of the time that was measured."""
    idle, begin, end = (_used(moment, server) for moment in (live.idle, live.begin, live.end))
    return Cost((end[1] - idle[1]) / series, (end[0] - begin[0]) / samples * MILLION)


def _used(moment: Moment, server: str) -> tuple[float, int]:
    usage = moment.used[server]
    return usage.cpu_s, usage.rss_bytes


def _rise(before: float, after: float) -> float:
    return after - before
