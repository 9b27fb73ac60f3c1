"""Checks of the exporter's own process, and of the node's clock."""

import os
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from itertools import chain
from resource import RLIM_INFINITY, RLIMIT_NOFILE
from time import time_ns

import psutil

from exporter.agent.collector.wiring import places_of
from exporter.agent.doctor.evidence import CheckResult, ProbeResults, note, ok, problem
from exporter.agent.settings import TABLE, load
from exporter.apiserver.serveranswers import ApiError
from exporter.model import MIB, SECOND_NS

LEAST_FILES = 1024  # a pidfd for each process on a GPU, a connection for each scraper


def exporter(evidence: ProbeResults) -> Iterator[CheckResult]:
    """Settings, cycle interval, user and limits of this process."""
    settings, default = evidence.settings, load({}, {})
    differs = (f for f in TABLE if getattr(settings, f) != getattr(default, f))
    changed = ", ".join(TABLE[field].name for field in differs)
    file = f"file {settings.config_file}" if settings.config_file else "no settings file"
    yield ok("settings", f"{file}; {f'set: {changed}' if changed else 'all defaults'}")
    yield ok("pace", f"a cycle every {settings.collection_interval_ns / SECOND_NS:g} s")
    process = psutil.Process()
    user = os.geteuid()
    yield ok("user", "root" if user == 0 else f"uid {user}")
    files = process.rlimit(RLIMIT_NOFILE)[0]
    if files != RLIM_INFINITY and files < LEAST_FILES:
        remedy = f"allow {LEAST_FILES}: each process on a GPU and each scraper takes one"
        yield note("open files", f"{files} at most", remedy)
    free = psutil.virtual_memory().available // MIB
    yield ok("memory", f"{process.memory_info().rss // MIB} MiB in use, {free} MiB free here")


RELEASED_UNIX_NS = 1_760_000_000 * SECOND_NS  # October 2025: nothing ran before it was written
MAX_SKEW_S = 5
TIMEOUT_S = 5.0
_SYNCHRONISE = "see that chrony, ntpd or systemd-timesyncd runs on this node"


def clock(evidence: ProbeResults) -> Iterator[CheckResult]:
    """The node's clock: plausible, steady, and equal to those of the driver and the API server."""
    begun, ended = evidence.begun, evidence.ended
    # A machine that has not asked a time server yet may be in 1970. Certificates are not valid
    # then, and all other checks of time would follow from this one.
    if ended.unix_ns < RELEASED_UNIX_NS:
        yield problem("time", "is before this program was written", _SYNCHRONISE)
        return
    # Nobody sets the monotonic clock. Where the other one has gone another way, it was set.
    jump_ns = (ended.unix_ns - begun.unix_ns) - (ended.mono_ns - begun.mono_ns)
    if abs(jump_ns) > SECOND_NS:
        found = f"was changed by {jump_ns / SECOND_NS:+.1f} s during the check"
        yield problem("time", found, _SYNCHRONISE)
    else:
        yield ok("time", "is steady")
    if evidence.settings.simulate:
        return
    yield from _driver(evidence)
    yield from _server(evidence)


def _driver(evidence: ProbeResults) -> Iterator[CheckResult]:
    """The age of the newest sample of NVIDIA's driver; others' samples have our own clock."""
    of_nvml = (r.devices for r in evidence.readings if r.status.name == "nvml")
    uuids = {reading.device.uuid for reading in chain.from_iterable(of_nvml)}
    ends = [end for uuid, end in evidence.windows.items() if uuid in uuids]
    if not ends:
        return
    age_s = (evidence.ended.unix_ns - max(ends)) / SECOND_NS
    if -1 <= age_s <= MAX_SKEW_S:
        yield ok("driver's time", f"its newest sample is {max(age_s, 0):.1f} s old")
    else:
        found = f"its newest sample is {age_s:+.1f} s old"
        yield note("driver's time", found, "the clock may have been set since the driver loaded")


def _server(evidence: ProbeResults) -> Iterator[CheckResult]:
    places = places_of(evidence.settings)
    if evidence.settings.pods_source not in {"auto", "api"} or places.credentials() is None:
        return
    try:
        client = places.to_api()()
        try:
            with client.get("/version", {}, TIMEOUT_S) as stream:
                server = parsedate_to_datetime(stream.date)
        finally:
            client.close()
    except (ApiError, ValueError):  # reported elsewhere; or the answer has no time
        return
    # The header Date has whole seconds, and was written before it arrived: some seconds mean
    # nothing. Our own time is read now: the checks before this one have waited for servers.
    skew_s = time_ns() / SECOND_NS - server.timestamp()
    if abs(skew_s) > MAX_SKEW_S:
        yield problem("API server's time", f"differs by {skew_s:+.0f} s", _SYNCHRONISE)
    else:
        yield ok("API server's time", "is the same")
