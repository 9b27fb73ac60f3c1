import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.web.negotiation import accepts_gzip, choose_format
from exporter.metrics.text import Format

TEXT = "text/plain; version=0.0.4; charset=utf-8"
TEXT_1 = "text/plain; version=1.0.0; charset=utf-8; escaping="
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;q=0.7,"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
        ("text/plain", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("text/plain;version=1.0.0;escaping=allow-utf-8", f"{TEXT_1}allow-utf-8"),
        ("text/plain;version=1.0.0", f"{TEXT_1}underscores"),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text;version=0.0.1", TEXT),
        ("application/openmetrics-text;version=1.0.0", f"{OPENMETRICS}; escaping=underscores"),
        ("application/openmetrics-text;version=2.0.0", f"{OPENMETRICS}; escaping=underscores"),
        ("application/openmetrics-text;version=2.x", f"{OPENMETRICS}; escaping=underscores"),
        ("application/openmetrics-text;version=new", TEXT),
        (PROMETHEUS_3, f"{OPENMETRICS}; escaping=allow-utf-8"),
        (PROMETHEUS_2_42, f"{OPENMETRICS}; escaping=underscores"),
        (PROTOBUF + PROMETHEUS_3, f"{OPENMETRICS}; escaping=allow-utf-8"),
        ("application/openmetrics-text;q=0,text/plain", TEXT),
        ("application/openmetrics-text;q=0.1,text/plain;version=1.0.0", f"{TEXT_1}underscores"),
    ],
)
def test_the_format_is_what_the_client_wants_most(accept: str, content_type: str) -> None:
    choice = choose_format(accept)

    assert choice.content_type == content_type
    assert (choice.form is Format.OPENMETRICS) == content_type.startswith("application/")


@pytest.mark.parametrize(
    ("accept_encoding", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=x", False),
        ("identity", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("zstd, br", False),
    ],
)
def test_gzip_is_sent_to_who_accepts_it(accept_encoding: str, accepted: bool) -> None:  # noqa: FBT001 - a table
    assert accepts_gzip(accept_encoding) is accepted


@given(st.text(), st.lists(st.sampled_from([";", ",", "=", "q", "version", "text/plain", "1"])))
def test_no_header_is_an_error(text: str, parts: list[str]) -> None:
    for header in (text, "".join(parts), f"application/openmetrics-text;version={text}"):
        assert choose_format(header).content_type.endswith(("utf-8", "underscores"))
        assert accepts_gzip(header) in {True, False}
