"""Tencent Cloud TKE qGPU.

A core of 100, 200, ... is whole cards. Other values above 100 are divided evenly.
``qgpu-core-greedy`` is an offline pod's core. The policy is that in the node's ``/proc/qgpu``, else
its label.

Unconfirmed: the placement annotation on a live cluster; whether numbers are NVML indices (assumed)
or minors; how a policy is written in ``/proc/qgpu`` (assumed: as in the label); that a divided
request gets the fewest cards that can hold it.

Sources: the documents 457/65734 and 457/90912 (resources, policies, online and offline pods) and
457/127667 (several cards for one container); for the placement's key elastic-ai's fork of arena
(``pkg/apis/types/const.go``). A division is rounded down: 121 and 31 GiB are two cards of 60 and
15 GiB. ``qgpu-core-greedy`` is on one card. A node where online and offline pods share cards
(``mixed-qgpu-enable``) is mixed.
"""

from exporter.agent.allocations.devicenames import numbered_cards
from exporter.agent.allocations.reader import PodReader, Share, each_container
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import IndexBasis
from exporter.model import GIB, Allocation, Container
from exporter.model.policies import policies

_CORE = "tke.cloud.tencent.com/qgpu-core"
_GREEDY_CORE = "tke.cloud.tencent.com/qgpu-core-greedy"
_MEMORY = "tke.cloud.tencent.com/qgpu-memory"
_RESOURCES = (_CORE, _GREEDY_CORE, _MEMORY)
_PLACEMENT = "tke.cloud.tencent.com/qgpu-pgpu-"
_CLASS = "tke.cloud.tencent.com/app-class"
_CLASSES = {"online": "online", "offline": "offline"}
_POLICY = "tke.cloud.tencent.com/qgpu-schedule-policy"  # a node label
_SHORT = {"be": "best-effort", "fs": "fixed-share", "bs": "burst-share"}
_POLICIES = policies(*_SHORT.values(), **_SHORT)
_MIXED = "mixed-qgpu-enable"  # a node label


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the allocations of a container, one per card."""
    core, memory = reader.quantity(container, _CORE), reader.quantity(container, _MEMORY)
    greedy = reader.quantity(container, _GREEDY_CORE)
    if core is None and greedy is None and memory is None:
        return []
    count = 1 if core is None else -(-core // 100)
    if not reader.allows(container, count):
        return []
    whole = core is not None and core % 100 == 0
    share = Share(
        reader.core(greedy if core is None else core // count),
        reader.memory(None if memory is None else memory // count, GIB),
        priority=reader.one_of(_CLASSES, reader.annotation(_CLASS)),
    )
    allocations: list[Allocation] = []
    node, numbered = reader.node, numbered_cards(reader.node, reader.basis)
    for card in reader.placement(_PLACEMENT + container.name, count):
        # The node itself says the policy of each card. Its label says what was asked of it, which
        # may be later than what holds.
        policy = "mixed"
        if node.labels.get(_MIXED) != "enable":
            number = next((number for known, number in numbered if known == card), None)
            own = "" if number is None else node.card_policies.get(number, "").strip()
            policy = reader.one_of(_POLICIES, own or node.labels.get(_POLICY, ""))
        with_policy = share._replace(policy=policy)
        allocations += reader.allocate(container, (card,), with_policy, whole=whole)
    return allocations


SCHEME = Scheme(
    name="tke-qgpu",
    resources=_RESOURCES,
    annotations=(_PLACEMENT, _CLASS),
    index_basis=IndexBasis.NVML_INDEX,
    read=each_container(read),
)
