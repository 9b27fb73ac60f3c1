"""The loop: use rises over the target and pods are added, it falls and they go.

The autoscaler holds still where nothing is known.
"""

from collections.abc import Iterator

import pytest

from tools.cluster.autoscaling import NAME, SHARE, Autoscaling, Scaled
from tools.cluster.programs import eventually
from tools.cluster.stage import Stage
from tools.cluster.workloads import NAMESPACE

HIGH, LOW = SHARE, 0.1 * SHARE  # one pod: over the target of 0.7; two: well below it
PATIENCE_S = 240
LOOKS = 6  # 5 s apart: longer than all windows of the metric and of the autoscaler together


@pytest.fixture(scope="module")
def between(stage: Stage) -> Iterator[Autoscaling]:
    made = Autoscaling(stage.state, stage.logs, stage.plane, stage.kubectl)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def scaled(stage: Stage, between: Autoscaling) -> Iterator[Scaled]:
    made = Scaled(stage.kubectl, stage.node, stage.board, between)
    made.apply()
    eventually(lambda: made.settle() == 1, "one pod runs")
    yield made
    stage.notes.append(f"at the end the autoscaler read {made.ratios()}; its events:")
    for event in made.events():
        when, often = event["lastTimestamp"], event["count"]
        stage.notes.append(f"{when} {often}x {event['reason']}: {event['message']}")
    stage.kubectl("delete", "hpa,deployment", NAME, "-n", NAMESPACE)
    eventually(lambda: made.settle() == 0, "its pods are gone")


def reached(scaled: Scaled, replicas: int) -> bool:
    """Whether the autoscaler wants so many, and so many run; the demand is shared among them."""
    return scaled.settle() == replicas == scaled.wanted()


def settled(scaled: Scaled, ratios: list[float]) -> bool:
    """Whether the autoscaler's metric is this for each pod, within the noise of shared samples."""
    return list(scaled.ratios().values()) == [pytest.approx(each, abs=0.1) for each in ratios]


@pytest.mark.quick
def test_a_deployment_grows_when_its_use_rises_over_the_target(scaled: Scaled) -> None:
    scaled.demand = HIGH
    eventually(lambda: reached(scaled, 2), "two pods", PATIENCE_S)
    eventually(lambda: settled(scaled, [0.5, 0.5]), "each uses half of its share", PATIENCE_S)
    assert reached(scaled, 2)


def test_it_shrinks_when_its_use_falls(scaled: Scaled) -> None:
    scaled.demand = LOW
    eventually(lambda: reached(scaled, 1), "one pod", PATIENCE_S)
    eventually(lambda: settled(scaled, [0.1]), "it uses a tenth of its share", PATIENCE_S)


def test_it_holds_still_while_the_exporter_is_stopped(stage: Stage, scaled: Scaled) -> None:
    scaled.demand = HIGH
    eventually(lambda: reached(scaled, 2), "two pods", PATIENCE_S)
    with stage.agent.stopped():
        scaled.demand = LOW
        before = stage.plane.blind_looks()
        eventually(
            lambda: scaled.settle() and stage.plane.blind_looks() >= before + LOOKS,
            "the autoscaler has looked and seen nothing",
            PATIENCE_S,
        )
        assert reached(scaled, 2)
    eventually(lambda: reached(scaled, 1), "it goes on when the exporter is back", PATIENCE_S)
