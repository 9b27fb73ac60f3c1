import pytest

from exporter.shown.kinds import count_nouns, is_without_pods, noun


@pytest.mark.parametrize(
    ("sources", "pods", "groups", "expected"),
    [
        (["pods_none"], [], [], True),
        (["pods_api"], [], [{}], False),
        (["pods_kubelet"], [], [{}], False),
        (["pods_simulated"], [], [{}], True),
        (["pods_simulated"], [], [], False),
        (["pods_simulated"], [{}], [{}], False),
        ([], [], [], False),
    ],
)
def test_a_node_is_without_pods_where_nothing_looks_for_them(
    sources: list[str], pods: list[object], groups: list[object], *, expected: bool
) -> None:
    document = {"sources": [{"name": name} for name in sources], "pods": pods, "groups": groups}

    assert is_without_pods(document) is expected


def test_owners_are_counted_by_what_people_call_them() -> None:
    kinds = ["systemd", "docker", "slurm", "podman", "slurm", "odd"]

    assert count_nouns(kinds) == {"job": 2, "container": 2, "unit": 1, "group": 1}
    assert list(count_nouns(kinds)) == ["job", "container", "unit", "group"]
    assert noun("odd") == "group"
