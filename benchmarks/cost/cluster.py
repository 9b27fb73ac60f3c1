"""An API server with the node's pods, as a process; ``python -m benchmarks.cost.cluster SIZE``.

Prints its URL. Then each line of standard input is an order, answered by a line once it is done:

``change N``       modify N pods
``create``         create the next pod, one beyond those that there are
``create GPU``     the same, and it is allocated this GPU
``churn N RATE``   make N changes, RATE each second: of ten, eight modify a pod, one creates one
                   that is allocated a GPU, one deletes it again. One more is created at the end;
                   its name is the answer.
"""

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Self

from benchmarks.cost.documents import NODE, pod
from benchmarks.cost.size import Size, Tenant, tenants
from tests.agent.sources.pods.apiserver import ApiServer
from tests.agent.sources.pods.documents import node_document

MODIFIED = 8  # of ten changes
AT_ONCE = 50
VISITOR = 100_000  # their numbers begin here


class Cluster:
    """The process of an API server, ``with Cluster(size) as cluster:``."""

    def __init__(self, size: Size) -> None:
        given = f"{size.gpus}x{size.processes}x{size.pods}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.cost.cluster", given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self._answer()

    def order(self, words: str) -> str:
        """Give an order and wait until it is done; the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise SystemExit("the API server's process ended; its standard error says why")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def main(size: Size) -> None:
    """Serve until standard input ends."""
    everyone = list(tenants(size))
    with ApiServer() as server:
        server.set_node(node_document(NODE, {}, {}))
        for tenant in everyone:
            server.add_pod(pod(tenant))
        print(server.url, flush=True)
        changes = itertools.count(1)
        for line in sys.stdin:
            words = line.split()
            if words[0] == "change":
                for _ in range(int(words[1])):
                    modify(server, everyone, next(changes))
                print("done", flush=True)
            elif words[0] == "create":
                gpu = int(words[1]) if len(words) > 1 else None
                everyone.append(Tenant(len(everyone), gpu))
                server.add_pod(pod(everyone[-1]))
                print("done", flush=True)
            else:
                print(churn(server, everyone, changes, *map(int, words[1:])), flush=True)


def modify(server: ApiServer, everyone: list[Tenant], number: int) -> None:
    """One pod after the other gets a new revision."""
    server.modify_pod(pod(everyone[number % len(everyone)], number))


def churn(
    server: ApiServer, everyone: list[Tenant], changes: Iterator[int], count: int, rate: int
) -> str:
    """Make the changes; the last pod that was created stays until the next time."""
    visitor: Tenant | None = None
    begun = time.monotonic()
    for done, number in enumerate(itertools.islice(changes, count)):
        if done % AT_ONCE == 0:
            time.sleep(max(0.0, begun + done / rate - time.monotonic()))
        if number % 10 < MODIFIED:
            modify(server, everyone, number)
        elif visitor is None:
            visitor = Tenant(VISITOR + number, gpu=0)
            server.add_pod(pod(visitor))
        else:
            server.delete_pod(visitor.name, visitor.namespace)
            visitor = None
    last = Tenant(VISITOR + next(changes), gpu=0)
    server.add_pod(pod(last))
    return last.name


if __name__ == "__main__":
    main(Size.parse(sys.argv[1]))
