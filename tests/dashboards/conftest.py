"""One Prometheus for all tests of the dashboards, and the nodes that it scrapes."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from exporter.agent.simulation.load_scenario import shipped
from rules.generate import FOLDER
from tests.dashboards.grafana import Ask
from tests.e2e.programs import Exporter, Prometheus, eventually
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Gpu, Scenario

HERE = Path(__file__).parent
IDLE = str(HERE / "idle.yaml")
FAULTY = str(HERE / "node.yaml")
SCENARIOS = [*shipped(), IDLE]
JOB = """\
  - job_name: {job}
    honor_labels: {honors}
    static_configs:
{targets}"""
TARGET = """\
      - targets: ['{address}']
        labels: {{instance: node-{number}, namespace: monitoring, pod: mgpu-{number}, container: c}}
"""
# Of the alerts of rules/ some fire only after minutes; this one has a name like theirs.
ALERT = """\
groups:
  - name: dashboards
    interval: 1s
    rules: [{alert: MgpuTest, expr: mgpu_device_up == 0, labels: {severity: critical}}]
"""


@pytest.fixture(scope="package")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """A Prometheus with four worlds, each a job.

    ``honored`` and ``exported`` are all nodes, with and without ``honor_labels``; ``slurm`` is one
    node without Kubernetes; ``podless`` is one node of a cluster on which no pod has a GPU.
    """
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        nodes = {name: stack.enter_context(_simulated(name)) for name in SCENARIOS}
        driven = stack.enter_context(_with_a_driver(folder))
        addresses = {name: _address(node) for name, node in nodes.items()}
        # the last: an XID of it is an increase only if Prometheus has scraped it before
        faulty = stack.enter_context(_simulated(FAULTY))
        every = [*addresses.values(), _address(driven), _address(faulty)]
        jobs = [
            _job("honored", every),
            _job("exported", every, honors=False),
            _job("slurm", [addresses["hpc"]]),
            _job("podless", [addresses[IDLE]]),
        ]
        (folder / "alerts.yaml").write_text(ALERT)
        _recording(folder / "recorded.yaml")
        jobs.append(f"rule_files: ['{folder}/recorded.yaml', '{folder}/alerts.yaml']\n")
        # the first target is scraped by a job of its own, whose series no dashboard is to show
        first = nodes[SCENARIOS[0]].url
        prometheus = stack.enter_context(Prometheus(first, folder, "1s", job="".join(jobs)))
        pods = "count(mgpu_pod_info{job='exported'})"
        alone = "count(count by (job) (mgpu_device_info{job=~'slurm|podless'})) == 2"
        eventually(
            lambda: prometheus.query(f"{pods} and on () {alone}"), "pods, and both nodes alone"
        )
        yield prometheus.query


def _simulated(scenario: str) -> Exporter:
    return Exporter(f"--simulate={scenario}", "--metrics.enable=contention")


def _address(exporter: Exporter) -> str:
    return exporter.ready().url.partition("://")[2]


def _job(name: str, addresses: Sequence[str], *, honors: bool = True) -> str:
    targets = "".join(TARGET.format(address=a, number=number) for number, a in enumerate(addresses))
    return JOB.format(job=name, honors=str(honors).lower(), targets=targets)


RECORDED = {
    "mgpu-cost",
    "mgpu-devices-recorded",
    "mgpu-namespaces",
    "mgpu-nobody",
    "mgpu-pods-recorded",
    "mgpu-workloads",
}


def _recording(to: Path) -> None:
    """The rules that boards read, but of sizing, every 3 s: each second would keep a core busy."""
    groups = yaml.safe_load((FOLDER / "mgpu-recording.yaml").read_text())["groups"]
    wanted = [one for one in groups if one["name"] in RECORDED]
    # What a container waits, and its use of its share, are in a group of which boards read no more.
    of_pods = {
        "namespace_pod_container_uuid:mgpu_core_waiting_seconds:rate5m",
        "namespace_pod:mgpu_core_limit_utilization:ratio_rate5m",
    }
    some = [one for group in groups for one in group["rules"] if one.get("record") in of_pods]
    wanted.insert(0, {"name": "of-pods", "rules": some})
    to.write_text(json.dumps({"groups": [one | {"interval": "3s"} for one in wanted]}))


def _with_a_driver(folder: Path) -> Exporter:
    """An exporter with a driver's library: calls of it, and all that a Hopper board can tell."""
    scenario = folder / "gpus.txt"
    Scenario(gpus=[Gpu(0, garbage=2)], loaded=0.0).write(scenario)
    return Exporter(
        f"--nvml.library={library()}",
        "--pods.source=none",
        environment={"FAKENVML_SCENARIO": str(scenario)},
    )


@pytest.fixture(scope="package")
def ask_nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """A Prometheus that has scraped nothing."""
    with Prometheus({}, tmp_path_factory.mktemp("empty"), "1s") as prometheus:
        yield prometheus.query
