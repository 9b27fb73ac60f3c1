"""Tries histories of every kind, and counts those of which a reader says something wrong.

python -m tests.histories [--histories=500] [--first=0] [--kind=NAME ...] [--twists=1] [--show=1]

A history has so many twists; of several, those after the first are by chance.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.histories.checks import bill, stored, wrong_bill
from tests.histories.making import TWISTS, made
from tests.histories.store import answering
from tests.histories.values import History

BY = ("namespace", "pod", "owner", "label:team")
BY_GROUPS = (*BY, "user", "account", "kind")
METHODS = ("allocation", "use")


def tried(seed: int, *kinds: str) -> list[str]:
    """What is wrong of one history of these kinds."""
    history = made(seed, *(kind for kind in kinds if kind != "plain"))
    return wrong_of(history, Random(seed))  # noqa: S311 - no secret


def wrong_of(history: History, rng: Random) -> list[str]:
    """What is wrong of a bill of a history, by what chance chooses."""
    by, method = rng.choice(BY_GROUPS if history.groups else BY), rng.choice(METHODS)
    with tempfile.TemporaryDirectory() as folder, answering(stored(history)) as address:
        said = bill(history, address, Path(folder), by, method)
    return [f"--by={by} --method={method} {one}" for one in wrong_bill(history, said, by, method)]


def main() -> int:
    """Print a table of kinds: histories, those that are wrong, and one that shows it.

    The exit status is 1 if one is wrong.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", action="append")
    parser.add_argument("--twists", type=int, default=1)
    parser.add_argument("--show", type=int, default=0)
    given = parser.parse_args()
    kinds = given.kind or ["plain", *TWISTS]
    count: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    example: dict[str, str] = {}
    began_s = time.process_time()
    for seed in range(given.first, given.first + given.histories):
        kind = kinds[seed % len(kinds)]
        count[kind] += 1
        others = sorted(TWISTS.keys() - {kind})
        more = Random(seed).sample(others, given.twists - 1)  # noqa: S311 - no secret
        try:
            found = tried(seed, kind, *more)
        except Exception as error:  # noqa: BLE001 - it is counted, and the others are tried
            found = [f"fails: {error!r}"]
        if found:
            wrong[kind] += 1
            example.setdefault(kind, f"{seed}: {found[0]}")
            for one in found[: given.show]:
                print(f"  {'+'.join([kind, *more])} {seed}: {one}", flush=True)
    print("\n| kind | histories | wrong | one of them |\n|---|---:|---:|---|")
    for kind in kinds:
        print(f"| {kind} | {count[kind]} | {wrong[kind]} | {example.get(kind, '')} |")
    print(f"| all | {count.total()} | {wrong.total()} | {time.process_time() - began_s:.0f} s |")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
