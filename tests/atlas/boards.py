"""The atlas: what real boards were recorded to say, and the scenario in which the stand-in says it.

A file a board and driver. Percentages are whole, as the driver cut them; ``null`` or absent is a
dash in the recording: no sample of that second names the process on that engine.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fakenvml.scenario import Gpu, Instance, Process, Row, Scenario, Work

FOLDER = Path(__file__).parent
MIB = 1 << 20
START = 1_700_000_000  # Unix seconds at which a replay begins
USUAL_S = 0.2  # where the recording does not show the period
ENGINES = {"core": "core", "memory_active": "memory", "encoder": "encoder", "decoder": "decoder"}

Board = Mapping[str, Any]


def boards() -> dict[str, Board]:
    """The facts of each board, by the name of its file."""
    paths = sorted(FOLDER.glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def scenario(board: Board) -> Scenario:
    """The board as the stand-in plays it from ``START`` on, one recorded second after another."""
    has_parts = "instances" in board
    gpu = Gpu(
        0,
        name=board["board"],
        memory=board["memory_total_mib"] * MIB,
        used=board["memory_used_mib"] * MIB,
        reserved=(board["memory_reserved_mib"] or 0) * MIB,
        rule="last",
        sample_period=board["period_s"] or USUAL_S,
        sample_offset=START,
        mig=True if has_parts else None,
        gpm=False,  # no recording has hardware counters
    )
    parts = [
        Instance(0, p["index"], gi=p["gi"], ci=p["ci"], sms=p["sm"], memory=_bytes(p, "total"))
        for p in board.get("instances", ())
    ]
    where = {(part.gi, part.ci): part.index for part in parts}
    holders = [
        Process(
            gpu=0,
            pid=one["pid"],
            memory=None if one["used_mib"] is None else one["used_mib"] * MIB,
            instance=where.get((one.get("gi"), one.get("ci"))),
        )
        for one in board["memory"]
    ]
    return Scenario(
        gpus=[gpu],
        instances=parts,
        processes=holders,
        works=list(_works(board, gpu.sample_period)),
        driver=board["driver"],
        now=START,
        loaded=START - 1000,
    )


def garbage(board: Board) -> list[Row]:
    """The rows of a reply, and as many empty ones as it was long."""
    rows = [Row(0, **row) for row in board["rows"]]
    return rows + [Row(0, 0)] * (board["count"] - len(rows))


def _bytes(part: Mapping[str, int], which: str) -> int:
    return part[f"memory_{which}_mib"] * MIB


def _works(board: Board, period_s: float) -> list[Work]:
    """Who is on which engine in each sample: as many samples of a second as its figure says."""
    works = []
    samples = round(1 / period_s)
    for second, processes in enumerate(board["seconds"]):
        for engine, weight in ENGINES.items():
            figures = {int(pid): of[engine] for pid, of in processes.items() if of.get(engine)}
            busy = device(board, engine) / 100
            for number, pid in enumerate(_turns(figures, samples)):
                begin = START + second + number * period_s
                works.append(
                    Work(
                        gpu=0,
                        pid=pid,
                        start=begin,
                        end=begin + busy * period_s,
                        core=float(weight == "core"),
                        memory=float(weight == "memory"),
                        encoder=float(weight == "encoder"),
                        decoder=float(weight == "decoder"),
                    )
                )
    return works


def device(board: Board, engine: str) -> float:
    """The device's own figure, in percent: the mean of its rows, which are of other seconds."""
    rows = [row.get(engine) or 0 for row in board["device"]]
    return sum(rows) / len(rows)


def _turns(figures: Mapping[int, int], samples: int) -> Sequence[int]:
    """The process that each sample of a second names."""
    whole = sum(figures.values())
    exact = {pid: figure * samples / whole for pid, figure in figures.items()}
    counts = {pid: int(share) for pid, share in exact.items()}
    for pid in sorted(exact, key=lambda pid: counts[pid] - exact[pid]):
        counts[pid] += sum(counts.values()) < samples
    return [pid for pid, count in counts.items() for _ in range(count)]
