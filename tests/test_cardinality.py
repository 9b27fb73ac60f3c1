"""Where the series come from, and how many values each label has."""

import json

from jsonschema import Draft202012Validator

from exporter.metrics.cardinality import SCHEMA, cardinality
from exporter.metrics.families import FAMILIES, families_without
from exporter.metrics.text import Format, Renderer
from exporter.model import Row, Snapshot
from tests.snapshots import with_every_family
from tests.web.serving import serving

KEYS = ("GPU-0", "GPU-1")
SNAPSHOT = Snapshot(
    version=7,
    rows={
        "device": tuple(
            Row((str(n), uuid), {"up": 1, "unmeasured": {("core", "mig"): 1, ("memory", "mig"): 1}})
            for n, uuid in enumerate(KEYS)
        ),
        "pod": (
            Row(
                ("ml", "train"),
                {"info": {("u", "Burstable", "Job", "j"): 1}},
                {"info": {"label_app": "x"}},
            ),
            Row(("ml", "other"), {"info": {}}),
        ),
        "exporter": (Row((), {"cycles_total": 3}),),
    },
    dropped={"mgpu_container_processes": 4},
    most_series=10,
)


def test_series_are_counted_by_family_the_largest_first() -> None:
    document = cardinality(SNAPSHOT, FAMILIES)

    assert [(each["family"], each["series"], each["dropped"]) for each in document["families"]] == [
        ("mgpu_device_unmeasured", 4, 0),
        ("mgpu_device_up", 2, 0),
        ("mgpu_exporter_cycles_total", 1, 0),
        ("mgpu_pod_info", 1, 0),
        ("mgpu_container_processes", 0, 4),
    ]
    assert (document["series"], document["dropped"], document["limit"]) == (8, 4, 10)


def test_values_of_labels_are_counted_once_each_and_only_where_there_is_a_series() -> None:
    labels = {each["label"]: each["values"] for each in cardinality(SNAPSHOT, FAMILIES)["labels"]}

    assert labels == {
        "gpu": 2,
        "uuid": 2,
        "quantity": 2,
        "reason": 1,
        "namespace": 1,
        "pod": 1,
        "uid": 1,
        "qos": 1,
        "owner_kind": 1,
        "owner_name": 1,
        "label_app": 1,
    }


def test_families_that_are_switched_off_are_not_counted() -> None:
    document = cardinality(SNAPSHOT, families_without(["mgpu_device_unmeasured"]))

    assert document["series"] == 4


def test_the_count_is_that_of_the_page() -> None:
    snapshot = with_every_family()
    page = Renderer().render(snapshot, Format.TEXT).decode()

    samples = [line for line in page.splitlines() if not line.startswith("#")]
    assert cardinality(snapshot, FAMILIES)["series"] == len(samples)


def test_it_is_served_to_whom_may_see_it_with_its_schema() -> None:
    with serving(SNAPSHOT) as site:
        answer = site.ask("/api/v1/cardinality")
        schema = json.loads(site.ask("/api/v1/cardinality/schema").body)

    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("application/json")
    assert schema == SCHEMA
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(json.loads(answer.body))
    assert json.loads(answer.body) == cardinality(SNAPSHOT, FAMILIES)


def test_it_is_counted_anew_for_a_new_snapshot_and_new_rules() -> None:
    with serving(SNAPSHOT) as site:
        first = json.loads(site.ask("/api/v1/cardinality").body)
        site.pages.use(Renderer(families_without(["mgpu_device_up"])), site.pages._writers.compat)
        second = json.loads(site.ask("/api/v1/cardinality").body)

    assert first["series"] - second["series"] == 2
