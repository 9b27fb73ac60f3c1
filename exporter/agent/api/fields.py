"""Objects of the documents, each field once: what it is made from, and its JSON schema."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

Json = dict[str, Any]

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
FLAG = {"type": "boolean"}


class FieldPart(Protocol):
    """A part of an object: a field, or several."""

    def made(self, thing: Any, context: Any) -> Json:  # noqa: ANN401 - each object's own
        """Its members for a thing; what is not known is left out."""
        ...

    def schemas(self) -> Iterable[tuple[str, Json, bool]]:
        """Of each member its name, its schema, and whether it is always there."""
        ...


@dataclass(frozen=True, slots=True)
class Object:
    """An object of ``parts``; the schema refers to one that has a name.

    ``open``: the members for a client who may see some namespaces only; None stands for all. What
    is new stays hidden until it is listed.
    """

    name: str
    parts: Sequence[FieldPart]
    about: str = ""
    open: Collection[str] | None = ()

    def made(self, thing: Any, context: Any) -> Json:  # noqa: ANN401 - each object's own
        """The object for a thing; ``context`` is the document's, with the ``namespaces`` to see."""
        members: Json = {}
        for part in self.parts:
            members |= part.made(thing, context)
        if context.namespaces is None or self.open is None:
            return members
        # What is shown is listed, not what is hidden: a member that is added later shows others
        # nobody until somebody has thought about it.
        return {name: value for name, value in members.items() if name in self.open}

    def schema(self) -> Json:
        """Its schema."""
        members = [member for part in self.parts for member in part.schemas()]
        fields = {name: schema for name, schema, _ in members}
        needed = [name for name, _, is_needed in members if is_needed]
        return described(object_of(fields, needed), self.about)


class Many(NamedTuple):
    """A list of things of one kind."""

    kind: Json | Object


class Field(NamedTuple):
    """One member. ``kind`` is a schema, an object of its own, or a list of one of these.

    ``of``: the attribute of the object's thing that it is made from, or what makes it from the
    thing and the document's context; "" stands for ``name``. None is what is not known, which is
    left out; only an ``optional`` member may be.
    """

    name: str
    kind: Json | Object | Many
    of: str | Callable[[Any, Any], object] = ""
    about: str = ""
    optional: bool = False

    def made(self, thing: Any, context: Any) -> Json:  # noqa: ANN401 - each object's own
        """The member, if it is known."""
        if isinstance(self.of, str):
            value = _attribute(self.of or self.name)(thing)
        else:
            value = self.of(thing, context)
        return {} if value is None else {self.name: _made(self.kind, value, context)}

    def schemas(self) -> Iterable[tuple[str, Json, bool]]:
        """Its name, its schema, and whether it is always there."""
        return [(self.name, described(_schema(self.kind), self.about), not self.optional)]


# One for each name, not one for each member of each document.
_attribute = cache(attrgetter)


def maybe(
    name: str,
    kind: Json | Object | Many,
    of: str | Callable[[Any, Any], object] = "",
    about: str = "",
) -> Field:
    """A member that is left out while it is not known."""
    return Field(name, kind, of, about, optional=True)


def _made(kind: Json | Object | Many, value: Any, context: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(kind, Many):
        return [_made(kind.kind, each, context) for each in value]
    return kind.made(value, context) if isinstance(kind, Object) else value


def _schema(kind: Json | Object | Many) -> Json:
    if isinstance(kind, Object):
        return {"$ref": f"#/$defs/{kind.name}"} if kind.name else kind.schema()
    return list_of(_schema(kind.kind)) if isinstance(kind, Many) else kind


def object_of(fields: Mapping[str, Json], needed: Sequence[str] = ()) -> Json:
    """The schema of an object with these members and no others."""
    # So a member that the schema lacks is found by the tests, which hold each document against it,
    # and not by those who made a program by the schema.
    made: Json = {"type": "object", "additionalProperties": False, "properties": dict(fields)}
    return made | ({"required": list(needed)} if needed else {})


def list_of(of: Json) -> Json:
    """The schema of a list."""
    return {"type": "array", "items": of}


def described(schema: Json, about: str) -> Json:
    """The schema with a description, if there is one."""
    return {**schema, "description": about} if about else schema
