from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.pods.podtable import GRACE_NS, MAX_DELETED, MAX_ENDED, PodStore, indexed
from exporter.model import Container, Pod


def pod(
    uid: str,
    name: str = "",
    *ids: str,
    static: str = "",
    deleted: bool = False,
) -> Pod:
    return Pod(
        uid=uid,
        namespace="default",
        name=name or uid,
        static_hash=static,
        deleted=deleted,
        containers=(Container("main", container_ids=ids),),
    )


def test_a_pod_is_found_by_uid_static_hash_and_each_container_id() -> None:
    thief = pod("thief", static="u")  # takes no other pod's uid
    table = indexed({"thief": thief, "u": pod("u", "etcd", "new", "old", static="hash")})
    del table.by_kubelet_uid["thief"]  # type: ignore[attr-defined] # a mapping is what is promised
    assert table.by_kubelet_uid == {"u": "u", "hash": "u"}
    assert table.by_container_id == {"new": ("u", "main"), "old": ("u", "main")}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("deleted", [False, True])
def test_a_hash_that_pods_of_two_names_claim_is_nobodys(order: int, *, deleted: bool) -> None:
    """Each may have forged it. The container's id in a status says whose a process is."""
    forger = pod("a", "forger", static="h", deleted=deleted)
    pods = [forger, pod("b", "etcd", "id", static="h"), pod("c", "etcd", static="h")][::order]
    table = indexed({each.uid: each for each in pods})
    assert "h" not in table.by_kubelet_uid
    assert table.by_container_id == {"id": ("b", "main")}


@pytest.mark.parametrize("order", [1, -1])
def test_a_static_pods_newest_mirror_has_its_hash(order: int) -> None:
    pods = [pod("a", "etcd", static="h", deleted=True), pod("b", "etcd", static="h")][::order]
    assert indexed({each.uid: each for each in pods}).by_kubelet_uid["h"] == "b"


@pytest.mark.parametrize("order", [1, -1])
def test_the_living_pod_has_an_id_that_a_deleted_one_also_claims(order: int) -> None:
    pods = [pod("a", "", "id", deleted=True), pod("c", "", "id"), pod("b", "", "id")][::order]
    table = indexed({each.uid: each for each in pods})
    assert table.by_container_id["id"] == ("b", "main")


def test_a_change_raises_the_version_and_leaves_older_tables_as_they_were() -> None:
    store = PodStore()
    store.upsert(pod("a"), 0)
    before = store.table
    store.upsert(pod("a", "a", "id"), 0)
    assert store.table.version > before.version
    assert before.by_container_id == {}
    before = store.table
    store.upsert(pod("a", "a", "id"), 5)  # nothing of interest
    store.relist([pod("a", "a", "id")], 9)
    assert store.table.version == before.version


def test_the_living_pods_of_another_source_are_kept_as_deleted_for_their_grace() -> None:
    store = PodStore()
    store.relist([pod("a")], 0)
    store.adopt([pod("a", "other"), pod("b"), pod("c", deleted=True)], 10)
    assert store.table.pods == {"a": pod("a"), "b": pod("b", deleted=True)}
    store.expire(10 + GRACE_NS)
    assert store.table.pods == {"a": pod("a")}


def test_of_many_deleted_pods_the_first_leave_before_their_time() -> None:
    store = PodStore()
    for number in range(MAX_DELETED + 2):
        store.upsert(pod(f"pod-{number}"), 0)
        store.delete(pod(f"pod-{number}"), 0)
    store.upsert(pod("living"), 0)

    assert len(store.table.pods) == MAX_DELETED + 1
    assert store.table.pods.keys() >= {"pod-2", "living"}


def test_a_deleted_pod_stays_marked_with_its_last_state_until_its_grace_is_over() -> None:
    store = PodStore()
    store.upsert(pod("a"), 0)
    store.delete(pod("a", "a", "last"), 100)
    store.relist([], 150)  # the deletion is heard of twice
    store.expire(100 + GRACE_NS - 1)
    assert store.table.pods == {"a": pod("a", "a", "last", deleted=True)}
    assert store.table.by_container_id == {"last": ("a", "main")}
    store.expire(100 + GRACE_NS)
    assert not store.table.pods
    assert not store.table.by_container_id
    assert not store.table.by_kubelet_uid


def test_a_successor_of_the_same_name_is_another_pod_and_ends_its_predecessor() -> None:
    store = PodStore()
    store.upsert(replace(pod("elsewhere", "db-0"), namespace="other"), 0)
    store.upsert(pod("first", "db-0", "id-1"), 0)
    store.upsert(pod("second", "db-0", "id-2"), 10)
    assert store.table.pods["first"] == pod("first", "db-0", "id-1", deleted=True)
    assert store.table.by_container_id == {"id-1": ("first", "main"), "id-2": ("second", "main")}


@pytest.mark.parametrize(
    ("most", "last"),
    [
        ("MAX_DELETED", {"deleted": True}),
        ("MAX_ENDED", {"phase": "Failed"}),
        ("MAX_LIVING", {"phase": "Running"}),
    ],
)
def test_a_namespace_with_too_many_pods_loses_its_own(
    monkeypatch: pytest.MonkeyPatch, most: str, last: dict[str, Any]
) -> None:
    monkeypatch.setattr(f"exporter.agent.sources.pods.podtable.{most}", 6)
    gone: list[Pod] = []
    store = PodStore(cut=gone.append)

    def enter(uid: str, namespace: str) -> None:
        one = replace(pod(uid), namespace=namespace, **last)
        (store.delete if one.deleted else store.upsert)(one, 0)

    for uid in "ab":
        enter(uid, "few")
    for number in range(20):
        enter(f"p{number}", "many")
    enter("c", "few")
    kept = sorted(store.table.pods)

    assert [uid for uid in kept if len(uid) == 1] == ["a", "b", "c"]
    assert len(kept) == 6
    assert len(gone) == 17
    assert {each.namespace for each in gone} == {"many"}


def test_a_name_that_was_deleted_often_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A StatefulSet's pod that is made anew faster than its predecessors leave."""
    monkeypatch.setattr("exporter.agent.sources.pods.podtable.MAX_DELETED", 3)
    store = PodStore()
    for number in range(20):
        store.upsert(pod(f"uid-{number}", "db-0"), 0)
    assert store.table.pods.keys() == {f"uid-{number}" for number in range(16, 20)}


UIDS = st.sampled_from("abcd")
HISTORY = st.lists(
    st.tuples(st.sampled_from(["upsert", "delete"]), UIDS, st.integers(0, 3))
    | st.tuples(st.just("relist"), st.sets(UIDS), st.integers(0, 3)),
    max_size=30,
)


@given(HISTORY)
def test_after_any_history_the_indexes_agree_with_the_pods_and_the_dead_leave(
    steps: list[tuple[str, str | set[str], int]],
) -> None:
    store, now_ns, living = PodStore(), 0, set[str]()
    for action, what, n in steps:
        now_ns += n * GRACE_NS // 3
        store.expire(now_ns)
        if action == "relist":
            store.relist([pod(uid) for uid in what], now_ns)
            living = set(what)
        elif action == "upsert":
            store.upsert(pod(str(what), "", f"{what}{n}"), now_ns)
            living.add(str(what))
        else:
            store.delete(pod(str(what)), now_ns)
            living.discard(str(what))
        table = store.table
        assert {uid for uid, each in table.pods.items() if not each.deleted} == living
        assert set(table.by_kubelet_uid.values()) <= set(table.pods)
        assert {uid for uid, _ in table.by_container_id.values()} <= set(table.pods)
    store.expire(now_ns + GRACE_NS)
    assert set(store.table.pods) == living


def test_the_first_of_too_many_ended_pods_leave() -> None:
    store = PodStore()
    store.upsert(pod("living"), 0)
    for number in range(MAX_ENDED + 2):
        store.upsert(replace(pod(f"p{number}"), phase="Failed"), 0)
    assert len(store.table.pods) == MAX_ENDED + 1
    assert {"living", "p2"} <= store.table.pods.keys()
    store.delete(store.table.pods["p2"], 0)
    store.upsert(replace(pod("next"), phase="Succeeded"), 0)
    assert {"p2", "p3", "next"} <= store.table.pods.keys()
    store.expire(GRACE_NS)
    assert "p2" not in store.table.pods
