"""The node's clock, held against the others that can be seen from here."""

from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from time import time_ns

from exporter.doctor.evidence import Evidence
from exporter.doctor.finding import Finding, note, ok, problem
from exporter.pods.failure import ApiError
from exporter.wiring import places_of

SECOND_NS = 10**9
RELEASED_UNIX_NS = 1_760_000_000 * SECOND_NS  # October 2025: nothing ran before it was written
MOST_SKEW_S = 5
TIMEOUT_S = 5.0
_SYNCHRONISE = "see that chrony, ntpd or systemd-timesyncd runs on this node"


def clock(evidence: Evidence) -> Iterator[Finding]:
    """Plausible, steady, and like that of the driver and the API server."""
    begun, ended = evidence.begun, evidence.ended
    if ended.unix_ns < RELEASED_UNIX_NS:
        yield problem("time", "lies before this program was written", _SYNCHRONISE)
        return
    jump_ns = (ended.unix_ns - begun.unix_ns) - (ended.mono_ns - begun.mono_ns)
    if abs(jump_ns) > SECOND_NS:
        found = f"was set by {jump_ns / SECOND_NS:+.1f} s while it was looked at"
        yield problem("time", found, _SYNCHRONISE)
    else:
        yield ok("time", "moves as it should")
    if evidence.settings.simulate:
        return
    yield from _driver(evidence)
    yield from _server(evidence)


def _driver(evidence: Evidence) -> Iterator[Finding]:
    """A sample's time is the node's: how old the newest one is, and that it is not to come."""
    if not evidence.windows:
        return
    age_s = (evidence.ended.unix_ns - max(evidence.windows.values())) / SECOND_NS
    if -1 <= age_s <= MOST_SKEW_S:
        yield ok("driver's time", f"its newest sample is {max(age_s, 0):.1f} s old")
    else:
        found = f"its newest sample is of {age_s:+.1f} s ago"
        yield note("driver's time", found, "the clock may have been set since the driver loaded")


def _server(evidence: Evidence) -> Iterator[Finding]:
    places = places_of(evidence.settings)
    if evidence.settings.pods_source not in {"auto", "api"} or places.credentials() is None:
        return
    try:
        client = places.to_api()()
        try:
            with client.get("/version", {}, TIMEOUT_S) as stream:
                told = parsedate_to_datetime(stream.date)
        finally:
            client.close()
    except (ApiError, ValueError):  # said elsewhere; or it tells no time
        return
    skew_s = time_ns() / SECOND_NS - told.timestamp()
    if abs(skew_s) > MOST_SKEW_S:
        yield problem("API server's time", f"differs by {skew_s:+.0f} s", _SYNCHRONISE)
    else:
        yield ok("API server's time", "is the same")
