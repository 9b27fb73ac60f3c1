"""The policy of each card as the node itself has it: Tencent qGPU's ``/proc/qgpu/<card>/policy``.

Stands on the elastic-gpu project's installation guide (``cat /proc/qgpu/0/policy`` after the node's
label was set); what else is below ``/proc/qgpu`` is not read. Most nodes have none of it.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, UnreadError
from exporter.agent.sources.polled import Inquiry
from exporter.model import NodeFacts, PodTable

logger = logging.getLogger(__name__)

FOLDER, FILE = "qgpu", "policy"
MAX_CARDS = 64
MAX_NAMES = 4096
MAX_BYTES = 64
_CARD = re.compile(r"0|[1-9][0-9]{0,3}", re.ASCII)
_POLICY = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)


class CardPolicies(Inquiry[PodTable, Mapping[int, str], NodeFacts]):
    """Policies by the numbers that qGPU gives the cards, from ``/proc`` at ``proc_root``.

    A file that cannot be used costs its card the policy; one that stays so counts once.
    """

    name = "card_policies"
    nothing = NodeFacts()

    def __init__(self, proc_root: str) -> None:
        super().__init__()
        self._folder = Path(proc_root) / FOLDER
        self._problems: dict[int, str] = {}  # of the cards' files

    def subject(self, given: PodTable) -> bool:  # noqa: ARG002 - nothing in it is about pods
        return True

    def ask(self, given: PodTable) -> Mapping[int, str]:  # noqa: ARG002 - as above
        """Read each card's policy; empty where the node has no such files.

        Raises:
            UnreadError: the folder is there, and cannot be read.

        """
        listed = door.names(self._folder, MAX_NAMES)
        if isinstance(listed, Refused | Failed):
            raise UnreadError(f"{self._folder}: {door.why(listed)}")
        names = [] if isinstance(listed, Absent) else listed.value  # most nodes have no qGPU
        cards = sorted(int(name) for name in names if _CARD.fullmatch(name))[:MAX_CARDS]
        self._problems = {card: wrong for card, wrong in self._problems.items() if card in cards}
        policies = {card: self._policy(card) for card in cards}
        return {card: policy for card, policy in policies.items() if policy}

    def facts(self, answer: Mapping[int, str], given: PodTable) -> NodeFacts:  # noqa: ARG002 - as above
        return NodeFacts(card_policies=answer)

    def _policy(self, card: int) -> str:
        path = self._folder / str(card) / FILE
        reply = door.read(path, MAX_BYTES)
        if isinstance(reply, Absent):
            return ""
        if isinstance(reply, Refused | Failed):
            self._reject(card, path, door.why(reply))
            return ""
        text = reply.value.decode(errors="replace").strip()
        if text and (isinstance(reply, Cut) or not _POLICY.fullmatch(text)):
            self._reject(card, path, f"no policy: {text!r}")
            return ""
        self._problems.pop(card, None)
        return text

    def _reject(self, card: int, path: Path, wrong: str) -> None:
        # The files are read again and again. What stays wrong is counted and said once.
        if self._problems.get(card) == wrong:
            return
        self._problems[card] = wrong
        self._rejections.count("card_policy_unusable")
        logger.warning("%s is not used: %s; allocations on this card show no policy", path, wrong)
