import gzip
import json
from urllib.parse import quote

import pytest

from exporter.model import Snapshot
from tests.api.nodes import HOSTILE, demo, hostile
from tests.api.validation import validate
from tests.web.serving import SECOND, Site, serving

CHAT = "/api/v1/pods/inference/chat-7b-6c9f7d9c5b-x2lqz"
WHOLE = ["snapshot", "devices", "history"]


@pytest.mark.parametrize("answer", WHOLE)
def test_an_answer_is_json_as_the_schema_says(answer: str) -> None:
    with serving(demo()) as site:
        got = site.ask(f"/api/v1/{answer}")

    assert got.status == 200
    assert got.headers["Content-Type"] == "application/json"
    validate(answer, json.loads(got.body))


def test_a_pod_is_found_by_its_names() -> None:
    with serving(demo()) as site:
        got = site.ask(CHAT)

    document = json.loads(got.body)
    validate("pod", document)
    assert (got.status, document["pod"]["pod"]) == (200, CHAT.rpartition("/")[2])


@pytest.mark.parametrize("name", HOSTILE[:-1])
def test_a_pod_of_any_name_is_found(name: str) -> None:
    part = quote(name, safe="", errors="surrogatepass")
    with serving(hostile()) as site:
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
def test_what_is_not_there_is_a_404_in_json(path: str) -> None:
    with serving(demo()) as site:
        got = site.ask(f"/api/v1/{path}")

    document = json.loads(got.body)
    validate("error", document)
    assert (got.status, got.headers["Content-Type"]) == (404, "application/json")
    assert "Set-Cookie" not in got.headers


def test_the_schema_is_served_to_everybody() -> None:
    with serving(demo()) as site:
        got = site.ask("/api/v1/schema")

    assert got.headers["Content-Type"] == "application/schema+json"
    assert json.loads(got.body)["$schema"].startswith("https://json-schema.org/draft/2020-12")


@pytest.mark.parametrize("path", [*(f"/api/v1/{answer}" for answer in WHOLE), CHAT])
def test_zipped_and_plain_say_the_same(path: str) -> None:
    with serving(demo()) as site:
        plain, zipped = site.ask(path), site.ask(path, Accept_Encoding="gzip")

    assert zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == plain.body
    assert plain.headers["Etag"] != zipped.headers["Etag"]
    assert plain.headers["Vary"] == "Accept-Encoding"


def test_an_answer_that_the_client_has_is_not_sent_again() -> None:
    with serving(demo()) as site:
        tag = site.ask("/api/v1/snapshot").headers["Etag"]
        known = site.ask("/api/v1/snapshot", If_None_Match=f'"other", {tag}')
        unknown = site.ask("/api/v1/snapshot", If_None_Match='"other"')
        any_tag = site.ask("/api/v1/snapshot", If_None_Match="*")
        nonsense = site.ask("/api/v1/snapshot", If_None_Match='"; W/')

    assert (known.status, known.body, known.headers["Etag"]) == (304, b"", tag)
    assert (unknown.status, any_tag.status, nonsense.status) == (200, 304, 200)


def test_a_new_snapshot_has_another_tag() -> None:
    with serving(demo(3)) as site:
        before = site.ask("/api/v1/snapshot")
        site.show(demo(4))
        after = site.ask("/api/v1/snapshot", If_None_Match=before.headers["Etag"])

    assert after.status == 200
    assert json.loads(after.body)["snapshot"]["number"] == 4


def test_the_age_is_that_of_the_answer_and_of_the_header_together() -> None:
    with serving(demo()) as site:
        site.clock.now_ns += SECOND // 2
        first = site.ask("/api/v1/snapshot")
        site.clock.now_ns += 3 * SECOND
        later = site.ask("/api/v1/snapshot")

    assert json.loads(first.body)["snapshot"]["age_seconds"] == 0.5
    assert later.body == first.body
    assert (first.headers["Age"], later.headers["Age"]) == ("0", "3")


def test_a_stale_snapshot_is_not_told_and_its_age_goes_on() -> None:
    with serving(demo()) as site:
        ages = [_stale_age(site) for _ in range(2)]

    assert ages == [12, 24]


def _stale_age(site: Site) -> float:
    site.clock.now_ns += 12 * SECOND
    document = json.loads(site.ask("/api/v1/snapshot").body)
    assert document["snapshot"]["stale"]
    assert document["pods"] == []
    age: float = document["snapshot"]["age_seconds"]
    return age


def test_before_the_first_cycle_there_is_nothing_and_that_is_said() -> None:
    with serving(Snapshot()) as site:
        document = json.loads(site.ask("/api/v1/snapshot").body)

    assert (document["snapshot"]["number"], document["devices"]) == (0, [])


@pytest.mark.parametrize("path", ["/api/v1/snapshot", "/api/v1/schema", CHAT])
def test_there_is_nothing_but_reading(path: str) -> None:
    with serving(demo()) as site:
        head, post = site.ask(path, "HEAD"), site.ask(path, "POST")

    assert (head.status, head.body, post.status) == (200, b"", 405)


def test_no_answer_is_kept_by_the_browser() -> None:
    with serving(demo()) as site:
        assert site.ask("/api/v1/snapshot").headers["Cache-Control"] == "no-store"
