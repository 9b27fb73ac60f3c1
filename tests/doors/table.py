"""Prints how many cells of the matrix fail, by node and answer.

``python -m tests.doors.table [node ...] [--part=7] [--of=0] [--only=fdinfo]``: of all nodes or
some, each seventh cell from the first on, and of these the ones that are about fdinfo.
"""

import sys
import time
from collections import Counter

from tests.doors.checks import findings
from tests.doors.matrix import cells, control, run
from tests.doors.nodes import NODES


def main(names: list[str], part: int, of: int, only: str) -> None:
    for name in names:
        began, failed, all_of = time.process_time(), Counter[str](), Counter[str]()
        for number, cell in enumerate(cells(name)):
            if number % part != of or only not in str(cell):
                continue
            all_of[cell.answer] += 1
            try:
                found = list(findings(cell, run(name, cell), control(name)))
            except Exception as error:  # noqa: BLE001 - it is a finding
                found = [f"raises: {error!r}"]
            failed[cell.answer] += bool(found)
            for each in found:
                print(cell, "|", each, flush=True)
        took = time.process_time() - began
        by = ", ".join(f"{answer} {failed[answer]}/{all_of[answer]}" for answer in all_of)
        print(f"== {name}: {sum(failed.values())} of {sum(all_of.values())} ({took:.0f} s): {by}")


if __name__ == "__main__":
    flags = dict(each[2:].split("=", 1) for each in sys.argv if each.startswith("--"))
    named = [name for name in sys.argv[1:] if name in NODES]
    part, of = int(flags.get("part", 1)), int(flags.get("of", 0))
    main(named or list(NODES), part, of, flags.get("only", ""))
