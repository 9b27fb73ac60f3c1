"""Lines of the log about one namespace's bad items leave those about another's."""

import logging

import pytest

from exporter.agent.sources.source import MAX_LINES, MAX_OF_OWNER, Rejections

Logs = pytest.LogCaptureFixture


def test_a_namespace_with_many_bad_items_hides_no_line_about_another(caplog: Logs) -> None:
    rejections = Rejections()
    for number in range(1000):
        rejections.reject("pod_unreadable", f"pod tenant/p{number}", owner="tenant")
    rejections.reject("pod_unreadable", "pod victim/train", owner="victim")
    rejections.once(logging.WARNING, "the node cannot be read")

    own = [line for line in caplog.messages if "tenant/" in line]
    assert len(own) == MAX_OF_OWNER
    assert own[-1].endswith("more like this are counted and not logged")
    assert caplog.messages[-2:] == [
        "pod victim/train is left out: pod_unreadable",
        "the node cannot be read",
    ]
    assert rejections.counts() == {"pod_unreadable": 1001}


def test_what_is_remembered_of_lines_is_bounded(caplog: Logs) -> None:
    """Namespaces come and go for years."""
    rejections = Rejections()
    for number in range(MAX_LINES + 100):
        rejections.reject("pod_unreadable", f"pod n{number}/p", owner=f"n{number}")
    assert len(rejections._logged) == MAX_LINES
    assert len(caplog.messages) == MAX_LINES + 100
