"""What rules/mgpu-recording.yaml would have recorded of workloads, by the exporters' own series.

Expressions by the name that a rule records under, without its level. Each is given matchers and the
seconds that one value is of. tests/answers/advise/test_advise.py compares the advice by both. Of
groups no rule records anything.
"""

from collections.abc import Callable, Mapping
from functools import partial

from exporter.answers.advise.sizing import RECORDED_S

_OF_POD = "cluster, job, instance, namespace, exported_namespace, pod, exported_pod"
_OF_CONTAINER = f"{_OF_POD}, container, exported_container"
_OWNER = "owner_kind, owner_name"
_LEVEL = f"cluster, namespace, exported_namespace, {_OWNER}, container, exported_container"

_RATE_S = 300  # a rate is of so long, and no value is of less

LIMITED = "mgpu_group_memory_limit_bytes"  # a group has no other share than this
_GROUP = "cluster, job, instance, kind, group"
_OF_GROUP = f"{_GROUP}, uuid"
_GROUP_LEVEL = f"cluster, {_OWNER}"

Series = Callable[[str, int], str]  # matchers, seconds → an expression


def _info(chosen: str) -> str:
    """Containers that are allocated a GPU, with the owners of their pods; a bare pod is its own.

    What is of a quarter of an hour is nobody's where the pod's name was another owner's in it.
    """
    of_pods = ",".join(filter(None, (chosen, 'owner_name=""')))
    owned = ",".join(filter(None, (chosen, 'owner_name!=""')))
    bare = f"mgpu_pod_info{{{of_pods}}}"
    for name in ("pod", "exported_pod"):
        bare = f'label_replace({bare}, "owner_name", "$1", "{name}", "(.+)")'
    bare = f'label_replace({bare}, "owner_kind", "Pod", "", "")'
    return (
        f"max by ({_OF_CONTAINER}) (mgpu_container_allocation_info{{{chosen}}})"
        f" * on ({_OF_POD}) group_left ({_OWNER})"
        f" max by ({_OF_POD}, {_OWNER}) (mgpu_pod_info{{{owned}}} or {bare})"
        f" unless on ({_OF_POD}) (count by ({_OF_POD}) (count by ({_OF_POD}, {_OWNER})"
        f" (last_over_time(mgpu_pod_info{{{chosen}}}[{RECORDED_S + _RATE_S}s]))) > 1)"
    )


def _owned(series: str, chosen: str) -> str:
    return f"{series} * on ({_OF_CONTAINER}) group_left ({_OWNER}) ({_info(chosen)})"


def _most(series: str, level: str = _LEVEL, whose: Callable[[str, str], str] = _owned) -> Series:
    """On the card where it is most. ``OF`` and ``TIME`` stand for what is given.

    ``whose``: adds to a series the labels of ``level`` that it lacks.
    """

    def expression(chosen: str, seconds: int) -> str:
        found = series.replace("OF", f"{{{chosen}}}").replace("TIME", f"{max(seconds, _RATE_S)}s")
        return f"max by ({level}) ({whose(found, chosen)})"

    return expression


def _cards(chosen: str, _: int) -> str:
    own = f"{_LEVEL}, pod, exported_pod, uuid, scheme"
    found = f"max by ({own}) ({_owned(f'mgpu_container_allocation_info{{{chosen}}}', chosen)})"
    return f"count by ({_LEVEL}, scheme) ({found})"


def _lasting(chosen: str, seconds: int) -> str:
    there = f"mgpu_container_allocation_info{{{chosen}}}"
    both = " and ".join(
        f"max by ({_OF_CONTAINER}) ({one})" for one in (there, f"{there} offset 1h")
    )
    count = f"count by ({_LEVEL}) ({_owned(f'({both})', chosen)})"
    return f"{count} or 0 * max without (scheme) ({_cards(chosen, seconds)})"


def _core(chosen: str, seconds: int) -> str:
    # rate() takes the whole five minutes as observed, of which in the first hours a part is not
    slope = f"clamp_min(deriv({_COUNTER}[5m]), 0)"
    # Half of each rate is in the next too: what grew from the last sample of one to the first of
    # the next would be in neither.
    many = f"max_over_time(rate({_COUNTER}[5m])[TIME:150s])" if seconds > _RATE_S else slope
    return _most(many)(chosen, seconds)


_COUNTER = "mgpu_container_core_seconds_totalOF"
_BUSY = "max by (cluster, instance, uuid) (rate(mgpu_device_busy_seconds_total[5m])) >= 0.95"
_TOTAL = (
    "max by (cluster, instance, uuid) ((mgpu_device_memory_total_bytes"
    " - mgpu_device_memory_reserved_bytes) or mgpu_device_memory_total_bytes)"
)
_ON_CARD = "* on (cluster, instance, uuid) group_left ()"
_MEMORY = "mgpu_container_memory_used_bytesOF"
SERIES: Mapping[str, Series] = {
    "mgpu_allocations:count": _cards,
    "mgpu_lasting_pods:count": _lasting,
    "mgpu_core_limit_ratio:max": _most("mgpu_container_core_limit_ratioOF"),
    "mgpu_core_seconds:max_rate5m_15m": _core,
    "mgpu_on_full_card:max": _most(f"(rate({_COUNTER}[5m]) > 0) {_ON_CARD} ({_BUSY})"),
    "mgpu_memory_limit_bytes:max": _most("mgpu_container_memory_limit_bytesOF"),
    "mgpu_memory_used_bytes:max_15m": _most(f"max_over_time({_MEMORY}[TIME])"),
    "mgpu_memory_usable_bytes:max": _most(f"({_MEMORY} >= bool 0) {_ON_CARD} {_TOTAL}"),
    "mgpu_memory_needed_bytes:max_15m": _most(f"max_over_time({_MEMORY}[TIME])"),
    "mgpu_memory_needed_bytes:min_15m": _most(f"min_over_time({_MEMORY}[TIME])"),
}


def _named(series: str, chosen: str) -> str:
    """A series of groups that have a limit, with their kind and name as an owner's.

    The name is the one that people gave, where it is known: a container made again keeps it.
    """
    there = f"{LIMITED}{{{chosen}}}"
    named = ",".join(filter(None, (chosen, 'name!=""')))
    name = f"topk by ({_GROUP}) (1, group by ({_GROUP}, name) (mgpu_group_info{{{named}}}))"
    name = f"({name} or on ({_GROUP}) group by ({_GROUP}) ({there}))"
    found = f"(({series}) and on ({_OF_GROUP}) {there}) * on ({_GROUP}) group_left (name) {name}"
    for owner, of in (("owner_kind", "kind"), ("owner_name", "group"), ("owner_name", "name")):
        found = f'label_replace({found}, "{owner}", "$1", "{of}", "(.+)")'
    return found


def _limited_cards(chosen: str, _: int) -> str:
    there = _named(f"{LIMITED}{{{chosen}}}", chosen)
    return f"count by ({_GROUP_LEVEL}) (max by ({_GROUP_LEVEL}, uuid) ({there}))"


def _limited_lasting(chosen: str, seconds: int) -> str:
    before = _named(f"{LIMITED}{{{chosen}}} offset 1h", chosen)
    return f"count by ({_GROUP_LEVEL}) ({before}) or 0 * {_limited_cards(chosen, seconds)}"


_HELD = "mgpu_group_memory_used_bytesOF"
_of_limited = partial(_most, level=_GROUP_LEVEL, whose=_named)
GROUP_SERIES: Mapping[str, Series] = {
    "mgpu_allocations:count": _limited_cards,
    "mgpu_lasting_pods:count": _limited_lasting,
    "mgpu_memory_limit_bytes:max": _of_limited(f"{LIMITED}OF"),
    "mgpu_memory_used_bytes:max_15m": _of_limited(f"max_over_time({_HELD}[TIME])"),
    "mgpu_memory_usable_bytes:max": _of_limited(f"({_HELD} >= bool 0) {_ON_CARD} {_TOTAL}"),
    "mgpu_memory_needed_bytes:max_15m": _of_limited(f"max_over_time({_HELD}[TIME])"),
    "mgpu_memory_needed_bytes:min_15m": _of_limited(f"min_over_time({_HELD}[TIME])"),
}
