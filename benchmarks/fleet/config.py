"""Configurations of the servers that scrape the fleet. Pure; JSON, which is YAML too."""

import json
from typing import Any

from benchmarks.fleet.nodes import name

CLUSTER, ZONE = "fleet", "zone-a"
RECORDED = r".+:mgpu_.+|ALERTS"  # what leaves a zone: what its rules recorded, and its alerts
TIMEOUT_S = 10
EVALUATE_S = 60  # between evaluations of the groups of rules that do not say it


def scraping(address: str, count: int, every_s: int) -> dict[str, Any]:
    """Scrape every node of a fleet behind one address, each as an instance of its own."""
    groups = [
        {
            "targets": [address],
            "labels": {"__metrics_path__": f"/node/{number}/metrics", "instance": name(number)},
        }
        for number in range(count)
    ]
    job = {"job_name": "mgpu-exporter", "honor_labels": True, "static_configs": groups}
    return {
        "global": {
            "scrape_interval": f"{every_s}s",
            "scrape_timeout": f"{min(TIMEOUT_S, every_s)}s",
            "evaluation_interval": f"{EVALUATE_S}s",
            "external_labels": {"cluster": CLUSTER, "zone": ZONE},
        },
        "scrape_configs": [job],
    }


def writing(storage: str, keep: str = "") -> dict[str, Any]:
    """Write all that is scraped to a storage, or only the names that match ``keep``."""
    rule = {"source_labels": ["__name__"], "regex": keep, "action": "keep"}
    rules = {"write_relabel_configs": [rule]} if keep else {}
    return {"remote_write": [{"url": f"http://{storage}/api/v1/write", **rules}]}


def zone(scrape: dict[str, Any], storage: str, rules: list[str]) -> str:
    """A zone's Prometheus: scrapes, evaluates rules, writes on what they recorded."""
    return json.dumps({**scrape, "rule_files": rules, **writing(storage, RECORDED)})


def agent(scrape: dict[str, Any], storage: str) -> str:
    """An agent: scrapes and writes everything on."""
    return json.dumps({**scrape, **writing(storage)})
