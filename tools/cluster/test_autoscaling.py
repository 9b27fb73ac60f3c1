"""The loop: use rises over the target and pods are added, it falls and they go.

The autoscaler holds still where nothing is known.
"""

from collections.abc import Iterator

import pytest

from tools.cluster.autoscaling import NAME, SHARE, Autoscaling, Scaled
from tools.cluster.programs import eventually
from tools.cluster.stage import Stage
from tools.cluster.workloads import NAMESPACE, container, pod, with_mgpu

HIGH, LOW = SHARE, 0.1 * SHARE  # one pod: over the target of 0.7; two: well below it
PATIENCE_S = 240
PRESSURE = "mgpu_pod_core_pressure"  # by use alone it would stay as it is
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


def test_a_starved_service_is_named_by_an_alert_and_grows(
    stage: Stage, between: Autoscaling, scaled: Scaled
) -> None:
    """All want the whole card. The service gets a sixth of it, which is about half of its share."""
    crowd = [container(f"c{number}") for number in range(5)]
    hogs = stage.run(with_mgpu(pod("crawl", *crowd), gpu=0, core=10, memory_mib=256))
    scaled.demand = 0
    eventually(lambda: reached(scaled, 1), "one pod", PATIENCE_S)
    for one in hogs.values():
        stage.board.work(one.pid, 0, 1.0)
    scaled.demand = 1.0
    eventually(scaled.settle, "its pod works")

    def named() -> list[dict[str, str]]:
        scaled.settle()
        firing = between.alerts()
        return [one for one in firing if one["pod"].startswith(f"{NAME}-")]

    alert, *_ = eventually(named, "the alert has the victim's labels", PATIENCE_S)
    assert alert["namespace"] == NAMESPACE
    assert f"{NAMESPACE}/crawl" in alert["description"]
    eventually(lambda: scaled.settle() >= 2 <= scaled.wanted(), "it grows", PATIENCE_S)
    said = [event["message"] for event in scaled.events()]
    assert any(PRESSURE in message for message in said), said
    stage.notes.append(f"starved: {alert['description']}")
    for one in hogs.values():
        stage.board.end(one.pid)
    stage.delete("crawl")
