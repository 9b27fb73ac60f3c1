"""Intel's GPU device plugin: cards of the drivers i915 and xe, whole or shared.

Cards are whole if the node offers as many devices as it has cards. Otherwise nothing is promised,
and an allocation has the number of ids granted. ``monitoring`` is not an allocation.

Unconfirmed: that a card's minor is the N of ``/dev/dri/cardN``.

Source: intel/intel-device-plugins-for-kubernetes' ``cmd/gpu_plugin/README.md``. A pod asks for
``gpu.intel.com/i915`` or ``xe``. The kubelet's PodResources names ``card<N>-<n>``: N is that of
``/dev/dri/cardN``, n one of the ``-shared-dev-num`` users that a card may have. The id does not
show whether there may be others. ``monitoring`` is access to all cards.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from exporter.agent.allocations.devicenames import card_by_number, cards, common_memory
from exporter.agent.allocations.quantities import parse_quantity
from exporter.agent.allocations.reader import NOTHING, PodReader, Share, each_container
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import SHARED, Evidence, IndexBasis, Reason
from exporter.agent.allocations.trust import asks_for
from exporter.model import Allocation, Container, Grant, Pod, Said, Tie

_VENDOR = "intel"
_RESOURCES = ("gpu.intel.com/i915", "gpu.intel.com/xe")
_TIE, _SHARED, _ASKS = ("gpu.intel.com/", "cards"), "shared", "asks"
_DEVICE_ID = re.compile(r"card(\d{1,4})-(\d{1,4})", re.ASCII)


def ties(pod: Pod, grants: Sequence[Grant]) -> Iterator[tuple[Tie, Said]]:
    """Return whether a pod's devices are shares of cards; no id of a whole one shows that."""
    held = [grant for grant in grants if grant.resource in _RESOURCES]
    if held or any(asks_for(container, _RESOURCES) for container in pod.containers):
        ids = (_DEVICE_ID.fullmatch(each) for grant in held for each in grant.device_ids)
        shared = any(match and int(match[2]) for match in ids)
        yield _TIE, (_SHARED if shared else _ASKS,)


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the cards, or the number of shares of cards, allocated to each container."""
    shares: Counter[int | None] = Counter()  # by card number
    for resource in _RESOURCES:
        ids = [_DEVICE_ID.fullmatch(each) for each in reader.granted(container, resource)]
        found = [int(match[1]) for match in ids if match is not None]
        if found and len(found) == len(ids):
            shares.update(found)
        elif count := reader.quantity(container, resource):
            shares[None] += count
    if not shares:
        return []
    whole = _is_whole(reader)
    unplaced = shares.pop(None, 0) if whole is not False else 0
    if not reader.allows(container, len(shares) + unplaced):
        return []
    numbers = [*sorted(shares, key=lambda n: (n is None, n)), *(None,) * unplaced]
    allocations: list[Allocation] = []
    every = cards(reader.node, _VENDOR)
    for number in numbers:
        card = None
        if number is not None:
            card = card_by_number(reader.node, reader.basis, number, _VENDOR)
        memory = card.memory_bytes if card else common_memory(every)
        share = Share(1.0, memory) if whole else NOTHING
        if whole is False:
            share = share._replace(policy=SHARED, replicas=shares[number])
        allocations += reader.allocate(container, (card,), share)
    return allocations


def _is_whole(reader: PodReader) -> bool | None:
    """Whether each device is a card of its own; None if that is unknown."""
    # An id shows that a card is shared only from its second user on. So one such id on the node,
    # of any pod, says it of all: the plugin divides every card alike.
    node = reader.node
    if (_SHARED,) in node.ties.get(_TIE, ()):
        return False
    if not (node.labels or node.allocatable):
        reader.reject(Reason.NODE_UNKNOWN, "its cards may be shared")
    last = {node.replicas[name] for name in _RESOURCES if name in node.replicas}
    if last:
        return last == {1}
    offered = sum(parse_quantity(node.allocatable.get(r, "")) or 0 for r in _RESOURCES)
    known = len(cards(node, _VENDOR))
    return offered <= known if offered and known else None


SCHEME = Scheme(
    name="intel-device-plugin",
    resources=_RESOURCES,
    annotations=(),
    index_basis=IndexBasis.MINOR,
    read=each_container(read),
    ties=ties,
    amounts=(Evidence.LIMITS, Evidence.GRANT),
    placement=(Evidence.GRANT,),
)
