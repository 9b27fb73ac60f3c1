"""A node with KAI's reservations and with MPS's limits by number, recorded as for others."""

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.agent.collector import Sources
from exporter.agent.commands.record import Session
from exporter.agent.commands.replay import Replay
from exporter.agent.recording.boardrecording import BoardMask, boards_only
from exporter.agent.recording.pseudonyms import Pseudonyms
from exporter.agent.recording.recordingfile import RecordingReader, RecordingWriter
from exporter.agent.settings import load
from exporter.agent.sources.node.nodesource import StaticNodeSource
from exporter.agent.sources.pods.podtable import indexed
from exporter.metrics.text import Format, Renderer
from exporter.model import (
    CgroupIdentity,
    ClaimedDevice,
    ClaimRef,
    Container,
    Device,
    NodeFacts,
    OfferedDevice,
    Pod,
    Snapshot,
)
from tests.agent.collector.bench import Bench
from tests.rows import rows_of

SECOND = 10**9
GIB = 2**30
FORMS = tuple(Format)
GROUP = "40cf2f69-1c19-4f29-a586-bc0f7324bbef"
CARDS = [f"GPU-3f2b1c4d-0000-4000-8000-00000000000{n}" for n in range(3)]
FRACTION, TENANT, RESERVATION = "fraction-pod", "mps-pod", "gpu-reservation-1d214a216c5ed0cb"
SHARING = {"strategy": "MPS", "core": "50", "memory": "3Gi", "memory/0": "1Gi", "memory/1": "2Gi"}
PRIVATE = ("secret-team", "secret-reservations", FRACTION, TENANT, GROUP, *CARDS)


def pods(settings_namespace: str) -> dict[str, Pod]:
    """A fraction of the first card, the pod that reserves it, and a pod that has two by a claim."""
    main = Container("main", container_ids=("a" * 64,))
    using = Container("main", container_ids=("b" * 64,), claims=(ClaimRef("two", "gpu"),))
    holder = Container("resource-reservation", limits={"nvidia.com/gpu": "1"})
    fraction = Pod(
        *("uid-1", "secret-team", FRACTION),
        phase="Running",
        containers=(main,),
        labels={"runai-gpu-group": GROUP},
        annotations={"gpu-memory": "1000"},
    )
    reserving = Pod(
        *("uid-2", settings_namespace, RESERVATION),
        phase="Running",
        containers=(holder,),
        labels={"runai-gpu-group": GROUP},
        annotations={"run.ai/reserve_for_gpu_index": CARDS[0]},
    )
    tenant = Pod("uid-3", "secret-team", TENANT, phase="Running", containers=(using,))
    return {pod.uid: pod for pod in (fraction, reserving, tenant)}


def facts() -> NodeFacts:
    """What the claim of the second and third card says, and what its driver offers."""
    driver, pool = "gpu.nvidia.com", "secret-node"
    claimed = tuple(ClaimedDevice("gpu", driver, pool, f"gpu-{n}", sharing=SHARING) for n in (1, 2))
    offered = {
        (driver, pool, f"gpu-{n}"): OfferedDevice({"uuid": CARDS[n]}, {"memory": "80Gi"})
        for n in (1, 2)
    }
    return NodeFacts(claims={("secret-team", "two"): claimed}, offered=offered)


def bench(namespace: str) -> tuple[Bench, Sources]:
    """The node, and its sources."""
    made = Bench()
    made.use(7, SECOND // 2, GIB)
    [reading] = made.gpus.devices
    made.gpus.devices = tuple(
        reading._replace(device=Device(uuid, n, "nvidia", memory_bytes=80 * GIB))
        for n, uuid in enumerate(CARDS)
    )
    made.processes.identities[7] = CgroupIdentity("uid-1", "a" * 64, "containerd")
    made.pods.current = replace(indexed(pods(namespace)), version=1)
    node = StaticNodeSource("node", facts, made.clock)
    return made, Sources((made.gpus,), made.processes, made.pods, (node,))


def recorded(
    path: Path, namespace: str, names: Pseudonyms | None, *, board: bool = False
) -> tuple[list[bytes], Snapshot]:
    """Record four cycles. Returns the pages as they were, and the last snapshot."""
    made, sources = bench(namespace)
    settings = load({"allocations.kai-namespaces": [namespace]}, {})
    sources = boards_only(sources) if board else sources
    session = Session(settings, sources, made.clock, names)
    pages = []
    with path.open("wb") as file:
        tape = RecordingWriter(file, 1 << 24, session.head)
        for _ in range(4):
            made.clock.move(1)
            cycle = session.cycle()
            assert not [word for word in PRIVATE if names and word in repr(cycle)]
            assert tape.write(cycle)
            renderer = Renderer()
            pages += [renderer.render(session.collector.snapshot, form) for form in FORMS]
        tape.end()
    return pages, session.collector.snapshot


def replayed(path: Path) -> list[bytes]:
    """The pages that the file comes to."""
    with RecordingReader(str(path)) as tape:
        run = Replay(tape)
        renderer = run.renderer()
        pages = [renderer.render(s, form) for s in run.snapshots() for form in FORMS]
    assert "every page is as it was recorded" in run.verdict
    return pages


def limits(snapshot: Snapshot) -> list[float]:
    """The memory limits of all containers, in the order of their size."""
    found = (row.values.get("memory_limit_bytes") for row in rows_of(snapshot)["container"])
    return sorted(value for value in found if isinstance(value, int | float))


@pytest.mark.parametrize("namespace", ["kai-resource-reservation", "secret-reservations"])
@pytest.mark.parametrize("names", [None, Pseudonyms(b"k" * 32)], ids=["plain", "anonymised"])
def test_reservations_and_limits_by_number_are_replayed_as_recorded(
    tmp_path: Path, namespace: str, names: Pseudonyms | None
) -> None:
    path = tmp_path / "node.rec.gz"
    pages, last = recorded(path, namespace, names)

    assert limits(last) == [1000 << 20, 1 * GIB, 2 * GIB]
    assert replayed(path) == pages


def test_a_recording_to_share_of_that_node_holds_its_boards_alone(tmp_path: Path) -> None:
    path = tmp_path / "board.rec.gz"
    pages, last = recorded(path, "secret-reservations", BoardMask(), board=True)

    assert (len(rows_of(last)["device"]), rows_of(last)["container"]) == (len(CARDS), ())
    assert replayed(path) == pages


@pytest.mark.parametrize("key", range(4))
def test_a_limit_by_number_stays_with_its_card(tmp_path: Path, key: int) -> None:
    """Numbers count the cards in the order of their UUIDs, which pseudonyms change."""
    names = Pseudonyms(bytes([key]) * 32)
    _, last = recorded(tmp_path / "node.rec.gz", "secret-reservations", names)

    named = {
        held.uuid: held.allocation.memory_bytes
        for held in last.facts.containers
        if held.allocation.memory_bytes is not None and held.uuid != names.name(CARDS[0])
    }
    assert named == {names.name(CARDS[1]): 1 * GIB, names.name(CARDS[2]): 2 * GIB}
