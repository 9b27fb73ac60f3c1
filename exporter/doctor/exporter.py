"""This process itself: its settings, its rights, and what it may use."""

import os
from collections.abc import Iterator
from resource import RLIM_INFINITY, RLIMIT_NOFILE

import psutil

from exporter.collector.keeper import widest
from exporter.doctor.evidence import Evidence
from exporter.doctor.finding import Finding, note, ok
from exporter.settings import TABLE, Settings, load
from exporter.wiring import cycle_rules

LEAST_FILES = 1024  # a pidfd for each process on a GPU, a connection for each scraper
MIB = 1 << 20
SECOND_NS = 10**9


def exporter(evidence: Evidence) -> Iterator[Finding]:
    """What was set, and as whom it runs."""
    yield _settings(evidence)
    yield _pace(evidence.settings)
    process = psutil.Process()
    user = os.geteuid()
    yield ok("user", "root" if user == 0 else f"uid {user}")
    files = process.rlimit(RLIMIT_NOFILE)[0]
    if files != RLIM_INFINITY and files < LEAST_FILES:
        remedy = f"allow {LEAST_FILES}: each process on a GPU and each scraper takes one"
        yield note("open files", f"{files} at most", remedy)
    free = psutil.virtual_memory().available // MIB
    yield ok("memory", f"{process.memory_info().rss // MIB} MiB in use, {free} MiB free here")


def _settings(evidence: Evidence) -> Finding:
    settings, default = evidence.settings, load({}, {})
    differs = (f for f in TABLE if getattr(settings, f) != getattr(default, f))
    changed = ", ".join(TABLE[field].name for field in differs)
    file = f"file {settings.config_file}" if settings.config_file else "no settings file"
    return ok("settings", f"{file}; {f'set: {changed}' if changed else 'all as by default'}")


def _pace(settings: Settings) -> Finding:
    rules = cycle_rules(settings)
    cycle = f"a cycle every {rules.interval_ns / SECOND_NS:g} s"
    if not rules.budget:
        return ok("pace", f"{cycle}; no CPU budget is set (--collection.budget)")
    budget = f"a budget of {100 * rules.budget:g} % of a CPU"
    if widest(rules) == 1:
        remedy = "the budget changes nothing: shorten --collection.interval, or do without one"
        return note("pace", f"{cycle}, as seldom as may be; {budget}", remedy)
    longest_s = rules.interval_ns * widest(rules) / SECOND_NS
    return ok("pace", f"{cycle}, up to {longest_s:g} s apart while more is used than {budget}")
