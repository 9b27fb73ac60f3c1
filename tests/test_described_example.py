"""The example of docs/configuration.md does what the page says of it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.agent.allocations.rules import Rules
from exporter.agent.collector.cyclerules import rules_of
from exporter.agent.collector.wiring import read_settings
from exporter.agent.settings.schemes import KEYS
from exporter.model import Allocation, Container, Device, NodeFacts, Pod

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
CARDS = tuple(
    Device(f"GPU-{index}", index, "nvidia", minor=3 - index, memory_bytes=32 << 30)
    for index in range(4)
)
NODE = NodeFacts(devices=CARDS, labels={"acme.example/policy": "burst"})
POD = Pod(
    "uid",
    "default",
    "p",
    containers=(
        Container(
            "train", limits={"acme.example/gpu-core": "250", "acme.example/gpu-memory": "16"}
        ),
    ),
    annotations={"acme.example/gpu-of-train": "3"},
)


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    [example, _] = [
        block
        for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
        if "schemes:" in block
    ]
    file = tmp_path / "settings.yaml"
    file.write_text(example)
    return rules_of(read_settings({"config.file": [str(file)]}))


def test_the_example_has_the_limits_that_are_promised(rules: Rules) -> None:
    decoded = rules.decode(POD, NODE)

    assert decoded.problems == ()
    assert decoded.allocations == (
        Allocation("uid", "train", "GPU-0", 0.25, 4 << 30, "acme-vgpu", policy="burst"),
    )


def test_all_units_of_a_card_have_all_its_memory(rules: Rules) -> None:
    whole = replace(POD, containers=(Container("train", limits={"acme.example/gpu-core": "1k"}),))

    assert [(a.core, a.memory_bytes) for a in rules.decode(whole, NODE).allocations] == [
        (1.0, 32 << 30)
    ]


def test_every_key_is_described() -> None:
    assert all(f"| `{name}` |" in PAGE.read_text() for name in KEYS)
