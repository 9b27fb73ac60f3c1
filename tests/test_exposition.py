import itertools
import math
import pickle
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporter.metrics.families import FAMILIES, LEVELS, Family
from exporter.metrics.text import Format, Renderer, written
from exporter.model import Number, Row, Snapshot, Value
from tests.snapshots import row_of, with_every_family

WORDS = ("ml", "train", "main", "0", "GPU-1")
LABELS = 'namespace="ml",pod="train",container="main",gpu="0",uuid="GPU-1"'


def page(snapshot: Snapshot, form: Format = Format.TEXT) -> str:
    return Renderer().render(snapshot, form).decode()


def lines(**values: Value) -> list[str]:
    text = page(Snapshot(rows=row_of("container", *WORDS, **values)))
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("memory_used_bytes", 85_899_345_920, "85899345920"),
        ("memory_used_bytes", 2**60 + 1, "1152921504606846977"),
        ("core_seconds_total", 1_500_000_000, "1.5"),
        ("core_seconds_total", 0, "0.0"),
        ("energy_joules_total", 1, "1e-06"),
        ("core_utilization_ratio", 0.1, "0.1"),
        ("core_utilization_ratio", 1e22, "1e+22"),
        ("core_utilization_ratio", math.inf, "+Inf"),
        ("core_utilization_ratio", -math.inf, "-Inf"),
        ("core_utilization_ratio", math.nan, "NaN"),
        ("core_utilization_ratio", True, "1.0"),
    ],
)
def test_a_number_is_written_in_its_base_unit(name: str, number: Number, text: str) -> None:
    assert lines(**{name: number}) == [f"mgpu_container_{name}{{{LABELS}}} {text}"]


@pytest.mark.parametrize(
    ("form", "family"),
    [
        (Format.TEXT, "mgpu_container_core_seconds_total"),
        (Format.OPENMETRICS, "mgpu_container_core_seconds"),
    ],
)
def test_openmetrics_names_a_counters_family_without_total(form: Format, family: str) -> None:
    snapshot = Snapshot(rows=row_of("container", *WORDS, core_seconds_total=10**9))

    about = "GPU-seconds used: core (SM) busy time, from NVML process utilization as parts of the"
    rest = "device's busy time; of AMD an estimate by the compute units occupied at each sample"
    assert page(snapshot, form) == (
        f"# HELP {family} {about} {rest}.\n"
        f"# TYPE {family} counter\n"
        f"mgpu_container_core_seconds_total{{{LABELS}}} 1.0\n"
    )


def test_own_labels_follow_those_of_the_level() -> None:
    assert lines(unmeasured={("encoder", "mig"): 1}) == [
        f'mgpu_container_unmeasured{{{LABELS},quantity="encoder",reason="mig"}} 1'
    ]


@pytest.mark.parametrize("form", Format)
def test_further_labels_of_an_open_family_follow_its_own(form: Format) -> None:
    values: dict[str, Value] = {"info": {("u", "", "Job", "j"): 1}, "core_limit_gpus": 0.5}
    more = {"info": {"label_app": 'a"b', "annotation_x": "1\n2"}}
    rows = {"pod": (Row(("ml", "a"), values), Row(("ml", "b"), values, more))}
    own = 'uid="u",qos="",owner_kind="Job",owner_name="j"'

    text = page(Snapshot(rows=rows), form)

    assert f'mgpu_pod_info{{namespace="ml",pod="a",{own}}} 1\n' in text
    further = r'label_app="a\"b",annotation_x="1\n2"'
    assert f'mgpu_pod_info{{namespace="ml",pod="b",{own},{further}}} 1\n' in text
    assert 'mgpu_pod_core_limit_gpus{namespace="ml",pod="b"} 0.5\n' in text
    read = read_text if form is Format.TEXT else read_openmetrics
    end = "" if form is Format.TEXT else "# EOF\n"
    samples = [s for family in read(text + end) for s in family.samples if "info" in s.name]
    assert samples[1].labels["annotation_x"] == "1\n2"


def test_a_family_that_is_not_open_has_no_further_labels() -> None:
    rows = {"container": (Row(WORDS, {"memory_used_bytes": 1}, {"memory_used_bytes": {"a": "b"}}),)}

    assert 'a="b"' not in page(Snapshot(rows=rows))


def test_a_level_without_labels_has_no_braces() -> None:
    values: dict[str, Value] = {"cycles_total": 3, "source_up": {("nvml",): 0}}
    text = page(Snapshot(rows=row_of("exporter", **values)))

    assert "\nmgpu_exporter_cycles_total 3\n" in text
    assert '\nmgpu_exporter_source_up{source="nvml"} 0\n' in text


def test_a_family_without_samples_is_left_out() -> None:
    text = page(Snapshot(rows=row_of("container", *WORDS, processes=1, unmeasured={})))

    assert [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")] == [
        "mgpu_container_processes"
    ]


def test_a_family_is_left_out_of_the_page_of_other_levels() -> None:
    assert Renderer().render(with_every_family(), Format.TEXT, ()) == b""


def test_order_is_the_tables_then_the_labels() -> None:
    rows = {"pod": tuple(Row((n, "p"), {"core_seconds_total": 1}) for n in ("b", "a"))}
    text = page(Snapshot(rows={**with_every_family().rows, **rows}))

    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert text.index('mgpu_pod_core_seconds_total{namespace="a"') < text.index(
        'mgpu_pod_core_seconds_total{namespace="b"'
    )
    in_rows = [f.full_name for f in FAMILIES if f.level != "pod" or f.name == "core_seconds_total"]
    assert names == in_rows


def test_the_order_of_rows_does_not_matter() -> None:
    rows = [Row((n, "p"), {"core_seconds_total": 1}) for n in "abc"]

    assert page(Snapshot(rows={"pod": tuple(rows)})) == page(
        Snapshot(rows={"pod": tuple(reversed(rows))})
    )


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
    whole = page(Snapshot(rows=row_of("pod", value, "p", core_seconds_total=1)))

    assert f'{{namespace="{text}",pod="p"}}' in whole


def test_half_surrogates_of_two_rows_stay_apart() -> None:
    rows = {"pod": tuple(Row((n, "p"), {"core_seconds_total": 1}) for n in ("\udc80", "\udc81"))}
    samples = [line for line in page(Snapshot(rows=rows)).splitlines() if line[0] != "#"]

    assert len(set(samples)) == 2


@pytest.mark.parametrize(
    ("form", "help_line"),
    [
        (Format.TEXT, r'# HELP mgpu_pod_x a "b" \\ c\nd'),
        (Format.OPENMETRICS, r"# HELP mgpu_pod_x a \"b\" \\ c\nd"),
    ],
)
def test_help_is_escaped_as_the_format_asks(form: Format, help_line: str) -> None:
    renderer = Renderer([Family("pod", "x", 'a "b" \\ c\nd')])

    text = renderer.render(Snapshot(rows=row_of("pod", "n", "p", x=1)), form).decode()

    assert text.splitlines()[0] == help_line


def test_nothing_is_cached_of_rows_that_went() -> None:
    renderer = Renderer()
    values: dict[str, Value] = {"info": {("gone", "2", "3", "4"): 1}, "core_limit_gpus": 0.625}
    sizes = []
    for number in range(100):
        snapshot = Snapshot(rows=row_of("pod", "n", f"pod-{number:02}", **values))
        renderer.render(snapshot, Format.TEXT)
        sizes.append(len(pickle.dumps(renderer)))

    assert len(set(sizes[1:])) == 1
    renderer.render(Snapshot(), Format.TEXT)
    kept = pickle.dumps(renderer)
    assert not [text for text in (b"pod-99", b"gone", b"0.625") if text in kept]


def test_numbers_of_a_few_pages_are_kept_and_no_more() -> None:
    renderer, sizes = Renderer(), []
    for number in range(100, 300):
        rows = row_of(
            *("pod", "n", "p"),
            core_seconds_total=number * 10**9,
            memory_used_bytes=number + 10**6,
            core_limit_gpus=number + 0.625,
        )
        renderer.render(Snapshot(rows=rows), Format.TEXT)
        sizes.append(len(pickle.dumps(renderer)))

    kept = pickle.dumps(renderer)
    assert b"299.625" in kept
    assert not [number for number in range(100, 290) if f"{number}.625".encode() in kept]
    assert max(sizes) == max(sizes[:10])


@pytest.mark.parametrize("numbers", list(itertools.permutations([1, 1.0, True])))
def test_numbers_that_are_equal_are_each_written_as_what_they_are(
    numbers: tuple[Number, ...],
) -> None:
    renderer, labels = Renderer(), ("u", "", "Job", "j")
    for number in numbers:
        values: dict[str, Value] = {"core_limit_gpus": number, "info": {labels: number}}
        text = renderer.render(Snapshot(rows=row_of("pod", "n", "p", **values)), Format.TEXT)

        written_as = [line.split()[-1] for line in text.decode().splitlines() if line[0] != "#"]
        assert written_as == ["1" if type(number) is int else "1.0"] * 2


def test_further_labels_that_change_beside_the_same_values_are_written_anew() -> None:
    renderer = Renderer()
    values: dict[str, Value] = {"info": {("u", "", "Job", "j"): 1}}
    for further in ({}, {"label_app": "a"}, {"label_app": "b"}, {"label_team": "b"}, {}):
        rows = {"pod": (Row(("ml", "a"), values, {"info": further}),)}
        snapshot = Snapshot(rows=rows)

        text = renderer.render(snapshot, Format.TEXT).decode()

        [sample] = [sample for family in read_text(text) for sample in family.samples]
        assert {n: v for n, v in sample.labels.items() if n.startswith("label_")} == further


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
AMOUNTS = st.integers(0, 2**70)
NUMBERS = st.floats() | st.integers(-(2**70), 2**70)
ROWS = st.dictionaries(
    st.tuples(*[TEXTS] * 5),
    st.fixed_dictionaries(
        {},
        optional={
            "core_seconds_total": AMOUNTS,
            "energy_joules_total": AMOUNTS,
            "core_utilization_ratio": NUMBERS,
            "memory_used_bytes": NUMBERS,
            "last_active_timestamp_seconds": st.integers(0, 2**62),
            "unmeasured": st.dictionaries(st.tuples(TEXTS, TEXTS), NUMBERS, max_size=3),
        },
    ),
    max_size=5,
)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


NAMES = st.tuples(st.sampled_from("ab"), st.sampled_from("xy"))
POD = st.tuples(
    st.fixed_dictionaries(
        {},
        optional={
            "core_seconds_total": st.integers(0, 3) | st.integers(10**9, 10**17),
            "core_limit_gpus": st.sampled_from([0, 1, 0.0, 1.0, 0.1, math.nan, True]),
            "info": st.dictionaries(
                st.tuples(*[st.sampled_from("ab")] * 4), st.sampled_from([1, 2, 1.0])
            ),
        },
    ),
    st.sampled_from([{}, {"info": {"label_a": "1"}}, {"info": {"label_a": "2"}}]),
)
PODS = st.dictionaries(NAMES, POD) | st.fixed_dictionaries({("a", "x"): POD})  # often the same one
PAGES = st.lists(
    st.tuples(PODS, st.sampled_from(Format), st.sampled_from([("pod",), tuple(LEVELS), ()])),
    max_size=8,
)


@given(PAGES)
def test_a_page_is_what_it_would_be_without_those_before_it(
    pages: list[tuple[Any, Format, tuple[str, ...]]],
) -> None:
    renderer = Renderer()
    for pods, form, levels in pages:
        rows = tuple(Row(labels, values, more) for labels, (values, more) in pods.items())
        snapshot = Snapshot(rows={"pod": rows, "exporter": (Row((), {"cycles_total": 1}),)})

        assert renderer.render(snapshot, form, levels) == Renderer().render(snapshot, form, levels)


@given(st.integers(0, 2**60), st.sampled_from([10**9, 10**6]))
def test_an_account_is_written_as_the_float_that_it_is(amount: int, divisor: int) -> None:
    assert written(amount, divisor) == repr(amount / divisor)


@pytest.mark.parametrize("divisor", [10**9, 10**6])
@pytest.mark.parametrize("near", [10**6, 10**9, 10**15, 2**51, 2**52, 2**53, 9 * 10**15])
def test_large_accounts_are_written_as_the_floats_that_they_are(near: int, divisor: int) -> None:
    for amount in range(near - 2000, near + 2000):
        assert written(amount, divisor) == repr(amount / divisor)


def expected(rows: dict[tuple[str, ...], dict[str, Value]]) -> Samples:
    families = {family.name: family for family in FAMILIES if family.level == "container"}
    samples: Samples = {}
    for labels, values in rows.items():
        for name, value in values.items():
            family = families[name]
            for own, number in value.items() if isinstance(value, Mapping) else [((), value)]:
                pairs = zip((*LEVELS[family.level], *family.labels), (*labels, *own), strict=True)
                samples[family.full_name, frozenset(pairs)] = float(number / family.divisor)
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
@given(rows=ROWS)
def test_the_clients_parser_reads_back_what_was_meant(
    form: Format, rows: dict[tuple[str, ...], dict[str, Value]]
) -> None:
    container = tuple(Row(labels, values) for labels, values in rows.items())

    text = page(Snapshot(rows={"container": container}), form)

    assert parsed(read(text, form)) == pytest.approx(expected(rows), rel=0, abs=0, nan_ok=True)


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


def test_a_page_that_failed_leaves_nothing_of_the_page_before_in_the_next_ones() -> None:
    renderer = Renderer()
    name, beyond = "core_seconds_total", 10**400  # a float cannot be so large
    others = (*WORDS[:-1], "GPU-2")

    def render(labels: tuple[str, ...], number: Number) -> str:
        snapshot = Snapshot(rows=row_of("container", *labels, **{name: number}))
        return renderer.render(snapshot, Format.TEXT).decode()

    render(WORDS, 1)
    for _ in range(2):
        with pytest.raises(OverflowError):
            render(others, beyond)

    assert render(others, 1) == page(Snapshot(rows=row_of("container", *others, **{name: 1})))
