"""Protocol Buffers' wire format, as far as the kubelet's answers need it. Pure.

Stands on protobuf.dev, "Encoding". A reader of its own instead of the protobuf runtime, which
decodes whatever it is given without bounds, has to be generated for, and weighs more than this.
"""

from collections.abc import Iterator

MAX_FIELDS = 16_384  # of one message
MAX_VARINT_BYTES = 10
MAX_FIELD_NUMBER = (1 << 29) - 1
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}


class WireError(ValueError):
    """The bytes are no message, or not of the type that is expected here."""


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Field number and value of each field, in their order.

    A varint is an int, all else are the value's bytes.

    Raises:
        WireError: cut off, longer than the message, of an unknown wire type, or too many fields.

    """
    at = count = 0
    while at < len(message):
        count += 1
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if count > MAX_FIELDS or not 0 < number <= MAX_FIELD_NUMBER:
            raise WireError(f"field {count} has the number {number}")
        if kind == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == BYTES:
            length, at = _varint(message, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise WireError(f"field {number} has the wire type {kind}")
        if length > len(message) - at:
            raise WireError(f"field {number} is cut off")
        yield number, message[at : at + length]
        at += length


def parts(message: memoryview, number: int) -> Iterator[memoryview]:
    """The values of one field that are messages or texts; raises as ``fields`` does."""
    return (_as_bytes(value) for own, value in fields(message) if own == number)


def text(value: memoryview, limit: int) -> str:
    """A string of at most so many bytes.

    Raises:
        WireError: it is longer, or no UTF-8.

    """
    if len(value) > limit:
        raise WireError(f"a text of {len(value)} bytes")
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"a text that is no UTF-8: {error.reason}") from error


def one_text(message: memoryview, number: int, limit: int) -> str:
    """The string of a field that stands once, "" if it is absent; of several, the last counts."""
    found = ""
    for value in parts(message, number):
        found = text(value, limit)
    return found


def text_field(number: int, value: str) -> bytes:
    """A string as a field of a message."""
    content = value.encode()
    return _as_varint(number << 3 | BYTES) + _as_varint(len(content)) + content


def _as_bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise WireError("a number in place of a message or text")
    return value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """The number that begins at a place, and where it ends."""
    value = 0
    for place, byte in enumerate(message[at : at + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return value, at + place + 1
    raise WireError("a number that is cut off or too long")


def _as_varint(value: int) -> bytes:
    encoded = bytearray()
    while more := value >> 7:
        encoded.append(value & 0x7F | 0x80)
        value = more
    return bytes((*encoded, value))
