"""The policy of each card as the node itself has it: Tencent qGPU's ``/proc/qgpu/<card>/policy``.

Stands on the elastic-gpu project's installation guide (``cat /proc/qgpu/0/policy`` after the node's
label was set); what else is below ``/proc/qgpu`` is not read. Most nodes have none of it.
"""

import errno
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path

from exporter.agent.sources.files import read
from exporter.agent.sources.polled import Inquiry
from exporter.model import NodeFacts, PodTable

logger = logging.getLogger(__name__)

FOLDER, FILE = "qgpu", "policy"
MAX_CARDS = 64
MAX_BYTES = 64
_CARD = re.compile(r"0|[1-9][0-9]{0,3}", re.ASCII)
_POLICY = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ENODEV}


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
            OSError: the folder is there, and cannot be read.

        """
        try:
            names = [path.name for path in self._folder.iterdir()]
        except OSError as error:
            if error.errno not in _GONE:
                raise
            names = []  # most nodes have no qGPU
        cards = sorted(int(name) for name in names if _CARD.fullmatch(name))[:MAX_CARDS]
        self._problems = {card: wrong for card, wrong in self._problems.items() if card in cards}
        policies = {card: self._policy(card) for card in cards}
        return {card: policy for card, policy in policies.items() if policy}

    def facts(self, answer: Mapping[int, str], given: PodTable) -> NodeFacts:  # noqa: ARG002 - as above
        return NodeFacts(card_policies=answer)

    def _policy(self, card: int) -> str:
        path = self._folder / str(card) / FILE
        try:
            # One byte more than allowed shows that a file is too long.
            text = read(path, MAX_BYTES + 1).decode(errors="replace").strip()
        except OSError as error:
            if error.errno not in _GONE:
                self._reject(card, path, os.strerror(error.errno or 0))
            return ""
        if text and (len(text) > MAX_BYTES or not _POLICY.fullmatch(text)):
            self._reject(card, path, f"no policy: {text[:MAX_BYTES]!r}")
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
