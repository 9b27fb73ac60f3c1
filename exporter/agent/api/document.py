"""The documents: a whole Snapshot, its devices, one of its pods, its history; and their schema.

Each object is defined once, by its members (``objects``): documents and schema are made from that.
"""

from collections.abc import Collection, Iterator
from typing import Any

from exporter.agent.api.context import About, Context
from exporter.agent.api.fields import Field, Json, Many, Object
from exporter.agent.api.objects import DEVICES, ERROR, HISTORY, POD, SNAPSHOT
from exporter.model import PodName, Snapshot

Document = dict[str, Any]
HISTORY_MINUTES = 10


Namespaces = Collection[str] | None
"""The namespaces that the client may see; None stands for all of the node."""


def snapshot(of: Snapshot, about: About, age_ns: int, namespaces: Namespaces = None) -> Document:
    """The answer to ``GET /api/v1/snapshot``: everything."""
    return _made(SNAPSHOT, Context(of, about, age_ns, namespaces))


def devices(of: Snapshot, about: About, age_ns: int, namespaces: Namespaces = None) -> Document:
    """The answer to ``GET /api/v1/devices``."""
    return _made(DEVICES, Context(of, about, age_ns, namespaces))


def pod(
    of: Snapshot,
    about: About,
    age_ns: int,
    namespaces: Namespaces = None,
    *,
    name: PodName,
) -> Document | None:
    """The answer to ``GET /api/v1/pods/{namespace}/{pod}``; None if there is no such pod."""
    context = Context(of, about, age_ns, namespaces)
    context.wanted = name
    # A pod that the client may not see is answered as one that is not there: an answer of its own
    # would say that there is a pod of this name.
    return _made(POD, context) if context.pods else None


def history(
    of: Snapshot,
    about: About,
    age_ns: int,
    namespaces: Namespaces = None,
    *,
    minutes: int = HISTORY_MINUTES,
) -> Document:
    """The answer to ``GET /api/v1/history``: the last minutes, null where nothing was measured."""
    context = Context(of, about, age_ns, namespaces)
    context.minutes = minutes
    return _made(HISTORY, context)


def _made(answer: Object, context: Context) -> Document:
    return answer.made(context, context)


def error(words: str) -> Document:
    """Any answer that is not 200."""
    return {"error": words}


def schema() -> Json:
    """The JSON schema (draft 2020-12); ``$defs`` has one for the answer of each path."""
    answers = (SNAPSHOT, DEVICES, POD, HISTORY, ERROR)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:mgpu-exporter:api:v1",
        "title": "Answers of mgpu-exporter's /api/v1/",
        "description": "Unknown values are absent; unmeasured has the reasons. Base units: "
        "seconds, bytes, joules, watts; a ratio of 1 is a whole GPU. Times are Unix times.",
        "anyOf": [{"$ref": f"#/$defs/{answer.name}"} for answer in answers],
        "$defs": {each.name: each.schema() for answer in answers for each in _within(answer)},
    }


def _within(of: Object) -> Iterator[Object]:
    """The object and all that it refers to."""
    if of.name:
        yield of
    for part in of.parts:
        kind = part.kind if isinstance(part, Field) else None
        kind = kind.kind if isinstance(kind, Many) else kind
        if isinstance(kind, Object):
            yield from _within(kind)
