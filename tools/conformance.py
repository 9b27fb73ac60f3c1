"""Collects evidence for two requirements of Kubernetes AI conformance from a cluster.

It scrapes every exporter through the API server before and while a workload runs, and writes what
it found in Markdown. It needs kubectl, and the rights to get pods/proxy and to run the workload.

    python3 tools/conformance.py --namespace=gpu-usage --workload=pods.yaml > evidence.md
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
REQUIRED = {"utilization": "utilization_ratio", "memory": "memory_used_bytes"}
WHERE_THERE = {
    "temperature": "temperature_celsius",
    "power": "power_watts",
    "interconnect": "pcie_bytes_total",
}
RISE = 0.05


class Sample(NamedTuple):
    """One series of a page."""

    name: str
    labels: dict[str, str]
    value: float


def samples(page: str) -> list[Sample]:
    """The series of a page in Prometheus' text format."""
    found = SAMPLE.findall(page)
    return [
        Sample(name, dict(LABEL.findall(labels)), float(value)) for name, labels, value in found
    ]


def by_card(page: list[Sample], family: str) -> dict[str, float]:
    """The first value of a device family for each card, by UUID."""
    found: dict[str, float] = {}
    for name, labels, value in page:
        if name == f"mgpu_device_{family}":
            found.setdefault(labels["uuid"], value)
    return found


def busier(before: list[Sample], during: list[Sample]) -> list[str]:
    """The cards whose utilisation has risen."""
    was = by_card(before, REQUIRED["utilization"])
    now = by_card(during, REQUIRED["utilization"])
    return [uuid for uuid, ratio in now.items() if ratio - was.get(uuid, 0) > RISE]


def metrics_evidence(before: list[Sample], during: list[Sample]) -> Iterator[tuple[bool, str]]:
    """Each claim of accelerator_metrics, and whether it holds."""
    cards = {labels["uuid"] for name, labels, _ in during if name == "mgpu_device_up"}
    for kind, family in REQUIRED.items():
        here = by_card(during, family)
        yield (
            cards == here.keys() != set(),
            f"{kind}: `mgpu_device_{family}` of {len(here)} of {len(cards)} cards",
        )
    for kind, family in WHERE_THERE.items():
        here = by_card(during, family)
        yield (
            True,
            f"{kind}, where there: `mgpu_device_{family}` of {len(here)} of {len(cards)} cards",
        )
    was, now = (by_card(page, REQUIRED["utilization"]) for page in (before, during))
    rises = [
        f"{uuid} from {was.get(uuid, 0):.2f} to {now[uuid]:.2f}" for uuid in busier(before, during)
    ]
    yield bool(rises), f"the workload shows: {', '.join(rises) or 'no card became busier'}"


def sharing_evidence(during: list[Sample]) -> Iterator[tuple[bool, str]]:
    """Each claim of gpu_sharing: cards with several containers, each with its own use."""
    containers: dict[str, set[str]] = defaultdict(set)
    systems: dict[str, set[str]] = defaultdict(set)
    for name, labels, _ in during:
        uuid = labels.get("uuid")
        if not uuid or "container" not in labels:
            continue
        owner = "/".join(labels[key] for key in ("namespace", "pod", "container"))
        if name == "mgpu_container_core_utilization_ratio":  # of those that are there now
            containers[uuid].add(owner)
        if name == "mgpu_container_allocation_info":
            systems[uuid].add(labels["scheme"])
    shared = {uuid: owners for uuid, owners in containers.items() if len(owners) > 1}
    yield bool(shared), f"{len(shared)} cards with several containers, each with its own use"
    for uuid, owners in shared.items():
        by = ", ".join(sorted(systems[uuid])) or "none"
        yield bool(systems[uuid]), f"{uuid}: {', '.join(sorted(owners))}; allocated by {by}"


def kubectl(*arguments: str) -> str:
    """What kubectl prints; where it fails, this program ends with 2, because no claim was tried."""
    try:
        return subprocess.run(
            ["kubectl", *arguments],  # noqa: S607 - the user's own
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"conformance: kubectl {' '.join(arguments)}: {error}", file=sys.stderr)
        sys.exit(2)


def scrape(given: argparse.Namespace) -> list[Sample]:
    """The pages of all exporters."""
    pods = json.loads(
        kubectl("get", "pods", "-n", given.namespace, "-l", given.selector, "-o", "json")
    )
    base = f"/api/v1/namespaces/{given.namespace}/pods"
    names = [pod["metadata"]["name"] for pod in pods["items"]]
    pages = [kubectl("get", "--raw", f"{base}/{name}:{given.port}/proxy/metrics") for name in names]
    return [sample for page in pages for sample in samples(page)]


def run(given: argparse.Namespace) -> tuple[list[Sample], list[Sample]]:
    """The pages before the workload, and once it shows or the time is over."""
    before = scrape(given)
    kubectl("apply", "-f", given.workload)
    try:
        until = time.monotonic() + given.timeout
        during = scrape(given)
        while not busier(before, during) and time.monotonic() < until:
            time.sleep(2)
            during = scrape(given)
    finally:
        kubectl("delete", "-f", given.workload, "--wait=true")
    return before, during


def main() -> int:
    """Collect, write, and answer with 0 if all claims hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--selector", default="app.kubernetes.io/name=mgpu-exporter")
    parser.add_argument("--port", default="10045")
    parser.add_argument(
        "--workload", required=True, help="manifest of pods that share a GPU and use it"
    )
    parser.add_argument("--timeout", type=float, default=120)
    given = parser.parse_args()
    before, during = run(given)
    version = json.loads(kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    print(f"Kubernetes {version}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    holds = True
    for requirement, claims in (
        ("accelerator_metrics (KAR-0059)", metrics_evidence(before, during)),
        ("gpu_sharing (KAR-0003)", sharing_evidence(during)),
    ):
        print(f"\n## {requirement}\n")
        for is_met, text in claims:
            holds = holds and is_met
            print(f"- {'met' if is_met else '**not met**'}: {text}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
