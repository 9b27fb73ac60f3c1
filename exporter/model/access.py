"""Clients as the API server knows them, and the rights that it is asked about."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Subject:
    """A user or ServiceAccount, as a TokenReview names it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a non-resource URL (``path``), or on a resource in a namespace.

    With a resource, the namespace "" stands for all namespaces.
    """

    verb: str
    path: str = ""
    resource: str = ""
    namespace: str = ""


class ReviewError(Exception):
    """The API server gave no answer that can be used; the message says why."""
