import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.pods.decode import KeyPrefixes
from exporter.agent.sources.pods.labels import (
    MAX_LABELS,
    MAX_VALUE,
    LabelAllowList,
    PodLabels,
    names,
    shown,
)
from exporter.metrics.families import FAMILIES, LEVELS
from exporter.model import Pod, PodTable


def pod(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Pod:
    return Pod("u", "ml", "train", labels=labels or {}, annotations=annotations or {})


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("app", "label_app"),
        ("app.kubernetes.io/name", "label_app_kubernetes_io_name"),
        ("team-a", "label_team_a"),
        ("camelCase", "label_camel_case"),
        ("HTTPServer", "label_httpserver"),
        ("a1B", "label_a1_b"),
        ("9lives", "label_9lives"),
        ("ä", "label__"),
    ],
)
def test_a_key_is_named_as_kube_state_metrics_names_it(key: str, expected: str) -> None:
    assert names("label", [key]) == [expected]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["a-b", "a.b"], ["label_a_b_conflict1", "label_a_b_conflict2"]),
        (["a-b", "a.b", "a_b"], [f"label_a_b_conflict{n}" for n in (1, 2, 3)]),
        (["a-b", "c", "c-d"], ["label_a_b", "label_c", "label_c_d"]),
        # A key that already has the name of a conflict keeps it; the next number is taken.
        (
            ["a-b", "a.b", "a_b_conflict1"],
            ["label_a_b_conflict2", "label_a_b_conflict3", "label_a_b_conflict1"],
        ),
    ],
)
def test_keys_of_one_name_are_numbered(keys: list[str], expected: list[str]) -> None:
    assert names("label", keys) == expected


@given(st.lists(st.text(st.sampled_from("aAbB1-._/ä"), max_size=6), unique=True).map(sorted))
def test_names_are_unique_and_valid_whatever_the_keys(keys: list[str]) -> None:
    made = names("annotation", keys)
    assert len(set(made)) == len(made) == len(keys)
    assert all(re.fullmatch(r"annotation_[a-z0-9_]*", name) for name in made)


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ((), (), {}),
        (("app", "missing"), ("note",), {"label_app": "", "annotation_note": "n"}),
        (("x.io/*",), (), {"label_x_io_a": "1", "label_x_io_b": "2"}),
        (
            ("*",),
            (),
            {"label_app": "", "label_apps": "x", "label_x_io_a": "1", "label_x_io_b": "2"},
        ),
    ],
)
def test_only_what_is_allowed_is_shown_and_what_is_not_there_is_left_out(
    labels: tuple[str, ...], annotations: tuple[str, ...], expected: dict[str, str]
) -> None:
    one = pod({"app": "", "apps": "x", "x.io/a": "1", "x.io/b": "2"}, {"note": "n", "secret": "s"})
    assert shown(one, LabelAllowList(labels, annotations)) == expected


def test_a_long_value_is_cut_where_it_can_be_seen() -> None:
    whole, long = "x" * MAX_VALUE, "x" * (MAX_VALUE + 1)
    made = shown(pod(annotations={"a": whole, "b": long}), LabelAllowList((), ("*",)))
    assert made["annotation_a"] == whole
    assert made["annotation_b"] == "x" * (MAX_VALUE - 1) + "…"


def test_a_pod_with_too_many_shows_the_first_and_is_counted_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = pod({f"k{n:03}": "v" for n in range(MAX_LABELS + 5)})
    several = PodLabels()
    for version in range(3):
        made = several.of(PodTable(version, {"u": one}), LabelAllowList(("*",)))
    assert list(made["u"]) == [f"label_k{n:03}" for n in range(MAX_LABELS)]
    assert several.rejected == {"label_over_limit": 5}
    assert caplog.text.count("ml/train") == 1


def test_labels_follow_the_table_and_the_list() -> None:
    several, table = PodLabels(), PodTable(1, {"u": pod({"a": "1"})})
    assert several.of(table, LabelAllowList(("*",))) == {"u": {"label_a": "1"}}
    assert several.of(table, LabelAllowList(("b",))) == {}
    assert several.of(PodTable(2, {"u": pod({"b": "2"})}), LabelAllowList(("b",))) == {
        "u": {"label_b": "2"}
    }


def test_what_is_allowed_is_kept_of_a_pod_and_what_decoders_read() -> None:
    allowed = LabelAllowList(("app", "x.io/*"), ("*",))
    read = KeyPrefixes(("known/",), ("nvidia.com/",))
    assert allowed.keep(read) == KeyPrefixes(("known/", ""), ("nvidia.com/", "app", "x.io/"))
    assert LabelAllowList().keep(read) == read
    assert allowed.keep(KeyPrefixes(node_annotations=("n/",))).node_annotations == ("n/",)


def test_no_label_of_a_table_begins_as_those_of_pods_do() -> None:
    fixed = {label for f in FAMILIES for label in (*LEVELS[f.level], *f.labels)}
    assert not [label for label in fixed if label.startswith(("label_", "annotation_"))]
