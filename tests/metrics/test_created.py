"""The start times of counters: OpenMetrics' ``_created``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from exporter.metrics.text import Format, Renderer
from exporter.model import (
    ContainerHolding,
    Device,
    DeviceFacts,
    Engines,
    NamespaceFacts,
    Snapshot,
    Unexplained,
    Used,
)
from tests.snapshots import container, snapshot_of, with_every_family

STARTED = 1_700_000_000
NS = 10**9
CORE = "mgpu_container_core_seconds"
SPACE = "mgpu_namespace_core_seconds"
REASON = "mgpu_device_unexplained_core_seconds"


def read(page: bytes) -> list[Metric]:
    text = page.decode() + "# EOF\n"
    return list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]


def snapshot(at: int, **facts: Sequence[Any]) -> Snapshot:
    made = snapshot_of(**facts)
    return replace(made, unix_ns=(STARTED + at) * NS, started_unix_ns=STARTED * NS)


def used_since(unix_ns: int | None = None) -> ContainerHolding:
    return container(used=Used(Engines(NS)), since_unix_ns=unix_ns)


def namespace(name: str) -> NamespaceFacts:
    return NamespaceFacts(name, "GPU-1", Used(Engines(NS)))


def device(*reasons: Unexplained) -> DeviceFacts:
    unexplained = dict.fromkeys(reasons, 1)
    return DeviceFacts(device=Device("GPU-1", 0, "nvidia"), unexplained_ns=unexplained)


def starts(renderer: Renderer, shown: Snapshot, family: str, label: str) -> dict[str, float]:
    """Seconds from the collector's start to each series', by one of its labels."""
    page = renderer.render(shown, Format.OPENMETRICS)
    samples = [s for f in read(page) if f.name == family for s in f.samples]
    return {
        s.labels[label]: round(s.value - STARTED, 3) for s in samples if s.name.endswith("_created")
    }


def test_every_counter_has_a_start_and_nothing_else_has() -> None:
    page = Renderer(created=True).render(with_every_family(), Format.OPENMETRICS)

    for family in read(page):
        kinds = [sample.name.removeprefix(family.name) for sample in family.samples]
        counted, dated = kinds.count("_total"), kinds.count("_created")
        assert dated == (counted if family.type == "counter" else 0), family.name


def test_a_start_follows_its_counter() -> None:
    shown = snapshot(60, namespaces=[namespace("a"), namespace("b")])
    page = Renderer(created=True).render(shown, Format.OPENMETRICS).decode()

    lines = [line.partition("{")[0] for line in page.splitlines() if line[0] != "#"]
    assert lines == [f"{SPACE}_total", f"{SPACE}_created"] * 2


def test_pages_are_without_starts_unless_asked_for_and_in_text_format() -> None:
    every = with_every_family()

    assert b"_created{" not in Renderer().render(every, Format.OPENMETRICS)
    assert Renderer(created=True).render(every, Format.TEXT) == Renderer().render(
        every, Format.TEXT
    )


def test_on_the_first_page_a_counter_began_with_the_collector() -> None:
    shown = snapshot(3600, namespaces=[namespace("a")])

    assert starts(Renderer(created=True), shown, SPACE, "namespace") == {"a": 0}


def test_a_counter_that_is_new_on_a_page_began_after_the_page_before() -> None:
    renderer = Renderer(created=True)
    starts(renderer, snapshot(15, namespaces=[namespace("a")]), SPACE, "namespace")

    for at in (30, 45):
        shown = snapshot(at, namespaces=[namespace("a"), namespace("b")])
        assert starts(renderer, shown, SPACE, "namespace") == {"a": 0, "b": 15}


def test_a_container_began_when_it_was_first_observed() -> None:
    since = (STARTED + 1800) * NS + 999_999
    shown = snapshot(3600, containers=[used_since(since)])

    assert starts(Renderer(created=True), shown, CORE, "pod") == {"train": 1800}


def test_a_container_that_ended_keeps_its_start() -> None:
    renderer = Renderer(created=True)
    since = (STARTED + 20) * NS
    live = snapshot(30, containers=[used_since(since)])
    assert starts(renderer, live, CORE, "pod") == {"train": 20}

    assert starts(renderer, snapshot(45, containers=[used_since()]), CORE, "pod") == {"train": 20}


def test_a_series_that_left_and_came_back_began_again() -> None:
    renderer = Renderer(created=True)
    for at, shown in ((15, [namespace("a")]), (30, [namespace("b")])):
        starts(renderer, snapshot(at, namespaces=shown), SPACE, "namespace")

    again = snapshot(45, namespaces=[namespace("a"), namespace("b")])
    assert starts(renderer, again, SPACE, "namespace") == {"a": 30, "b": 15}


def test_each_label_of_a_family_has_its_own_start() -> None:
    renderer = Renderer(created=True)
    starts(renderer, snapshot(15, devices=[device(Unexplained.CAP)]), REASON, "reason")

    both = snapshot(30, devices=[device(Unexplained.CAP, Unexplained.NO_PROCESS)])
    assert starts(renderer, both, REASON, "reason") == {"cap": 0, "no_process": 15}


def test_starts_last_when_the_settings_are_read_again() -> None:
    before, after = Renderer(created=True), Renderer(created=True)
    for at, shown in ((15, []), (30, [namespace("a")])):
        starts(before, snapshot(at, namespaces=shown), SPACE, "namespace")

    after.follow(before)

    assert starts(after, snapshot(45, namespaces=[namespace("a")]), SPACE, "namespace") == {"a": 15}
