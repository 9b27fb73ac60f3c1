"""The objects out of the API server's bytes, as they arrive: items of a list, lines of a watch.

A list of 250 pods is 3.4 MB of JSON. Decoding it whole takes 18 MiB, one pod at a time nearly none.
Whoever may write a pod may make it large or odd: that costs the item, not the list.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

# A pod in etcd is at most 1.5 MiB. Go writes each of its <, > and & as six bytes, such as \u003c.
MAX_OBJECT = 6 * 3 * 1024 * 1024 // 2
HEAD = 4096  # bytes of an item that are kept to name it

_NAME, _NAMESPACE = (
    re.compile(rf'"{key}":"([a-z0-9.-]{{1,253}})"') for key in ("name", "namespace")
)
_DECODER = json.JSONDecoder()
_SPACE = frozenset(" \t\r\n")
_AFTER_VALUE = _SPACE | frozenset(",:]}")
_MARKS = re.compile(r'\\.|["[\]{}]', re.DOTALL)  # an escaped character, a quotation mark, a bracket


class JsonError(ValueError):
    """A text that is not the expected JSON, or is larger than ``MAX_OBJECT``."""


class Skipped(NamedTuple):
    """An item that is too large, or whose JSON cannot be read. ``head`` is how it begins."""

    head: str
    size: int  # in bytes or characters

    @property
    def too_large(self) -> bool:
        """Whether it is larger than any item that is read."""
        return self.size > MAX_OBJECT

    @property
    def name(self) -> str:
        """Namespace and name, which the API server writes first; "" if they are not there."""
        return _name(self.head)


def _name(head: str) -> str:
    found = [pattern.search(head) for pattern in (_NAMESPACE, _NAME)]
    return "/".join(match[1] for match in found if match)


def name_in(text: bytes) -> str:
    """Namespace and name of the pod in a text, as ``Skipped.name``."""
    return _name(text[:HEAD].decode("utf-8", "replace"))


def decode(text: str | bytes) -> object:
    """One JSON document.

    Raises:
        JsonError: it is not JSON, nested too deeply, or has an integer of more than 4300 digits.

    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JsonError(f"not JSON: {error}") from error


def _skipped(text: bytes | bytearray, size: int) -> Skipped:
    return Skipped(text[:HEAD].decode("utf-8", "replace"), size)


def watch_event(line: bytes | Skipped) -> tuple[object, dict[str, object]] | Skipped:
    """The type and the object of one line of a watch; or the line, if it cannot be read."""
    if isinstance(line, Skipped):
        return line
    with suppress(JsonError):
        event = decode(line)
        document = event.get("object") if isinstance(event, dict) else None
        if isinstance(event, dict) and isinstance(document, dict):
            return event.get("type"), document
    return _skipped(line, len(line))


def lines(chunks: Iterable[bytes], limit: int = MAX_OBJECT) -> Iterator[bytes | Skipped]:
    """The lines of a stream without their end; each one longer than ``limit`` is skipped.

    A last line without an end was cut off and is left out.
    """
    rest = bytearray()
    dropped = 0  # bytes of this line
    for chunk in chunks:
        *ends, tail = chunk.split(b"\n")
        for end in ends:
            rest += end
            size = dropped + len(rest)
            yield _skipped(rest, size) if size > limit else bytes(rest)
            rest.clear()
            dropped = 0
        rest += tail
        if len(rest) > limit:
            dropped += max(0, len(rest) - HEAD)
            del rest[HEAD:]


def list_parts(chunks: Iterable[bytes], limit: int = MAX_OBJECT) -> Iterator[tuple[str, object]]:
    """The top-level fields of a list in their order, ``("items", item)`` once for each item.

    An item that is too large or cannot be read is ``Skipped``.

    Raises:
        JsonError: what arrived is not one JSON object, or is cut off.

    """
    text = _Text(chunks, limit)
    text.expect("{")
    if text.skip("}"):
        return
    while True:
        key = text.value()
        if not isinstance(key, str):
            raise JsonError("a key is not a string")
        text.expect(":")
        if key == "items" and text.skip("["):
            yield from (("items", item) for item in text.items())
        else:
            yield key, text.value()
        if not text.skip(","):
            text.expect("}")
            return


class _Text:
    """JSON text that grows as chunks arrive and forgets what was read."""

    def __init__(self, chunks: Iterable[bytes], limit: int) -> None:
        self._chunks = iter(chunks)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._limit = limit
        self._text = ""
        self._at = 0

    def skip(self, character: str) -> bool:
        """Whether ``character`` comes next; if so, go past it."""
        if self._next() != character:
            return False
        self._at += 1
        return True

    def expect(self, character: str) -> None:
        if not self.skip(character):
            raise JsonError(f"expected {character!r}, found {self._next()!r}")

    def items(self) -> Iterator[object]:
        """The items of an array whose ``[`` was read."""
        if self.skip("]"):
            return
        while True:
            try:
                yield self.value()
            except JsonError:
                yield self._skipped()
            if not self.skip(","):
                self.expect("]")
                return

    def _skipped(self) -> Skipped:
        """Go past a value without reading it: its brackets are counted. It ends with the last."""
        head, size = self._text[self._at : self._at + HEAD], 0
        depth, in_text = 0, False
        while True:
            end = self._at
            for mark in _MARKS.finditer(self._text, self._at):
                end = mark.end()
                if mark[0] == '"':
                    in_text = not in_text
                elif not in_text and mark[0] in "[]{}":
                    depth += 1 if mark[0] in "[{" else -1
                    if depth <= 0:
                        size, self._at = size + end - self._at, end
                        return Skipped(head, size)
            # Half of an escaped character is kept.
            left = int(self._text.endswith("\\", end))
            size, self._at = size + len(self._text) - left - self._at, len(self._text) - left
            if not self._grow():
                raise JsonError("not JSON, or cut off")

    def value(self) -> object:
        """The next value. An incomplete one is tried again each time the text has doubled."""
        self._next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                value, end = None, len(self._text)
            # Without what ends it, a number may go on in the next chunk: 1, 1.5, 1.5e3.
            whole = self._text[end : end + 1] in _AFTER_VALUE
            if whole and end - self._at <= self._limit:
                self._at = end
                return value
            if whole or len(self._text) - self._at > self._limit or not self._grow():
                raise JsonError("not JSON, cut off, or too large")

    def _next(self) -> str:
        """The next character that is not a space; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._grow():
                return ""

    def _grow(self) -> bool:
        """Read until there is twice as much unread text; False at the end of the stream."""
        unread = self._text[self._at :]
        wanted = max(1, 2 * len(unread))
        parts, length = [unread], len(unread)
        for chunk in self._chunks:
            parts.append(self._utf8.decode(chunk))
            length += len(parts[-1])
            if length >= wanted:
                break
        self._text, self._at = "".join(parts), 0
        return length > len(unread)
