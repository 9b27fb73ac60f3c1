"""What docs/security.md says of who chooses a target's labels, in a real Prometheus."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from tests.e2e.programs import Prometheus

pytestmark = [pytest.mark.slow, pytest.mark.program("prometheus")]

CLAIMED = 'mgpu_device_up{job="mgpu-exporter",instance="node-7",uuid="GPU-1"} 1\n'


class Tenant(BaseHTTPRequestHandler):
    """A tenant's pod that poses as the exporter of node-7."""

    def do_GET(self) -> None:
        """Its page."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(CLAIMED.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def tenant() -> Iterator[str]:
    """Its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Tenant) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Scraping(Prometheus):
    """One whose target may have any job."""

    def up(self) -> bool:
        """Whether the tenant's series are there."""
        try:
            return bool(self.query("mgpu_device_up"))
        except OSError:
            return False


def seen(tenant: str, folder: Path, *, honor: bool, rules: list[dict[str, str]]) -> dict[str, str]:
    """The labels by which Prometheus keeps what the tenant exposes."""
    own = {"target_label": "__meta_kubernetes_pod_label_job", "replacement": "mgpu-exporter"}
    job = f"    relabel_configs: {yaml.safe_dump([own, *rules], default_flow_style=True).strip()}\n"
    with Scraping(tenant, folder, "1s", job, honor=honor) as prometheus:
        (one,) = prometheus.query("mgpu_device_up")
    labels: dict[str, str] = one["metric"]
    return labels


def test_with_honoured_labels_a_tenant_names_any_job_and_any_node(
    tenant: str, tmp_path: Path
) -> None:
    labels = seen(tenant, tmp_path, honor=True, rules=[])
    assert (labels["job"], labels["instance"]) == ("mgpu-exporter", "node-7")


def test_so_it_does_where_the_labels_of_pods_become_the_targets(
    tenant: str, tmp_path: Path
) -> None:
    mapped = {"action": "labelmap", "regex": "__meta_kubernetes_pod_label_(.+)"}
    assert seen(tenant, tmp_path, honor=False, rules=[mapped])["job"] == "mgpu-exporter"


def test_without_both_its_series_have_the_jobs_own_name(tenant: str, tmp_path: Path) -> None:
    labels = seen(tenant, tmp_path, honor=False, rules=[])
    assert labels["job"] == "mgpu"
    assert labels["exported_job"] == "mgpu-exporter"
    assert labels["instance"] != "node-7"
