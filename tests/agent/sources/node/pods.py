"""Pods as the table has them."""

from collections.abc import Iterable
from dataclasses import replace

from exporter.agent.sources.pods.podtable import indexed
from exporter.model import ClaimRef, Container, Pod, PodTable

CID = "c" * 64


def pod(
    name: str = "train-0",
    uid: str = "uid-1",
    *,
    acknowledged: bool = True,
    ids: tuple[str, ...] = (CID,),
    claims: tuple[ClaimRef, ...] = (),
    phase: str = "Running",
    deleted: bool = False,
) -> Pod:
    """A pod in the namespace ml, whose container main asks for a GPU."""
    main = Container("main", container_ids=ids, limits={"nvidia.com/gpu": "1"}, claims=claims)
    return Pod(
        uid,
        "ml",
        name,
        phase=phase,
        containers=(main,),
        acknowledged=acknowledged,
        deleted=deleted,
    )


def unknown_to_kubelet(one: Pod) -> Pod:
    """The pod before the kubelet has said anything of it."""
    fresh = tuple(replace(container, container_ids=()) for container in one.containers)
    return replace(one, acknowledged=False, phase="Pending", containers=fresh)


def table(*pods: Pod, version: int = 1) -> PodTable:
    """The table of these pods."""
    return indexed({one.uid: one for one in pods}, version)


def uids(pods: Iterable[Pod]) -> set[str]:
    """Their uids."""
    return {one.uid for one in pods}
