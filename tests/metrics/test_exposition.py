import itertools
import math
import re
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporter.metrics.families import FAMILIES, LEVELS, FamilyOf
from exporter.metrics.text import Format, Renderer, written
from exporter.model import (
    Averages,
    ContainerHolding,
    ContainerKey,
    Engines,
    HeldMemory,
    Number,
    PodFacts,
    PodInfo,
    Snapshot,
    SourceStatus,
    Unmeasured,
    Used,
)
from tests.snapshots import container, exporter, snapshot_of, with_every_family

LABELS = 'namespace="ml",pod="train",container="main",gpu="0",uuid="GPU-1"'


def page(snapshot: Snapshot, form: Format = Format.TEXT) -> str:
    return Renderer().render(snapshot, form).decode()


def lines(**fields: Any) -> list[str]:
    text = page(snapshot_of(containers=[container(**fields)]))
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("number", "divisor", "text"),
    [
        (85_899_345_920, 1, "85899345920"),
        (2**60 + 1, 1, "1152921504606846977"),
        (1_500_000_000, 10**9, "1.5"),
        (0, 10**9, "0.0"),
        (1, 10**6, "1e-06"),
        (0.1, 1, "0.1"),
        (1e22, 1, "1e+22"),
        (1.0, 1, "1.0"),
        (math.inf, 1, "+Inf"),
        (-math.inf, 1, "-Inf"),
        (math.nan, 1, "NaN"),
        (True, 1, "1"),
    ],
)
def test_a_number_is_written_in_its_base_unit(number: Number, divisor: int, text: str) -> None:
    name = {1: "x", 10**6: "x_joules", 10**9: "x_seconds"}[divisor]
    family: FamilyOf[Any] = FamilyOf("container", name, "X.", lambda _: number)
    written_as = Renderer([family]).render(snapshot_of(containers=[container()]), Format.TEXT)

    assert written_as.decode().splitlines()[-1] == f"mgpu_container_{name}{{{LABELS}}} {text}"


@pytest.mark.parametrize(
    ("form", "family"),
    [
        (Format.TEXT, "mgpu_container_core_seconds_total"),
        (Format.OPENMETRICS, "mgpu_container_core_seconds"),
    ],
)
def test_openmetrics_names_a_counters_family_without_total(form: Format, family: str) -> None:
    snapshot = snapshot_of(containers=[container(used=Used(Engines(10**9)))])

    about = next(f.help for f in FAMILIES if f.full_name == "mgpu_container_core_seconds_total")
    assert page(snapshot, form) == (
        f"# HELP {family} {about}\n"
        f"# TYPE {family} counter\n"
        f"mgpu_container_core_seconds_total{{{LABELS}}} 1.0\n"
    )


def test_own_labels_follow_those_of_the_level() -> None:
    assert lines(unmeasured={"encoder": Unmeasured.MIG}) == [
        f'mgpu_container_unmeasured{{{LABELS},quantity="encoder",reason="mig"}} 1'
    ]


@pytest.mark.parametrize("form", Format)
def test_further_labels_of_an_open_family_follow_its_own(form: Format) -> None:
    more = {"label_app": 'a"b', "annotation_x": "1\n2"}
    info = PodInfo("u", "", "Job", "j")
    pods = [
        PodFacts(namespace="ml", name="a", info=info, core_limit=0.5),
        PodFacts(namespace="ml", name="b", info=info._replace(labels=more), core_limit=0.5),
    ]
    own = 'uid="u",qos="",owner_kind="Job",owner_name="j"'

    text = page(snapshot_of(pods=pods), form)

    assert f'mgpu_pod_info{{namespace="ml",pod="a",{own}}} 1\n' in text
    further = r'label_app="a\"b",annotation_x="1\n2"'
    assert f'mgpu_pod_info{{namespace="ml",pod="b",{own},{further}}} 1\n' in text
    assert 'mgpu_pod_core_limit_gpus{namespace="ml",pod="b"} 0.5\n' in text
    read = read_text if form is Format.TEXT else read_openmetrics
    end = "" if form is Format.TEXT else "# EOF\n"
    samples = [s for family in read(text + end) for s in family.samples if "info" in s.name]
    assert samples[1].labels["annotation_x"] == "1\n2"


def test_a_level_without_labels_has_no_braces() -> None:
    text = page(Snapshot(exporter=exporter(cycles=3, sources=(SourceStatus("nvml", up=False),))))

    assert "\nmgpu_exporter_cycles_total 3\n" in text
    assert '\nmgpu_exporter_source_up{source="nvml"} 0\n' in text


def test_a_family_without_samples_is_left_out() -> None:
    text = page(snapshot_of(containers=[container(memory=HeldMemory(processes=1))]))

    assert [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")] == [
        "mgpu_container_processes"
    ]


def test_a_family_is_left_out_of_the_page_of_other_levels() -> None:
    assert Renderer().render(with_every_family(), Format.TEXT, ()) == b""


def used_by(namespace: str) -> PodFacts:
    return PodFacts(namespace=namespace, name="p", used=Used(Engines(1)))


def test_families_are_in_the_order_of_the_table() -> None:
    text = page(with_every_family())

    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert names == [family.full_name for family in FAMILIES]


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_series_are_in_the_order_of_their_labels(order: tuple[str, ...]) -> None:
    text = page(snapshot_of(pods=[used_by(namespace) for namespace in order]))

    assert re.findall('namespace="(.)"', text) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('say "x"', r"say \"x\""),
        ("back\\slash", r"back\\slash"),
        ("two\nlines", r"two\nlines"),
        ("Grüße 🙂", "Grüße 🙂"),
        ("\udc80", r"\\udc80"),
        ("", ""),
    ],
)
def test_label_text_is_escaped(value: str, text: str) -> None:
    whole = page(snapshot_of(pods=[used_by(value)]))

    assert f'{{namespace="{text}",pod="p"}}' in whole


def test_half_surrogates_of_two_pods_stay_apart() -> None:
    text = page(snapshot_of(pods=[used_by("\udc80"), used_by("\udc81")]))

    assert len({line for line in text.splitlines() if line[0] != "#"}) == 2


@pytest.mark.parametrize(
    ("form", "help_line"),
    [
        (Format.TEXT, r'# HELP mgpu_pod_x a "b" \\ c\nd'),
        (Format.OPENMETRICS, r"# HELP mgpu_pod_x a \"b\" \\ c\nd"),
    ],
)
def test_help_is_escaped_as_the_format_asks(form: Format, help_line: str) -> None:
    renderer = Renderer([FamilyOf("pod", "x", 'a "b" \\ c\nd', lambda _: 1)])

    text = renderer.render(snapshot_of(pods=[used_by("n")]), form).decode()

    assert text.splitlines()[0] == help_line


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
AMOUNTS = st.none() | st.integers(0, 2**70)
NUMBERS = st.none() | st.floats() | st.integers(-(2**70), 2**70)
NUMBERS_HELD = st.none() | st.integers(-(2**70), 2**70)
CONTAINERS = st.lists(
    st.builds(
        container,
        st.builds(ContainerKey, TEXTS, TEXTS, TEXTS),
        TEXTS,
        used=st.builds(lambda core, energy: Used(Engines(core), energy), AMOUNTS, AMOUNTS),
        average=NUMBERS.map(Averages),
        memory=NUMBERS_HELD.map(HeldMemory),
        last_active_unix_ns=st.none() | st.integers(0, 2**62),
        unmeasured=st.dictionaries(TEXTS, st.sampled_from(Unmeasured), max_size=3),
    ),
    max_size=5,
    unique_by=lambda one: (one.owner, one.uuid),
)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@given(st.integers(0, 2**60), st.sampled_from([10**9, 10**6]))
def test_an_account_is_written_as_the_float_that_it_is(amount: int, divisor: int) -> None:
    assert written(amount, divisor) == repr(amount / divisor)


@pytest.mark.parametrize("divisor", [10**9, 10**6])
@pytest.mark.parametrize("near", [10**6, 10**9, 10**15, 2**51, 2**52, 2**53, 9 * 10**15])
def test_large_accounts_are_written_as_the_floats_that_they_are(near: int, divisor: int) -> None:
    for amount in range(near - 2000, near + 2000):
        assert written(amount, divisor) == repr(amount / divisor)


def expected(holdings: Iterable[ContainerHolding]) -> Samples:
    samples: Samples = {}
    for held in holdings:
        level = (*held.owner, "0", held.uuid)
        known: list[tuple[str, tuple[tuple[str, str], ...], Number | None, int]] = [
            ("core_seconds_total", (), held.used.busy.core, 10**9),
            ("energy_joules_total", (), held.used.energy_uj, 10**6),
            ("core_utilization_ratio", (), held.average.core, 1),
            ("memory_used_bytes", (), held.memory.used_bytes, 1),
            ("last_active_timestamp_seconds", (), held.last_active_unix_ns, 10**9),
        ]
        known += [
            ("unmeasured", (("quantity", quantity), ("reason", str(reason))), 1, 1)
            for quantity, reason in held.unmeasured.items()
        ]
        for name, own, number, divisor in known:
            if number is not None:
                labels = frozenset((*zip(LEVELS["container"], level, strict=True), *own))
                samples[f"mgpu_container_{name}", labels] = float(number / divisor)
    return samples


def read(text: str, form: Format) -> Iterable[Metric]:
    if form is Format.TEXT:
        return list(read_text(text))
    return list(read_openmetrics(f"{text}# EOF\n"))  # type: ignore[no-untyped-call]


def parsed(metrics: Iterable[Metric]) -> Samples:
    samples = [sample for metric in metrics for sample in metric.samples]
    found = {(s.name, frozenset(s.labels.items())): s.value for s in samples}
    assert len(found) == len(samples)
    return found


@pytest.mark.parametrize("form", Format)
@given(holdings=CONTAINERS)
def test_the_clients_parser_reads_back_what_was_meant(
    form: Format, holdings: list[ContainerHolding]
) -> None:
    text = page(snapshot_of(containers=holdings), form)

    assert parsed(read(text, form)) == pytest.approx(expected(holdings), rel=0, abs=0, nan_ok=True)


def test_every_family_is_valid_openmetrics() -> None:
    metrics = read(page(with_every_family(), Format.OPENMETRICS), Format.OPENMETRICS)

    assert {sample.name for metric in metrics for sample in metric.samples} == {
        family.full_name for family in FAMILIES
    }


@pytest.mark.program("promtool")
def test_promtool_finds_nothing_to_say() -> None:
    text = page(with_every_family())

    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )

    assert (done.stdout + done.stderr, done.returncode) == ("", 0)
