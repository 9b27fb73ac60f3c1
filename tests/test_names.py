"""Variables and names that are not known."""

import pytest

from exporter.agent.settings import TABLE, unknown_variables
from exporter.agent.settings.table import _SERVICE_LINK
from exporter.answers.reading.accessflags import VARIABLES
from exporter.inputs.problems import meant

# What the kubelet sets for Services named mgpu-exporter and mgpu, each with one or two ports.
SERVICE_LINKS = (
    "MGPU_EXPORTER_SERVICE_HOST",
    "MGPU_EXPORTER_SERVICE_PORT",
    "MGPU_EXPORTER_SERVICE_PORT_METRICS",
    "MGPU_EXPORTER_SERVICE_PORT_HTTP_METRICS",
    "MGPU_EXPORTER_PORT",
    "MGPU_EXPORTER_PORT_10045_TCP",
    "MGPU_EXPORTER_PORT_10045_TCP_PROTO",
    "MGPU_EXPORTER_PORT_10045_TCP_PORT",
    "MGPU_EXPORTER_PORT_10045_TCP_ADDR",
    "MGPU_EXPORTER_PORT_53_UDP_ADDR",
    "MGPU_SERVICE_HOST",
    "MGPU_PORT",
)


@pytest.mark.parametrize("name", SERVICE_LINKS)
def test_a_clusters_service_links_are_not_meant_for_us(name: str) -> None:
    assert unknown_variables({name: "tcp://10.0.0.1:10045"}) == []


def test_no_setting_looks_like_a_service_link() -> None:
    assert not [s.variable for s in TABLE.values() if _SERVICE_LINK.fullmatch(s.variable)]


def test_a_settings_own_variable_is_known() -> None:
    assert unknown_variables({setting.variable: "" for setting in TABLE.values()}) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MGPU_WEB_LISTEN_ADDRES", "; did you mean MGPU_WEB_LISTEN_ADDRESS?"),
        ("MGPU_LISTEN_ADDRESS", "; did you mean MGPU_WEB_LISTEN_ADDRESS?"),
        ("MGPU_ZZZ", ""),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest(name: str, said: str) -> None:
    assert unknown_variables({name: ""}) == [f"unknown variable ${name} is ignored{said}"]


def test_what_is_like_nothing_is_compared_with_nothing() -> None:
    assert meant("quite-another", ["serve", "record"]) == ""


def test_what_tells_top_and_snapshot_where_to_look_is_not_taken_for_a_setting() -> None:
    assert unknown_variables(dict.fromkeys(VARIABLES, "")) == []
