import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.pods.logfilepods import (
    MAX_IDS,
    Log,
    PodDirectory,
    log_of,
    pod_name,
    pods_of,
)
from exporter.model import Container

UID = "11111111-2222-4333-8444-555555555555"
HASH = "33d556edd3ae8ef21980288cef77ae8b"
CID = "ab" * 32
DNS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        (f"ml_train-0_{UID}", PodDirectory("ml", "train-0", UID)),
        (
            f"kube-system_etcd-node.example_{HASH}",
            PodDirectory("kube-system", "etcd-node.example", HASH),
        ),
        (f"ml_train_{UID}_x", None),
        (f"ml_{UID}", None),
        (f"Ml_train_{UID}", None),
        (f"ml_train_{UID}/..", None),
        ("ml_train_", None),
        ("_train_" + UID, None),
        (f"ml_train_{UID}\n", None),
        (f"ml_tr\udcffin_{UID}", None),
        (f"ml_{'x' * 254}_{UID}", None),
        ("", None),
        ("..", None),
    ],
)
def test_a_pods_directory_is_told_from_others(
    directory: str, expected: PodDirectory | None
) -> None:
    assert pod_name(directory) == expected


@pytest.mark.parametrize(
    ("link", "target", "expected"),
    [
        (
            f"train-0_ml_main-{CID}.log",
            f"/var/log/pods/ml_train-0_{UID}/main/3.log",
            Log(PodDirectory("ml", "train-0", UID), "main", 3, CID),
        ),
        (
            f"train-0_ml_a-b-{CID}.log",
            f"/elsewhere/ml_train-0_{UID}/a-b/0.log",
            Log(PodDirectory("ml", "train-0", UID), "a-b", 0, CID),
        ),
        (f"train-0_ml_main-{CID[:-1]}.log", f"/var/log/pods/ml_train-0_{UID}/main/3.log", None),
        (f"train-0_ml_main-{CID}", f"/var/log/pods/ml_train-0_{UID}/main/3.log", None),
        (f"train-0_ml_main-{CID}.log", "", None),
        (f"train-0_ml_main-{CID}.log", f"/var/log/pods/ml_train-0_{UID}/main", None),
        (f"train-0_ml_main-{CID}.log", f"/var/log/pods/ml_train-0_{UID}/main/x.log", None),
        (f"train-0_ml_main-{CID}.log", f"ml_train-0_{UID}/../0.log", None),
        (f"train-0_ml_main-{CID}.log", f"train-0_ml_main-{CID}.log", None),
    ],
)
def test_a_link_says_which_container_has_which_id(
    link: str, target: str, expected: Log | None
) -> None:
    assert log_of(link, target) == expected


@given(namespace=DNS, name=DNS, container=DNS, restart=st.integers(0, 10**6))
def test_what_a_kubelet_writes_is_read_back(
    namespace: str, name: str, container: str, restart: int
) -> None:
    target = f"/var/log/pods/{namespace}_{name}_{UID}/{container}/{restart}.log"
    link = f"{name}_{namespace}_{container}-{CID}.log"
    assert log_of(link, target) == Log(PodDirectory(namespace, name, UID), container, restart, CID)


@given(st.text() | st.binary().map(lambda raw: raw.decode(errors="surrogateescape")), st.text())
def test_any_name_is_a_pods_or_is_not(link: str, target: str) -> None:
    pod_name(link)
    log_of(link, target)
    log_of(f"a_b_c-{CID}.log", target)


def test_the_current_id_of_a_container_comes_first_and_few_before_it() -> None:
    pod = PodDirectory("ml", "train", UID)
    ids = [f"{n:064x}" for n in range(12)]
    logs = [Log(pod, "main", n, ids[n]) for n in range(12)]
    [made] = pods_of({pod: ["side", "main"]}, [*logs, Log(pod, "gone", 0, CID)])
    assert (made.uid, made.namespace, made.name) == (UID, "ml", "train")
    assert made.containers == (
        Container("main", container_ids=tuple(reversed(ids))[:MAX_IDS]),
        Container("side"),
    )
