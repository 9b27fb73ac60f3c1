import pytest

from exporter.shown.kinds import counted, is_without_pods, noun, plural


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

    assert counted(kinds) == {"job": 2, "container": 2, "unit": 1, "group": 1}
    assert list(counted(kinds)) == ["job", "container", "unit", "group"]
    assert noun("odd") == "group"


@pytest.mark.parametrize(
    ("nouns", "expected"),
    [
        ([], ""),
        (["job"], "jobs"),
        (["job", "unit"], "jobs and units"),
        (["job", "container", "user"], "jobs, containers and users"),
    ],
)
def test_nouns_are_joined_as_in_a_sentence(nouns: list[str], expected: str) -> None:
    assert plural(nouns) == expected
