"""The bill of simulated nodes whose descriptions are the truth, scraped each 60 s.

A board with MIG and an instance that nobody has, time-slicing, overcommitment, a Slurm job.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from exporter.cli import main
from exporter.collector.wiring import make_collector, open_sources
from exporter.metrics.text import Format, Renderer
from exporter.prometheus.parts import METHODS
from exporter.settings import load
from tests.collector.sources import ManualClock
from tests.store import Store, Target

NODES = {
    "node-1": """
node: {name: node-1}
seed: 1
devices:
  - {model: NVIDIA H100 80GB HBM3, memory: 80GiB}
  - {parent: 0, profile: 3g.40gb, memory: 40GiB, uuid: MIG-a}
  - {parent: 0, profile: 1g.10gb, memory: 10GiB, uuid: MIG-b}
  - {parent: 0, profile: 1g.10gb, memory: 10GiB}
pods:
  - name: a
    namespace: mig
    containers:
      - name: main
        limits: {nvidia.com/mig-3g.40gb: "1"}
        granted: {nvidia.com/mig-3g.40gb: [MIG-a]}
        processes: [{device: 1, duty: 0.5, memory: 8GiB}]
  - name: b
    namespace: mig
    containers:
      - name: main
        limits: {nvidia.com/mig-1g.10gb: "1"}
        granted: {nvidia.com/mig-1g.10gb: [MIG-b]}
        processes: [{device: 2, duty: 0.5, memory: 4GiB}]
""",
    "node-2": """
node:
  name: node-2
  labels: {nvidia.com/gpu.replicas: "4", nvidia.com/gpu.sharing-strategy: time-slicing}
seed: 2
devices:
  - {model: NVIDIA A10, memory: 24GiB, sharing: time-slicing,
     uuid: GPU-2673131d-0ceb-47ba-9be3-62d3140ca543}
pods:
  - name: c
    namespace: slice
    containers:
      - name: main
        limits: {nvidia.com/gpu: "1"}
        granted: {nvidia.com/gpu: ["GPU-2673131d-0ceb-47ba-9be3-62d3140ca543::0"]}
        processes: [{device: 0, duty: 0.2, memory: 4GiB}]
""",
    "node-3": """
node: {name: node-3}
seed: 3
devices:
  - {model: NVIDIA L4, memory: 24GiB}
  - {model: NVIDIA T4, memory: 16GiB}
pods:
  - name: d
    namespace: over
    annotations: {vke.volcengine.com/gpu-index-container-main: "0"}
    containers:
      - name: main
        limits: {vke.volcengine.com/mgpu-core: "60", vke.volcengine.com/mgpu-memory: "8192"}
        processes: [{device: 0, duty: 0.3, memory: 4GiB}]
  - name: e
    namespace: commit
    annotations: {vke.volcengine.com/gpu-index-container-main: "0"}
    containers:
      - name: main
        limits: {vke.volcengine.com/mgpu-core: "60", vke.volcengine.com/mgpu-memory: "8192"}
processes:
  - cgroup: /system.slice/slurmstepd.scope/job_7/step_0/user/task_0
    device: 1
    duty: 0.3
    memory: 4GiB
""",
}
TRUTH = {  # of a second; kept in the MIG board: the larger of 3/7 and 4/8, and 1/7
    ("H100", "mig", "used"): 0.5 * 4 / 7,
    ("H100", "mig", "allocated_idle"): 0.5 + 1 / 7 - 0.5 * 4 / 7,
    ("H100", "", "unallocated"): 1 - 0.5 - 1 / 7,
    ("A10", "slice", "used"): 0.2,
    ("A10", "slice", "allocated_idle"): 0.05,
    ("A10", "", "unallocated"): 0.75,
    ("L4", "over", "used"): 0.3,  # 1.2 cards are allocated: each share is scaled to a half
    ("L4", "over", "allocated_idle"): 0.2,
    ("L4", "commit", "allocated_idle"): 0.5,
    ("T4", "slurm", "used"): 0.3,
    ("T4", "", "unallocated"): 0.7,
}
LENGTH_S, SCRAPE_S = 1200, 60

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.slow]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, int]]:
    """A Prometheus that scraped the nodes, and the time of the last scrape."""
    folder = tmp_path_factory.mktemp("nodes")
    at = 0
    with Store(folder) as store:
        for name, text in NODES.items():
            (folder / f"{name}.yaml").write_text(text)
            clock = ManualClock()
            settings = load({"simulate": [str(folder / f"{name}.yaml")]}, {})
            collector = make_collector(settings, open_sources(settings, clock), clock)
            target = Target({"job": "mgpu-exporter", "instance": f"{name}:10045", "node": name})
            for second in range(1, 2 * SCRAPE_S + LENGTH_S + 1):
                clock.move(1)
                collector.cycle()
                if second % SCRAPE_S == 0:
                    at = round(collector.snapshot.unix_ns / 1e9)
                    page = Renderer().render(collector.snapshot, Format.TEXT).decode()
                    store.scrape(target, page, at)
        yield store, at


@pytest.mark.parametrize("method", METHODS)
def test_each_part_is_what_the_description_says(
    scraped: tuple[Store, int], method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store, until_s = scraped
    said = [
        f"--{name}={datetime.fromtimestamp(at, UTC).isoformat()}"
        for name, at in (("since", until_s - LENGTH_S), ("until", until_s))
    ]
    where = [f"--prometheus=http://{store.address}", "--price=1"]
    flags = [*where, f"--method={method}", "--format=json", *said]
    assert main(["bill", *flags]) == 0
    found: dict[tuple[str, str, str], float] = defaultdict(float)
    for row in json.loads(capsys.readouterr().out)["rows"]:
        (model,) = {name for name, *_ in TRUTH if name in row["model"].split()}
        found[model, row["namespace"] or row["owner"], row["part"]] += row["gpu_seconds"]

    expected = {key: part * LENGTH_S for key, part in TRUTH.items()}
    assert found == pytest.approx(expected, rel=0.01)
