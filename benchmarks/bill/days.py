"""What a bill of closed days costs: ``python -m benchmarks.bill.days --nodes=1000``.

A month of closed days is made without a store: each node has 8 cards, each card three pods of
three namespaces. The files of all days are those of one, which ``bill close`` would write.
"""

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from exporter.answers.bill.bill import Bill, BillRow, Period
from exporter.answers.bill.closed.day import CardTime, Record, Shard, files_of, folder_of, put
from exporter.answers.bill.closed.place import place_of
from exporter.answers.bill.parts import METHODS, NOBODY, Part, Payer
from exporter.answers.reading.ranges import written
from exporter.answers.reading.who import CardFacts

DAY_S, BEGIN_S = 86_400, 1_780_012_800  # a midnight
CARDS, TEAMS, HOURLY = 8, 40, Decimal("2.50")
_MIB = 1024  # of what the kernel says in KiB
PARTS = {  # of a day of a card, in milliseconds: what a pod has, and what nobody has
    Part.USED: 17_280_000,
    Part.ALLOCATED_IDLE: 8_640_000,
    Part.UNALLOCATED: 6_912_000,
    Part.UNATTRIBUTED: 1_728_000,
}


def day_of(nodes: range) -> Bill:
    """The rows of some nodes on a day."""
    period = Period(BEGIN_S, BEGIN_S + DAY_S)
    rows = []
    for node in nodes:
        for card in range(CARDS):
            facts = CardFacts(f"GPU-{node:04}-{card}", f"node-{node:04}", "NVIDIA L4", {})
            payers = [NOBODY]
            for pod in range(3):
                team = (node * CARDS + card + pod * 7) % TEAMS
                name = f"job-{node}-{card}-{pod}"
                labels = (("team", f"t{team % 5}"),)
                payers.append(
                    Payer(f"team-{team}", "Job", f"train-{team}", name, uid=name, labels=labels)
                )
            for payer in payers:
                for part, milliseconds in PARTS.items():
                    if (payer == NOBODY) == (part in {Part.UNALLOCATED, Part.UNATTRIBUTED}):
                        cost = Decimal(milliseconds) * HOURLY / 3_600_000
                        rows.append(BillRow(facts, period, payer, part, milliseconds, cost, HOURLY))
    return Bill(*period, METHODS[0], "USD", tuple(rows))


def fill(folder: Path, nodes: int, days: int, shards: int) -> None:
    """Writes closed days: the files of the first, under each day."""
    place = place_of(str(folder))
    for shard in range(shards):
        bill = day_of(range(shard * nodes // shards, (shard + 1) * nodes // shards))
        facts = {(one.card.node, one.card.uuid): one.card for one in bill.rows}
        record = Record(
            day_s=BEGIN_S,
            of="",
            shard=Shard(shard + 1, shards),
            method=bill.method,
            currency=bill.currency,
            account="prometheus",
            files={},
            cards=(),
            remarks=(),
        )
        bills = dict.fromkeys(METHODS, bill)
        record, files = files_of(record, bills, dict.fromkeys(facts, "east"))
        for day_s in range(BEGIN_S, BEGIN_S + days * DAY_S, DAY_S):
            times = float(day_s), float(day_s + DAY_S), float(BEGIN_S - DAY_S)
            cards = [
                CardTime(one.uuid, one.node, one.model, str(HOURLY), *times)
                for one in facts.values()
            ]
            named = {
                path.replace(folder_of(BEGIN_S), folder_of(day_s)): data
                for path, data in files.items()
            }
            digests = dict(zip(named, record.files.values(), strict=True))
            of_day = replace(record, day_s=day_s, cards=tuple(cards), files=digests)
            put(place, of_day, named, None)


def main() -> int:
    """Print a line for each bill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--shards", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, given.nodes, given.days, given.shards)
        sizes = [path.stat().st_size for path in folder.rglob("*.parquet")]
        print(f"{len(sizes)} files, {sum(sizes) / 2**20:.0f} MiB", flush=True)
        for by in ("namespace", "owner", "label:team"):
            command = [sys.executable, "-m", "exporter", "bill", f"--closed={folder}", f"--by={by}"]
            command += [f"--since={written(BEGIN_S)}"]
            command += [f"--until={written(BEGIN_S + given.days * DAY_S)}"]
            nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
            pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=nowhere)
            _, status, used = os.wait4(pid, 0)
            cpu_s = used.ru_utime + used.ru_stime
            print(
                f"{by}: {cpu_s:.1f} s of CPU, {used.ru_maxrss / _MIB:.0f} MiB, status {status}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
