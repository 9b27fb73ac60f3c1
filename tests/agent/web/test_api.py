import gzip
import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from exporter.model import Snapshot
from tests.agent.api.nodes import HOSTILE, demo, hostile
from tests.agent.api.validation import validate
from tests.agent.simulation.clock import SECOND
from tests.agent.web.serving import Site, serving

CHAT = "/api/v1/pods/inference/chat-7b-6c9f7d9c5b-x2lqz"
SNAPSHOT = "/api/v1/snapshot"
ANSWERS = {f"/api/v1/{name}": name for name in ("snapshot", "devices", "history")} | {CHAT: "pod"}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One for all tests that change nothing of it."""
    with serving(demo()) as running:
        yield running


@pytest.mark.parametrize("path", ANSWERS)
def test_an_answer_is_json_as_the_schema_says_zipped_or_plain(site: Site, path: str) -> None:
    plain, zipped = site.ask(path), site.ask(path, Accept_Encoding="gzip")

    assert plain.status == 200
    assert plain.headers["Content-Type"] == "application/json"
    validate(ANSWERS[path], json.loads(plain.body))
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == plain.body
    assert plain.headers["Etag"] != zipped.headers["Etag"]
    assert plain.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["Cache-Control"] == "no-store"


def test_a_pod_of_any_name_is_found() -> None:
    with serving(hostile()) as site:
        for name in HOSTILE[:-1]:
            part = quote(name, safe="", errors="surrogatepass")
            got = site.ask(f"/api/v1/pods/{part}/{part}")
            if name in {"\ud800", "../../../etc/passwd"}:  # no URL can say it
                assert got.status in {200, 400, 404}
            else:
                assert json.loads(got.body)["pod"]["pod"] == name


@pytest.mark.parametrize(
    "path",
    [
        "pods/inference/none",
        "pods/none/chat-7b-6c9f7d9c5b-x2lqz",
        "pods/%00/%0d%0aSet-Cookie:x",
        "pods/..%2f..%2fetc/passwd",
        "pods/" + "x" * 2000 + "/y",
        "pods/%ff/%fe",
        "pods/inference",
        "nothing",
        "",
    ],
)
def test_what_is_not_there_is_a_404_in_json(site: Site, path: str) -> None:
    got = site.ask(f"/api/v1/{path}")

    validate("error", json.loads(got.body))
    assert (got.status, got.headers["Content-Type"]) == (404, "application/json")
    assert "Set-Cookie" not in got.headers


def test_the_schema_is_served(site: Site) -> None:
    got = site.ask("/api/v1/schema")

    assert got.headers["Content-Type"] == "application/schema+json"
    assert json.loads(got.body)["$schema"].startswith("https://json-schema.org/draft/2020-12")


def test_an_answer_that_the_client_has_is_not_sent_again(site: Site) -> None:
    tag = site.ask(SNAPSHOT).headers["Etag"]
    known = site.ask(SNAPSHOT, If_None_Match=f'"other", {tag}')
    others = {each: site.ask(SNAPSHOT, If_None_Match=each).status for each in ('"x"', "*", '"; W/')}

    assert (known.status, known.body, known.headers["Etag"]) == (304, b"", tag)
    assert others == {'"x"': 200, "*": 304, '"; W/': 200}


def test_a_new_snapshot_has_another_tag() -> None:
    with serving(demo(3)) as site:
        before = site.ask(SNAPSHOT)
        site.show(demo(4))
        after = site.ask(SNAPSHOT, If_None_Match=before.headers["Etag"])

    assert after.status == 200
    assert json.loads(after.body)["snapshot"]["number"] == 4


def test_the_age_is_that_of_the_answer_and_of_the_header_together() -> None:
    with serving(demo()) as site:
        site.clock.now_ns += SECOND // 2
        first = site.ask(SNAPSHOT)
        site.clock.now_ns += 3 * SECOND
        later = site.ask(SNAPSHOT)

    assert json.loads(first.body)["snapshot"]["age_seconds"] == 0.5
    assert later.body == first.body
    assert (first.headers["Age"], later.headers["Age"]) == ("0", "3")


def test_the_age_of_a_stale_snapshot_goes_on() -> None:
    heads = []
    with serving(demo()) as site:
        for _ in range(2):
            site.clock.now_ns += 12 * SECOND
            heads.append(json.loads(site.ask(SNAPSHOT).body)["snapshot"])

    assert [(head["stale"], head["age_seconds"]) for head in heads] == [(True, 12), (True, 24)]


def test_before_the_first_cycle_there_is_nothing_and_that_is_said() -> None:
    with serving(Snapshot()) as site:
        document = json.loads(site.ask(SNAPSHOT).body)

    assert (document["snapshot"]["number"], document["devices"]) == (0, [])


@pytest.mark.parametrize(
    ("minutes", "status"),
    [
        *(("1", 200), ("60", 200), ("61", 400), ("0", 400), ("x", 400), ("", 400), ("%D9%A1", 400)),
        *(("0001999", 400), ("00060", 200), ("1" * 5000, 400)),
    ],
)
def test_a_history_is_of_so_many_minutes(site: Site, minutes: str, status: int) -> None:
    assert site.ask(f"/api/v1/history?minutes={minutes}").status == status
