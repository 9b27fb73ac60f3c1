"""Reviews are cached, limited and fail closed: real requests to a real server, hostile ones too."""

import asyncio
import logging
import threading
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from exporter.agent.web import ReviewLimits, Verdicts
from exporter.agent.web.verdicts import Client
from exporter.agent.web.views import namespaces_of
from exporter.model import Facts, NamespaceFacts, PodFacts, Right, Subject
from tests.agent.api.nodes import demo
from tests.agent.simulation.clock import SECOND, ManualClock
from tests.agent.sources.pods.apistate import Account
from tests.agent.web.reviewing import EVERYWHERE, SNAPSHOT, Guarded, ask, bearer, of, user
from tests.agent.web.serving import PATIENCE_S, Site, serving

EXTRA = "authentication.kubernetes.io/credential-id"

# Caches


def test_a_verdict_is_asked_for_once_a_minute(guarded: Guarded) -> None:
    with guarded.site() as site:
        for _ in range(5):
            assert ask(site, "/metrics", "scraper").status == 200
        assert (guarded.asked("identify"), guarded.asked("permit")) == (1, 1)
        site.clock.now_ns += 61 * SECOND
        assert ask(site, "/metrics", "scraper").status == 200
    assert (guarded.asked("identify"), guarded.asked("permit")) == (2, 2)


def test_a_right_that_was_taken_ends_within_a_minute_and_one_that_was_given_begins_sooner(
    guarded: Guarded,
) -> None:
    accounts = {
        "none": Account(user("late")),
        "metrics": Account(user("late"), rights={("get", "/metrics")}),
    }
    steps = (
        ("keep", 0, 401),
        ("none", 0, 401),  # the token was unknown a moment ago
        ("keep", 11, 403),
        ("metrics", 0, 403),
        ("keep", 31, 200),
        ("none", 0, 200),
        ("keep", 61, 403),
        ("remove", 0, 403),
        ("keep", 61, 401),
    )
    with guarded.site() as site:
        for change, seconds, status in steps:
            if change in accounts:
                guarded.server.add_account("token-of-late", accounts[change])
            elif change == "remove":
                guarded.server.remove_account("token-of-late")
            site.clock.now_ns += seconds * SECOND
            assert ask(site, "/metrics", "late").status == status, (change, seconds)


def test_wrong_tokens_do_not_push_out_right_ones(guarded: Guarded) -> None:
    with guarded.site(limits=ReviewLimits(cached=3)) as site:
        assert ask(site, "/metrics", "scraper").status == 200
        for number in range(10):
            assert ask(site, "/metrics", f"stranger-{number}").status == 401
        asked = guarded.asked("identify")
        assert ask(site, "/metrics", "scraper").status == 200
        assert guarded.asked("identify") == asked
        assert ask(site, "/metrics", "stranger-0").status == 401  # forgotten, so asked again
        assert guarded.asked("identify") == asked + 1


# The API server fails


def test_without_the_api_server_nobody_new_is_let_in(guarded: Guarded) -> None:
    with guarded.site() as site:
        assert ask(site, "/metrics", "scraper").status == 200
        guarded.server.stop()
        assert ask(site, "/metrics", "scraper").status == 200  # of the cache
        closed = ask(site, "/metrics", "viewer")
        assert site.ask("/-/healthy").status == 200
        site.clock.now_ns += 61 * SECOND
        late = ask(site, "/metrics", "scraper")
        assert site.ask("/metrics").status == 401
        guarded.server.start()
        assert ask(site, "/metrics", "scraper").status == 200
    assert {closed.status, late.status} == {503}
    assert closed.body == (
        b"the API server cannot be asked for your rights; the exporter's log says why\n"
    )
    assert closed.headers["Retry-After"] == "1"


def test_a_malformed_answer_lets_nobody_in(guarded: Guarded) -> None:
    with guarded.site() as site:
        for kind in ("identify", "permit"):
            for body in (b"", b"{}", b'{"kind": "Status"}', b"\xff" * 1000):
                guarded.server.answer_reviews_with(kind, body)
                assert ask(site, "/metrics", "scraper").status == 503
                assert ask(site, "/", "viewer").status == 503
            guarded.server.answer_reviews_with(kind, None)
        assert ask(site, "/metrics", "scraper").status == 200


def test_the_log_says_once_why_nobody_is_let_in(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    guarded.server.fail("identify", 403, "no", times=3)
    with guarded.site() as site:
        statuses = [ask(site, "/metrics", "scraper").status for _ in range(4)]
    assert statuses == [503, 503, 503, 200]
    lines = [r.getMessage() for r in caplog.records if r.name == "exporter.agent.web.verdicts"]
    assert len(lines) == 2
    assert "tokenreviews: create" in lines[0]
    assert lines[1] == "clients are let in again"


def test_no_token_is_in_any_log(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    guarded.server.fail("identify", 500, "cannot review token-of-scraper", times=1)
    with guarded.site() as site:
        for name in ("scraper", "viewer", "stranger"):
            ask(site, "/metrics", name)
        guarded.server.stop()
        ask(site, "/metrics", "other")
    assert "token-of" not in "\n".join(str(vars(record)) for record in caplog.records)


# Hostile clients


def test_what_cannot_be_a_token_is_not_asked_about(guarded: Guarded) -> None:
    two = f"Authorization: {bearer('viewer')}\r\n" * 2
    given = (
        *("Bearer", "Bearer ", "Bearer a b", "Bearer " + "x" * 6145, "Bearer t\u00f6ken"),
        *('Bearer "quoted"', "Token token-of-viewer", "Basic token-of-viewer"),
        "Basic " + b64encode(b"token-of-viewer").decode(),
        "Basic " + b64encode(b"x:\xff\xfe").decode(),
    )
    with guarded.site() as site:
        for each in given:
            assert site.ask("/metrics", Authorization=each).status == 401, each
        with site.raw() as client:
            client.sendall(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\n{two}\r\n".encode())
            assert client.recv(100).startswith(b"HTTP/1.1 401")
        assert guarded.asked("identify") == 0
        # a token to any eye; only JSON carries it
        assert site.ask("/metrics", Authorization="Bearer ../../etc").status == 401


def statuses(site: Site, names: list[str], address: str = "127.0.0.2") -> list[int]:
    """Ask for the metrics with each token at the same time."""
    got: list[int] = []

    def one(name: str) -> None:
        got.append(site.ask("/metrics", source=address, Authorization=bearer(name)).status)

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def test_reviews_that_run_at_once_are_few_and_health_is_answered(guarded: Guarded) -> None:
    guarded.server.hold("identify")
    with guarded.site(limits=ReviewLimits(at_once=2, wait_s=0.2)) as site:
        made: list[int] = []
        strangers = [f"stranger-{number}" for number in range(20)]
        flood = threading.Thread(target=lambda: made.extend(statuses(site, strangers)))
        flood.start()
        guarded.server.wait_for_requests("identify", 2)
        assert site.ask("/-/healthy").status == 200
        flood.join(0.5)
        assert guarded.asked("identify") <= 4  # two at once, and one retry each at most
        guarded.server.release()
        flood.join()
    assert set(made) <= {401, 503}
    assert made.count(503) >= 16


def test_a_flood_of_tokens_reaches_the_api_server_slowly(guarded: Guarded) -> None:
    limits = ReviewLimits(burst=5, interval_s=60.0, wait_s=0.2, request_s=60.0)
    with guarded.site(limits=limits) as site:
        got = statuses(site, [f"stranger-{number}" for number in range(40)])
    assert guarded.asked("identify") == 5
    assert (got.count(401), got.count(503)) == (5, 35)


def test_a_flood_does_not_keep_out_who_was_let_in_before(guarded: Guarded) -> None:
    limits = ReviewLimits(burst=3, interval_s=60.0, wait_s=0.2)
    with guarded.site(limits=limits) as site:
        assert ask(site, "/metrics", "scraper").status == 200
        statuses(site, [f"stranger-{number}" for number in range(20)])
        site.clock.now_ns += 61 * SECOND
        assert ask(site, "/metrics", "viewer").status == 503  # new, behind the flood
        assert ask(site, "/metrics", "scraper").status == 200


def test_many_tokens_of_one_tenant_do_not_keep_out_a_known_viewer(guarded: Guarded) -> None:
    limits = ReviewLimits(burst=12, interval_s=60.0, wait_s=3.0, request_s=60.0, allowed_s=3600.0)
    accounts = [f"system:serviceaccount:mallory:{number % 2}" for number in range(8)]
    for number, account in enumerate(accounts):
        named = user(account) | {"extra": {EXTRA: [f"JTI={number}"]}}
        guarded.server.add_account(f"token-of-fresh-{number}", Account(named))
    with guarded.site(limits=limits) as site:
        assert ask(site, SNAPSHOT, "tenant").status == 200
        site.clock.now_ns += 31 * SECOND  # what he may not is asked again, and what he may is not
        before = guarded.asked("permit")
        flood = statuses(site, [f"fresh-{number}" for number in range(8)])
        # /metrics, for each of the two accounts; again where one was not answered in time
        assert guarded.asked("permit") - before <= 2 + flood.count(503)
        statuses(site, [f"stranger-{number}" for number in range(20)])
        assert ask(site, SNAPSHOT, "tenant").status == 200
    assert set(flood) <= {403, 503}


def test_all_reviews_of_a_request_have_one_deadline(guarded: Guarded) -> None:
    with guarded.site(limits=ReviewLimits(request_s=0.2, wait_s=PATIENCE_S)) as site:
        guarded.server.hold("permit")
        late = ask(site, SNAPSHOT, "tenant")
        guarded.server.release()
        while ask(site, SNAPSHOT, "tenant").status != 200:  # what was asked is not lost
            pass
    assert (late.status, late.headers["Retry-After"]) == (503, "1")
    assert b"takes too long" in late.body


def test_requests_at_once_share_a_review(guarded: Guarded) -> None:
    guarded.server.hold("identify")
    with guarded.site() as site:
        made: list[int] = []
        crowd = threading.Thread(target=lambda: made.extend(statuses(site, ["scraper"] * 20)))
        crowd.start()
        guarded.server.wait_for_requests("identify", 1)
        guarded.server.release()
        crowd.join()
    assert made == [200] * 20
    assert guarded.asked("identify") <= 2


@pytest.mark.parametrize("turns", range(6))
def test_a_request_that_comes_as_a_review_ends_shares_it(turns: int) -> None:
    asked: list[str] = []

    class Reviewer:
        def identify(self, token: str) -> Subject | None:
            asked.append(token)
            return None

        def permits(self, subject: Subject, right: Right) -> bool:
            asked.append(f"{subject.name} {right.path}")
            return False

        def close(self) -> None: ...

    async def crowd(ask: Callable[[], Awaitable[object]]) -> None:
        """Ask in each turn of the loop, some turns after the request was made, until one knows."""

        async def request(turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await ask()

        def turn() -> None:
            if not requests[0].done():
                asyncio.get_running_loop().call_soon(turn)
                requests.append(asyncio.create_task(request(turns)))

        requests = [asyncio.create_task(request(0))]
        asyncio.get_running_loop().call_soon(turn)
        await requests[0]
        await asyncio.gather(*requests)

    async def run() -> None:
        verdicts = Verdicts(Reviewer(), ManualClock())
        client, right = Client(Subject("nobody")), Right("get", path="/metrics")
        await crowd(lambda: verdicts.permits(client, right))
        await crowd(lambda: verdicts.identify("stranger", "127.0.0.1"))
        verdicts.close()

    asyncio.run(run())
    assert asked == ["nobody /metrics", "stranger"]


def test_reviews_are_counted_by_outcome(guarded: Guarded) -> None:
    verdicts = guarded.verdicts()
    assert set(verdicts.reviews.values()) == {0}
    with serving(demo(), verdicts=verdicts, address=EVERYWHERE) as site:
        for name in ("scraper", "scraper", "viewer", "stranger"):
            ask(site, "/metrics", name)
        guarded.server.stop()
        ask(site, "/metrics", "tenant")
    verdicts.close()
    counted = {key: count for key, count in verdicts.reviews.items() if count}
    assert counted == {
        ("token", "allowed"): 2,
        ("token", "denied"): 1,
        ("token", "failed"): 1,
        ("right", "allowed"): 1,
        ("right", "denied"): 1,
    }


def test_of_many_namespaces_those_of_pods_that_are_there_are_asked_about_first(
    guarded: Guarded,
) -> None:
    """An exporter that runs for months has seen more namespaces than it asks about."""
    there = PodFacts(namespace="inference", name="chat-0", ended=False)
    ended = [PodFacts(namespace=f"ci-{number:04}", name="job", ended=True) for number in range(64)]
    seen = [NamespaceFacts(f"a-{number:04}", "GPU-0") for number in range(64)]
    facts = Facts(pods=(*ended, there), namespaces=tuple(seen))
    snapshot = replace(demo(), measured=lambda: facts)
    limits = ReviewLimits(burst=10_000, wait_s=PATIENCE_S, request_s=PATIENCE_S)
    with guarded.site(snapshot, limits) as site:
        assert of(site, SNAPSHOT, "tenant")["namespaces_shown"] == ["inference"]
    assert namespaces_of(snapshot)[0] == "inference"
    assert guarded.asked("permit") == 129 + 2
