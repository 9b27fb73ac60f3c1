import pytest

from exporter.shown.kinds import count_nouns, is_off_kubernetes, noun


@pytest.mark.parametrize(
    ("sources", "pods", "groups", "expected"),
    [
        (["pods_none"], False, False, True),
        (["pods_api"], False, True, False),
        (["pods_kubelet"], False, True, False),
        (["pods_simulated"], False, True, True),
        (["pods_simulated"], False, False, False),
        (["pods_simulated"], True, True, False),
        ([], False, False, False),
    ],
)
def test_a_node_is_without_pods_where_nothing_looks_for_them(
    sources: list[str], *, pods: bool, groups: bool, expected: bool
) -> None:
    assert is_off_kubernetes(sources, has_pods=pods, has_groups=groups) is expected


def test_owners_are_counted_by_what_people_call_them() -> None:
    kinds = ["systemd", "docker", "slurm", "podman", "slurm", "odd"]

    assert count_nouns(kinds) == {"job": 2, "container": 2, "unit": 1, "group": 1}
    assert list(count_nouns(kinds)) == ["job", "container", "unit", "group"]
    assert noun("odd") == "group"
