"""What the test API server knows, remembers and was told to do wrong."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.agent.sources.pods.documents import Document

DEVICES = "/apis/resource.k8s.io"
REVIEWS = {"tokenreviews": "identify", "subjectaccessreviews": "permit"}
_KINDS = {0: "versions", 1: "resources", 2: "slices"}  # by the number of further parts of the path


@dataclass(frozen=True)
class Request:
    """What a client asked for. ``query`` holds the first value of each parameter."""

    path: str
    query: Mapping[str, str]
    authorization: str
    document: Document = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """One of list, watch, node, version, identify, permit.

        Of devices: versions, resources, claim, slices, rules. The reviews are identify
        (TokenReview) and permit (SubjectAccessReview).
        """
        if (review := REVIEWS.get(self.path.rpartition("/")[2])) is not None:
            return review
        if self.path.startswith(DEVICES) and self.path.endswith("/devicetaintrules"):
            return "rules"
        if self.path.startswith(DEVICES):
            return _KINDS.get(self.path.count("/") - DEVICES.count("/"), "claim")
        if self.path == "/version":
            return "version"
        if not self.path.endswith("/pods"):
            return "node"
        return "watch" if self.query.get("watch") == "true" else "list"


class Entry(NamedTuple):
    """One line of the watch history, valid for the node it names or, if "", for every watch."""

    version: int
    node: str
    line: bytes


@dataclass
class Fault:
    """An error to answer the next ``times`` requests of ``kind`` with."""

    kind: str
    status: int
    message: str
    times: int


@dataclass
class Account:
    """Whom a token belongs to, for which audiences it was made, and what its user may do.

    ``rights`` are pairs of a verb and a non-resource URL, or ``pods/NAMESPACE``, where ``pods/``
    stands for all namespaces.
    """

    user: Document
    audiences: tuple[str, ...] = ("https://kubernetes.default.svc",)
    rights: set[tuple[str, str]] = field(default_factory=set)


def encoded(document: object, escaped: str = "") -> bytes:
    """A document as JSON without spaces, as Go writes it."""
    text = json.dumps(document, separators=(",", ":"))
    for character in escaped:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


@dataclass
class State:
    """All that handlers and the test share; guarded by the server's condition."""

    version: int = 100
    compacted: int = 0
    pods: dict[str, Document] = field(default_factory=dict)  # by namespace/name
    nodes: dict[str, Document] = field(default_factory=dict)
    versions: tuple[str, ...] = ()  # of resource.k8s.io that are served
    claims: dict[str, Document] = field(default_factory=dict)  # by namespace/name
    slices: list[Document] = field(default_factory=list)
    taint_rules: list[Document] | None = None  # None: not served
    history: list[Entry] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    list_body: bytes | None = None
    escaped: str = ""  # characters that documents have as six bytes, as Go writes <, > and &
    accounts: dict[str, Account] = field(default_factory=dict)  # by token
    review_bodies: dict[str, bytes] = field(default_factory=dict)  # by kind, in place of an answer
    drip_s: float = 0.0  # between two bytes of a review's answer
    tokens: frozenset[str] | None = None
    epoch: int = 0  # watches that began in an earlier one end
    mute: bool = False
    running: bool = False
    watching: int = 0
