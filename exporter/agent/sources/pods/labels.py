"""Pods' labels and annotations as metric labels, by an allow-list. Pure.

Names follow kube-state-metrics (internal/store/utils.go), so that a query that joins on
``label_app_kubernetes_io_name`` works with either. Unlike there, values are bounded, because
annotations may hold whole documents.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from exporter.agent.sources.pods.decode import KeyPrefixes
from exporter.model import Pod, PodTable

logger = logging.getLogger(__name__)

MAX_LABELS = 64  # of one pod, and as many annotations
MAX_VALUE = 256  # characters; a longer value is cut and ends in an ellipsis

_INVALID = re.compile(r"[^A-Za-z0-9_]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class LabelAllowList(NamedTuple):
    """Keys that may be shown. A key that ends in * matches all keys with that beginning."""

    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()

    def keep(self, more: KeyPrefixes) -> KeyPrefixes:
        """The prefixes that a decoder must keep for this list and for ``more``."""
        labels, annotations = ([key.removesuffix("*") for key in keys] for keys in self)
        return KeyPrefixes(
            (*more.annotations, *annotations), (*more.labels, *labels), more.node_annotations
        )


ALLOW_NOTHING = LabelAllowList()


class PodLabels:
    """The shown labels of each pod of a table. A pod's are computed again if it changes."""

    def __init__(self) -> None:
        self.rejected: Counter[str] = Counter()
        self._made_of = -1, ALLOW_NOTHING  # version of the table, and the list
        self._made: dict[str, tuple[Pod, Mapping[str, str]]] = {}  # by uid
        self._shown: dict[str, Mapping[str, str]] = {}
        self._reported: set[str] = set()

    def of(self, table: PodTable, allowed: LabelAllowList) -> Mapping[str, Mapping[str, str]]:
        """By pod uid, the names and values of metric labels; no entry for a pod without any."""
        if (table.version, allowed) != self._made_of:
            before = self._made if allowed == self._made_of[1] else {}
            self._made_of, self._made = (table.version, allowed), {}
            self._reported &= table.pods.keys()
            for uid, pod in table.pods.items() if any(allowed) else ():
                made = before.get(uid)
                if made is None or made[0] != pod:
                    made = pod, shown(pod, allowed)
                    self._count_left_out(pod, allowed)
                self._made[uid] = made
            self._shown = {uid: labels for uid, (_, labels) in self._made.items() if labels}
        return self._shown

    def _count_left_out(self, pod: Pod, allowed: LabelAllowList) -> None:
        both = (pod.labels, allowed.labels), (pod.annotations, allowed.annotations)
        left_out = sum(max(0, len(_allowed(*each)) - MAX_LABELS) for each in both)
        if left_out and pod.uid not in self._reported:
            self._reported.add(pod.uid)
            self.rejected["label_over_limit"] += left_out
            logger.warning(
                "pod %s/%s has too many labels or annotations to show; %d are left out, see "
                "--pods.labels and --pods.annotations",
                *(pod.namespace, pod.name, left_out),
            )


def shown(pod: Pod, allowed: LabelAllowList) -> dict[str, str]:
    """The pod's allowed labels and annotations by the names of metric labels.

    A label that a pod does not have is left out, as in kube-state-metrics, and not empty: with a *
    the other names are not known.
    """
    return {
        **_named("label", pod.labels, allowed.labels),
        **_named("annotation", pod.annotations, allowed.annotations),
    }


def _named(prefix: str, texts: Mapping[str, str], allowed: Sequence[str]) -> dict[str, str]:
    keys = _allowed(texts, allowed)[:MAX_LABELS]
    found: dict[str, str] = {}
    for name, key in zip(names(prefix, keys), keys, strict=True):
        value = texts[key]
        found[name] = value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 1]}…"
    return found


def _allowed(texts: Iterable[str], allowed: Sequence[str]) -> list[str]:
    whole = frozenset(allowed)
    beginnings = tuple(one[:-1] for one in allowed if one.endswith("*"))
    return sorted(key for key in texts if key in whole or key.startswith(beginnings))


def names(prefix: str, keys: Sequence[str]) -> list[str]:
    """Metric label names of sorted keys. Equal names are numbered."""
    # app.kubernetes.io/partOf → app_kubernetes_io_part_of, as kube-state-metrics writes it
    plain = [f"{prefix}_{_HUMP.sub('_', _INVALID.sub('_', key)).lower()}" for key in keys]
    unique = {name for name, times in Counter(plain).items() if times == 1}
    # Two keys may become one name. kube-state-metrics numbers both, the first too, so that neither
    # is taken for the only one.
    taken, made = set(unique), []
    for name in plain:
        numbered = (f"{name}_conflict{number}" for number in count(1))
        free = name if name in unique else next(n for n in numbered if n not in taken)
        taken.add(free)
        made.append(free)
    return made
