"""The rules of allocation: which schemes are tried, in which order, with the user's overrides.

They are one frozen value. A holder of rules decodes all pods again when it gets other rules.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporter.agent.allocations import registry
from exporter.agent.allocations.described import scheme_of
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.schemes import hami, kai, volcano_gpushare, volcano_vgpu
from exporter.agent.allocations.schemes.vgpu import ResourceNames
from exporter.agent.allocations.terms import Decoded, IndexBasis
from exporter.agent.allocations.ties import Knowledge, knowledge_of, together
from exporter.model import Grant, NodeFacts, Pod, SchemeDescription

SCHEMES, INDEX_BASIS, HAMI = "schemes", "index-basis", "hami"
"""The settings below ``allocations.`` that a complaint can name."""

_HAMI_FIELDS = {  # of its device configuration, pkg/device/nvidia, NvidiaConfig
    "resourceCountName": "count",
    "resourceMemoryName": "memory",
    "resourceMemoryPercentageName": "memory_percentage",
    "resourceCoreName": "core",
    "resourcePriorityName": "priority",
}
_HAMI_FACTOR = "memoryFactor"


class RulesError(ValueError):
    """The user's settings contradict the schemes. ``complaints`` has setting and text of each."""

    def __init__(self, complaints: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(text for _, text in complaints))
        self.complaints = complaints


@dataclass(frozen=True, slots=True)
class Rules:
    """How allocations are read. ``index_bases`` overrides by scheme what device numbers mean."""

    schemes: tuple[Scheme, ...] = registry.SCHEMES
    index_bases: Mapping[str, str] = field(default_factory=dict)

    @property
    def annotations(self) -> tuple[str, ...]:
        """Pod annotations that a decoder may read: keys, or beginnings of keys."""
        return tuple(sorted({key for scheme in self.schemes for key in scheme.annotations}))

    @property
    def labels(self) -> tuple[str, ...]:
        """Pod labels in the same way."""
        return tuple(sorted({key for scheme in self.schemes for key in scheme.labels}))

    def knowledge_of(self, pod: Pod, grants: tuple[Grant, ...]) -> Knowledge:
        """Return what follows from a pod and its grants alone."""
        return knowledge_of(pod, grants, self.schemes)

    def tied(self, node: NodeFacts, pods: Iterable[Pod]) -> NodeFacts:
        """Return the node's facts with what its pods have in common."""
        known = [self.knowledge_of(pod, node.grants.get(pod.uid, ())) for pod in pods]
        return replace(node, ties=together(each.says for each in known))

    def decode(self, pod: Pod, node: NodeFacts) -> Decoded:
        """Return the allocations of a pod's containers; never raises."""
        return registry.decode(pod, node, self.schemes)


def make(
    described: Sequence[SchemeDescription] = (),
    index_bases: Mapping[str, str] | None = None,
    hami_names: Mapping[str, str] | None = None,
    *,
    volcano_factor: int = 0,
    kai_namespaces: Sequence[str] = (),
) -> Rules:
    """Return the rules with a user's schemes and overrides. The user's schemes are tried first.

    ``hami_names`` has entries of HAMi's device configuration, by HAMi's own keys.
    ``volcano_factor`` is the memory factor of Volcano's plugins, 0 if not stated.
    ``kai_namespaces`` are those of KAI's reservations, empty if they are to be found.

    Raises:
        RulesError: with all contradictions.

    """
    bases = index_bases or {}
    shipped = shipped_schemes(hami_names or {}, volcano_factor, kai_namespaces)
    replaced = {name for about in described for name in about.replaces}
    own = tuple(map(scheme_of, described))
    schemes = own + tuple(scheme for scheme in shipped if scheme.name not in replaced)
    complaints = [(SCHEMES, text) for about in described for text in _taken(about, shipped)]
    numbering = [s.name for s in schemes if s.index_basis not in {None, IndexBasis.UUID}]
    for name in bases:
        if name not in numbering:
            known = any(scheme.name == name for scheme in schemes)
            what = "does not number its cards" if known else "is no scheme that is read"
            text = f"{name} {what}; those that number them: {', '.join(numbering)}"
            complaints.append((INDEX_BASIS, text))
    names = _names(hami_names or {})
    read = Counter(getattr(names, field) for field in _HAMI_FIELDS.values())
    complaints += [
        (HAMI, f"it reads {one} as two things") for one, count in read.items() if count > 1
    ]
    if complaints:
        raise RulesError(complaints)
    return Rules(schemes, bases)


def shipped_schemes(
    hami_names: Mapping[str, str], volcano_factor: int = 0, kai_namespaces: Sequence[str] = ()
) -> tuple[Scheme, ...]:
    """Return the shipped schemes, configured as their own systems are on these nodes."""
    configured: dict[str, Scheme] = {}
    if hami_names:
        configured["hami"] = hami.scheme(_names(hami_names))
    if volcano_factor:
        for module in (volcano_vgpu, volcano_gpushare):
            configured[module.SCHEME.name] = module.scheme(volcano_factor)
    if kai_namespaces:
        configured["kai"] = kai.scheme(frozenset(kai_namespaces))
    return tuple(configured.get(scheme.name, scheme) for scheme in registry.SCHEMES)


def _names(stated: Mapping[str, str]) -> ResourceNames:
    """HAMi's names, with those of its device configuration that are stated."""
    names = {own: stated[key] for key, own in _HAMI_FIELDS.items() if key in stated}
    factor = int(stated.get(_HAMI_FACTOR, hami.NAMES.memory_factor))
    return replace(hami.NAMES, memory_factor=factor, **names)


def _taken(about: SchemeDescription, shipped: Sequence[Scheme]) -> Iterator[str]:
    """Complaints about names and resources of shipped schemes that a described scheme reuses."""
    known = sorted(scheme.name for scheme in shipped)
    for name in about.replaces:
        if name not in known:
            yield f"{about.name} replaces {name}, which is not shipped; known: {', '.join(known)}"
    left = [scheme for scheme in shipped if scheme.name not in about.replaces]
    if about.name in (scheme.name for scheme in left):
        yield f"{about.name} is the name of a shipped scheme; {_say_so([about.name])}"
    for resource in filter(None, (*about.resources, about.evidence_resource)):
        # Two schemes with one resource would count it twice. A scheme's resource may be the
        # beginning of several.
        users = [
            scheme.name
            for scheme in left
            if any(
                own == resource or (not own[-1:].isalnum() and resource.startswith(own))
                for own in scheme.resources
            )
        ]
        if users:
            yield f"{about.name} reads {resource}, as shipped schemes do; {_say_so(users)}"


def _say_so(names: Sequence[str]) -> str:
    return f"choose another, or add replaces: [{', '.join(names)}]"
