"""All examinations in their order."""

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from exporter.doctor.cgroups import cgroups
from exporter.doctor.clock import clock
from exporter.doctor.evidence import Evidence
from exporter.doctor.exporter import exporter
from exporter.doctor.finding import Finding, problem
from exporter.doctor.gpus import gpus
from exporter.doctor.groups import groups
from exporter.doctor.node import node
from exporter.doctor.pods import pods
from exporter.doctor.together import together

logger = logging.getLogger(__name__)


class Examined(NamedTuple):
    """A finding, and what was examined."""

    room: str
    finding: Finding


EXAMINATIONS: dict[str, Callable[[Evidence], Iterator[Finding]]] = {
    "exporter": exporter,
    "cgroups": cgroups,
    "gpus": gpus,
    "pods": pods,
    "node": node,
    "groups": groups,
    "clock": clock,
    "together": together,
}


def examine(evidence: Evidence) -> Iterator[Examined]:
    """Every finding; one examination that fails is a problem of its own."""
    for room, look in EXAMINATIONS.items():
        try:
            for finding in look(evidence):
                yield Examined(room, finding)
        except Exception as error:
            logger.debug("examining %s failed", room, exc_info=True)
            remedy = "report it, with what --log.level=debug says"
            yield Examined(room, problem("examination", f"failed: {error!r}"[:300], remedy))
