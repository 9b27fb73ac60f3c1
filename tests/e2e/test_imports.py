"""What the agent has in memory: the libraries that it uses, of these what it uses, and no more.

Each line of NOT_IMPORTED has been in it, or came with a library that is. A module that a change
brings back wants a reason that is worth its memory, and 500 nodes have it 500 times.
"""

import signal
from pathlib import Path

import pytest

from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import node_document, pod_document
from tests.e2e.programs import Exporter, Page
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Gpu, Scenario

pytestmark = [pytest.mark.program("cc"), pytest.mark.slow]

NODE = "node-1"
NOT_IMPORTED = {
    "exporter.agent.doctor": "check's",
    "exporter.agent.sources.gpus.amd": "not asked for",
    "exporter.agent.sources.gpus.drm": "not asked for",
    "exporter.agent.commands.record": "record's",
    "exporter.agent.recording": "record's and replay's",
    "exporter.agent.simulation.description": "simulates nothing",
    "exporter.answers.top": "top's and snapshot's",
    "google.protobuf": "there is no kubelet to ask for devices, 9 MiB",
    "grpc": "likewise, 12 MiB",
    "jinja2": "nobody opened a page, 4 MiB",
    "psutil": "check's",
    "rich": "top's",
    "textual": "top's",
}
PROGRAM = """
import signal, sys
from exporter.cli import main
tell = lambda *_: print("modules:", *sys.modules, file=sys.stderr, flush=True)
signal.signal(signal.SIGUSR1, tell)
sys.exit(main(sys.argv[1:]))
"""


class Telling(Exporter):
    """Names its modules when it gets SIGUSR1."""

    def command(self, *arguments: str) -> list[str]:
        """The same, by another program."""
        python, *_ = super().command()
        return [python, "-c", PROGRAM, *arguments]

    def modules(self) -> set[str]:
        """All that it has imported."""
        self.process.send_signal(signal.SIGUSR1)
        return set(self.wait_for_log("modules: ").split())


def test_serving_with_the_pod_watch_leaves_out_what_it_does_not_use(tmp_path: Path) -> None:
    Scenario(gpus=[Gpu(0)]).write(tmp_path / "gpus.txt")
    with ApiServer() as api:
        api.set_node(node_document(NODE, {}, {}))
        api.add_pod(pod_document("a", node=NODE))
        flags = (
            "--gpus.source=nvml",
            f"--kubeconfig={write_kubeconfig(tmp_path / 'kubeconfig', api.url)}",
            f"--node.name={NODE}",
            f"--nvml.library={library()}",
            "--pods.source=api",
        )
        environment = {"FAKENVML_SCENARIO": str(tmp_path / "gpus.txt")}
        with Telling(*flags, environment=environment) as exporter:
            exporter.ready().when(_watches, "it watches")
            modules = exporter.modules()
    assert {"aiohttp.web", "kubernetes.client.rest", "pynvml"} <= modules
    assert not {name: why for name, why in NOT_IMPORTED.items() if name in modules}


def _watches(page: Page) -> bool:
    return page.value("mgpu_exporter_source_up", source="pods_api") == 1
