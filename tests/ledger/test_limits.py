from hypothesis import given
from hypothesis import strategies as st

from exporter.ledger.limits import Allotted, Limits
from exporter.model import Allocation, ContainerKey

PODS, CONTAINERS, DEVICES = ("a", "b", "c"), ("", "main"), ("GPU-0", "GPU-1", "GPU-gone", None)


@st.composite
def allotments(draw: st.DrawFn) -> Allotted:
    pod, container = draw(st.sampled_from(PODS)), draw(st.sampled_from(CONTAINERS))
    core, memory = draw(st.sampled_from([None, 0.25, 1.0])), draw(st.sampled_from([None, 1024]))
    device = draw(st.sampled_from(DEVICES))
    allocation = Allocation(pod, container, device, core, memory, "scheme")
    return Allotted(ContainerKey("n", pod, container), allocation)


@given(st.lists(st.tuples(st.lists(allotments()), st.sets(st.sampled_from(["GPU-0", "GPU-1"])))))
def test_limits_are_those_of_the_allotments_of_now_whatever_was_before(
    steps: list[tuple[list[Allotted], set[str]]],
) -> None:
    limits = Limits()
    for allotted, devices in steps:
        limits, fresh = limits.then(allotted, devices), Limits().then(allotted, devices)
        assert limits.unplaced == fresh.unplaced
        for pod in PODS:
            assert limits.of_pod(("n", pod)) == fresh.of_pod(("n", pod))
            for container in CONTAINERS:
                key = ContainerKey("n", pod, container)
                assert limits.devices_of(key) == fresh.devices_of(key)
                assert [limits.of(key, uuid or "") for uuid in DEVICES] == [
                    fresh.of(key, uuid or "") for uuid in DEVICES
                ]
        assert [limits.of_device(uuid or "") for uuid in DEVICES] == [
            fresh.of_device(uuid or "") for uuid in DEVICES
        ]
