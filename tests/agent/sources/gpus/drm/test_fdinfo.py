"""The parser of fdinfo: what is of the specification is read, all else is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.gpus.drm.fdinfo import (
    LONGEST,
    MAX_ENGINES,
    MAX_REGIONS,
    DrmClient,
    EngineUsage,
    held_by,
    parse,
)
from exporter.model import Device
from tests.agent.sources.gpus.drm.machine import HEAD, i915, xe
from tests.agent.sources.gpus.known import known

NAMES = st.from_regex(r"[a-z][a-z0-9\-]{0,15}", fullmatch=True).filter(
    lambda name: not name.startswith(("capacity-", "cycles-"))
)
NUMBERS = st.integers(0, 2**64 - 1)
ENGINES = st.builds(
    EngineUsage,
    st.none() | NUMBERS,
    st.none() | NUMBERS,
    st.none() | NUMBERS,
    st.integers(1, 64),
).filter(lambda e: e.busy_ns is not None or None not in {e.cycles, e.total_cycles})
CLIENTS = st.builds(
    DrmClient,
    driver=NAMES,
    client_id=NUMBERS,
    pdev=st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", fullmatch=True) | st.just(""),
    engines=st.dictionaries(NAMES, ENGINES, max_size=MAX_ENGINES),
    held=st.dictionaries(NAMES, st.integers(0, 2**50), max_size=MAX_REGIONS),
)


def written(client: DrmClient) -> bytes:
    """As a driver would write it."""
    lines = [f"drm-driver:\t{client.driver}", f"drm-client-id:\t{client.client_id}"]
    if client.pdev:
        lines.append(f"drm-pdev:\t{client.pdev}")
    for name, size in client.held.items():
        in_kib = size and size % 1024 == 0
        text = f"{size // 1024} KiB" if in_kib else str(size)
        lines += [f"drm-total-{name}:\t{size + 1}", f"drm-resident-{name}:\t{text}"]
    for name, (busy, cycles, total, capacity) in client.engines.items():
        lines += [] if busy is None else [f"drm-engine-{name}:\t{busy} ns"]
        lines += [] if cycles is None else [f"drm-cycles-{name}:\t{cycles}"]
        lines += [] if total is None else [f"drm-total-cycles-{name}:\t{total}"]
        lines += [] if capacity == 1 else [f"drm-engine-capacity-{name}:\t{capacity}"]
    return (HEAD + "\n".join(lines) + "\n").encode()


@given(CLIENTS)
def test_what_is_well_formed_is_read_as_it_was_written(client: DrmClient) -> None:
    assert parse(written(client)) == client


@given(st.lists(st.text(max_size=40) | st.sampled_from(i915(3).splitlines()), max_size=40))
def test_no_lines_make_it_fail_or_give_what_cannot_be(lines: list[str]) -> None:
    text = "drm-driver: i915\ndrm-client-id: 1\n" + "\n".join(lines)

    client = parse(text.encode(errors="replace"))

    for engine in client.engines.values() if client else ():
        assert engine.capacity > 0
        assert min(engine.busy_ns or 0, engine.cycles or 0, engine.total_cycles or 0) >= 0


@given(CLIENTS, st.data())
def test_a_torn_text_says_no_other_driver_and_no_other_engine(
    client: DrmClient, data: st.DataObject
) -> None:
    whole = written(client)
    torn = parse(whole[: data.draw(st.integers(0, len(whole)))])

    if torn is not None:
        assert torn.driver == client.driver[: len(torn.driver)]
        assert torn.engines.keys() <= client.engines.keys()


def test_the_documented_xe_is_read() -> None:
    client = known(parse((HEAD + xe(3, 7655183225, rcs=28257900, vram_kib=23992)).encode()))

    assert (client.driver, client.client_id, client.pdev) == ("xe", 3, "0000:03:00.0")
    assert client.engines["rcs"] == EngineUsage(None, 28257900, 7655183225)
    assert client.engines["ccs"] == EngineUsage(None, 0, 7655183225, capacity=4)
    assert client.held == {"system": 0, "gtt": 192 * 1024, "vram0": 23992 * 1024}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "drm-client-id: 1\n",  # no driver
        "drm-driver: xe\n",  # no id: its descriptors cannot be told from other clients
        "drm-driver: xe\ndrm-client-id: one\n",
        "drm-driver: xe\ndrm-client-id: -1\n",
        "drm-driver: a b\ndrm-client-id: 1\n",
        "pdev: 0000:0b:00.0\npasid: 32769\ngfx0: 3.21%\n",  # amdgpu before 5.19
        "inotify wd:1 ino:2 sdev:3\n",
    ],
)
def test_what_is_no_client_with_an_id_is_none(text: str) -> None:
    assert parse(text.encode()) is None


@pytest.mark.parametrize(
    ("line", "engines"),
    [
        ("drm-engine-render: 5 ns", {"render": EngineUsage(5)}),
        ("drm-engine-render:5 ns", {"render": EngineUsage(5)}),
        ("drm-engine-render: \t 5 ns \r", {"render": EngineUsage(5)}),
        ("drm-engine-render: 5", {}),  # the unit is of the specification
        ("drm-engine-render: 5 ms", {}),
        ("drm-engine-render: 50%", {}),
        ("drm-engine-render: -5 ns", {}),
        ("drm-engine-render: 5.5 ns", {}),
        (f"drm-engine-render: {'9' * 21} ns", {}),
        ("drm-engine-: 5 ns", {}),
        (f"drm-engine-{'x' * 33}: 5 ns", {}),
        ("drm-engine-capacity-render: 2", {}),  # of an engine that is not told
        ("drm-total-cycles-rcs: 2", {}),
        ("drm-cycles-rcs: 2 ns", {}),
        ("drm-maxfreq-rcs: 800 MHz", {}),
        ("drm-cycles-rcs: 2\ndrm-maxfreq-rcs: 800 MHz", {}),  # how fast its clock ran is not known
        ("drm-engine-a: 5 ns\ndrm-engine-capacity-a: 0", {"a": EngineUsage(5)}),  # 0 is not allowed
        ("drm-cycles-a: 5\ndrm-total-cycles-a: 9", {"a": EngineUsage(None, 5, 9)}),
    ],
)
def test_engines_by_the_specification(line: str, engines: dict[str, EngineUsage]) -> None:
    client = known(parse(f"drm-driver: x\ndrm-client-id: 1\n{line}\n".encode()))

    assert client.engines == engines


@pytest.mark.parametrize(
    ("lines", "held"),
    [
        ("drm-resident-vram: 2 MiB", 2 * 1024**2),
        ("drm-memory-vram: 3 KiB", 3 * 1024),
        ("drm-total-vram: 4", 4),
        ("drm-total-vram: 9\ndrm-memory-vram: 3\ndrm-resident-vram: 2", 2),
        ("drm-total-vram: 9\ndrm-memory-vram: 3", 3),
        ("drm-resident-vram: 4 GB", None),
        ("drm-resident-vram: KiB", None),
        ("drm-shared-vram: 4", None),
        ("drm-active-vram: 4", None),
        ("drm-purgeable-vram: 4", None),
    ],
)
def test_memory_is_what_is_resident_or_next_to_it(lines: str, held: int | None) -> None:
    client = known(parse(f"drm-driver: x\ndrm-client-id: 1\n{lines}\n".encode()))

    assert client.held.get("vram") == held


def test_a_text_without_end_is_bounded() -> None:
    engines = "".join(f"drm-engine-e{n}: 1 ns\ndrm-total-r{n}: 1\n" for n in range(20_000))

    client = known(parse(f"drm-driver: x\ndrm-client-id: 1\n{engines}".encode()))

    assert (len(client.engines), len(client.held)) == (MAX_ENGINES, MAX_REGIONS)
    assert parse(b"x" * LONGEST + b"\ndrm-driver: x\ndrm-client-id: 1\n") is None


def test_what_clients_of_one_process_share_counts_once_and_of_several_for_each() -> None:
    clients = [
        (7, DrmClient("xe", 1, held={"vram0": 12, "gtt": 9}, shared={"vram0": 10, "gtt": 9})),
        (7, DrmClient("xe", 2, held={"vram0": 25, "vram1": 4}, shared={"vram0": 20})),
        (8, DrmClient("xe", 3, held={"vram0": 12}, shared={"vram0": 99})),
        (9, DrmClient("xe", 4, held={"gtt": 5})),
    ]
    memory = held_by(clients, Device("u", 0, "intel"), None)
    assert {p.pid: p.used_bytes for p in memory.processes or ()} == {
        7: 2 + 5 + 20 + 4,
        8: 12,
        9: None,
    }
