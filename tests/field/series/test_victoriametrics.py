"""What a real VictoriaMetrics answers to the shipped rules, where it differs from a Prometheus."""

import json
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.field.report import report
from tests.history import Scrape
from tests.rules.test_alerts import alerts
from tests.victoriametrics import victoriametrics

pytestmark = [pytest.mark.slow, pytest.mark.program("victoria-metrics")]
BEGIN = 1_780_005_600
ERRORS = 'mgpu_device_ecc_errors_total{gpu="0",uuid="GPU-a",kind="uncorrected"}'


def asked(address: str, expression: str, at_s: int) -> list[dict[str, Any]]:
    query = urllib.parse.urlencode({"query": expression, "time": at_s})
    with urllib.request.urlopen(f"http://{address}/api/v1/query?{query}", timeout=60) as answer:
        return list(json.load(answer)["data"]["result"])


@report(
    source="VictoriaMetrics#1962",
    seen="increase() has all of a counter's first value there, so alerts are raised whenever a "
    "series is new.",
    first="wrong",
    kind="What every store was thought to answer",
    group="series",
)
def test_errors_of_long_ago_raise_nothing_when_a_target_is_new(tmp_path: Path) -> None:
    """Three errors of years ago; a fourth comes after an hour."""
    [rule] = [one for one in alerts() if one["alert"] == "MgpuEccUncorrected"]
    target = {"job": "mgpu", "instance": "a"}
    scrapes = [
        Scrape(target, BEGIN + second, f"{ERRORS} {3 if second < 3600 else 4}")
        for second in range(0, 7200, 30)
    ]
    with victoriametrics(tmp_path, scrapes) as address:
        minutes = [
            minute for minute in range(1, 120) if asked(address, rule["expr"], BEGIN + minute * 60)
        ]
        plain = asked(address, f"increase({ERRORS}[30m]) > 0", BEGIN + 600)
    assert minutes == list(range(60, 90))
    assert plain, "increase() is as the report has it"
