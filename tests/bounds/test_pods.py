"""Pods that one namespace makes without end leave the figures of the others as they are."""

from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.agent.sources.pods.podtable import MAX_DELETED, MAX_ENDED
from tests.e2e.programs import Page
from tests.fakenvml.scenario import Gpu
from tests.field.nodes import FieldNode, field_node
from tests.field.pods import FieldPod

VICTIM = FieldPod("train", {"main": {"nvidia.com/gpu": "1"}}, namespace="victim")


def flood(count: int, *, phase: str = "Running") -> list[FieldPod]:
    return [FieldPod(f"p{n}", {"main": {}}, namespace="tenant", phase=phase) for n in range(count)]


def nothing(_: FieldNode) -> None:
    """The control."""


def makes_and_deletes(node: FieldNode) -> None:
    for pod in flood(MAX_DELETED + 1):
        node.pod(pod.document())
        node.delete(pod.document())


def makes_and_ends(node: FieldNode) -> None:
    for pod in flood(MAX_ENDED + 1, phase="Failed"):
        node.pod(pod.document())


def figures(page: Page) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The counters of the victim, of groups and of what is unattributed, that are not 0."""
    return {
        (name, labels): value
        for (name, labels), value in page.counters().items()
        if value
        if dict(labels).get("namespace") == "victim" or "group" in name or "unattributed" in name
    }


def of_deleted(folder: Path, attack: Callable[[FieldNode], None]) -> Page:
    """The victim is deleted by force while it works on."""
    with field_node(folder, Gpu(0)) as node:
        node.pod(VICTIM.document())
        node.start(VICTIM.cgroup(), 0)
        node.run(2)
        node.delete(VICTIM.document())
        attack(node)
        return node.run(8)


def of_ended(folder: Path, attack: Callable[[FieldNode], None]) -> Page:
    """The victim is said to have ended, and its process still works."""
    with field_node(folder, Gpu(0)) as node:
        node.pod(VICTIM.document())
        node.start(VICTIM.cgroup(), 0)
        node.run(2)
        node.pod(VICTIM.document(phase="Succeeded"))
        attack(node)
        return node.run(8)


@pytest.mark.parametrize(
    ("victim", "attack"), [(of_deleted, makes_and_deletes), (of_ended, makes_and_ends)]
)
def test_pods_of_one_namespace_take_no_other_pods_name(
    tmp_path: Path,
    victim: Callable[[Path, Callable[[FieldNode], None]], Page],
    attack: Callable[[FieldNode], None],
) -> None:
    control, attacked = victim(tmp_path / "a", nothing), victim(tmp_path / "b", attack)

    used = control.value("mgpu_namespace_core_seconds_total", namespace="victim")
    assert used is not None
    assert used > 8
    assert figures(attacked) == figures(control)
