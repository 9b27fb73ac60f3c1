"""Pods that are read, with parts of them replaced by what they should not hold.

What hypothesis tries first of each is the pod as it is, so that properties reach into the formats
by their first input, and from there on stay near them.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from hypothesis import strategies as st

from exporter.agent.allocations.registry import read_by
from exporter.agent.allocations.rules import Rules
from exporter.agent.allocations.scheme import Scheme
from exporter.model import Container, Device, Grant, NodeFacts, Pod
from tests.agent.allocations.cases import EXAMPLES, UPSTREAM, Json, node_of, pod_of

KINDS = ("app", "init", "sidecar", "ephemeral")
MOST = 4  # of what each system itself writes
JUNK = ("", ",", ":", ";", "-", '"', "{", "9" * 40, "GPU-9", "ü", "\0", "null")


class Case(NamedTuple):
    """A pod that its scheme reads, on a node on which it names a device."""

    pod: Pod
    node: NodeFacts


OF_INTEL = Case(
    Pod("u", "n", "p", containers=(Container("a", limits={"gpu.intel.com/i915": "1"}),)),
    NodeFacts(
        devices=(Device("i", 0, "intel", minor=0),),
        labels={"kubernetes.io/os": "linux"},
        grants={"u": (Grant("a", "gpu.intel.com/i915", ("card0-1",)),)},
    ),
)


def cases(scheme: Scheme) -> list[Case]:
    """The examples that a scheme reads and that name a device: a few of each source."""
    examples, upstream = _made()
    found = [*_read_by(scheme, examples), *_read_by(scheme, [*upstream, OF_INTEL])[:MOST]]
    assert found or not scheme.placement, f"no case of {scheme.name} in upstream/ names a device"
    return found


def _read_by(scheme: Scheme, found: list[Case]) -> list[Case]:
    return [case for case in found if any(a.device for a in read_by(scheme, *case).allocations)]


@cache
def _made() -> tuple[list[Case], list[Case]]:
    rules = Rules()

    def made(cases: list[tuple[str, Json]]) -> list[Case]:
        every = [case for _, case in cases if "settings" not in case]
        return [Case(pod_of(case["pod"], rules), node_of(case, rules)) for case in every]

    return made(EXAMPLES), made(UPSTREAM)


def near(case: Case, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Case]:
    """The case, and others in which ``texts``, or its own garbled, stand in place of its parts."""
    return st.builds(Case, _pod(case.pod, texts), _node(case.node, texts))


def _pod(pod: Pod, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Pod]:
    return st.builds(
        replace,
        st.just(pod),
        annotations=_values(pod.annotations, texts),
        labels=_values(pod.labels, texts),
        containers=st.tuples(*(_container(each, texts) for each in pod.containers)),
    )


def _container(container: Container, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Container]:
    return st.builds(
        replace,
        st.just(container),
        kind=st.sampled_from(sorted(KINDS, key=lambda kind: kind != container.kind)),
        limits=_values(container.limits, texts),
    )


def _node(node: NodeFacts, texts: st.SearchStrategy[str]) -> st.SearchStrategy[NodeFacts]:
    return st.builds(
        replace,
        st.just(node),
        devices=_some(node.devices),
        labels=_values(node.labels, texts),
        allocatable=_values(node.allocatable, texts),
        grants=st.fixed_dictionaries(
            {
                uid: st.tuples(*(_grant(grant, texts) for grant in held))
                for uid, held in node.grants.items()
            }
        ),
    )


def _grant(grant: Grant, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Grant]:
    ids = st.tuples(*(_text(device_id, texts) for device_id in grant.device_ids))
    return st.builds(Grant, st.just(grant.container), st.just(grant.resource), ids)


def _some(devices: tuple[Device, ...]) -> st.SearchStrategy[tuple[Device, ...]]:
    left_out = st.sets(st.sampled_from(devices), max_size=2) if devices else st.just(set())
    return left_out.map(lambda out: tuple(each for each in devices if each not in out))


def _values(
    own: Mapping[str, str], texts: st.SearchStrategy[str]
) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({key: _text(value, texts) for key, value in own.items()})


def _text(own: str, texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The text itself, a part of it, it with junk inside, it twice, or any other."""
    place = st.integers(0, len(own))
    return st.one_of(
        st.just(own),
        st.builds(lambda at, junk: own[:at] + junk + own[at:], place, st.sampled_from(JUNK)),
        place.map(lambda at: own[:at]),
        st.just(own + own),
        texts,
    )
