"""Kinds of values: how the text of a setting is read, and what is allowed. Pure."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from exporter.inputs.valuekinds import Form, ValueKind, within

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_LAST_PORT = 65535
# A pattern, because the chart's JSON Schema is made of it: that bounds numbers, not texts.
_PORT = (  # as a pattern, without leading zeros
    "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]{1}|6553[0-5]"
)
_PATH = r"/[^\x00]*"
_SIZE = re.compile(r"([0-9]{0,12})(|[kMGT]|[KMGT]i)")
_POWERS: dict[str, int] = {unit: 1000**power for power, unit in enumerate(("", "k", "M", "G", "T"))}
_POWERS |= {f"{unit}i": 1 << 10 * power for power, unit in enumerate("KMGT", 1)}


class Address(NamedTuple):
    """Where to listen. The host "" is every address of the machine; ``path`` is a Unix socket's."""

    host: str
    port: int
    path: str = ""


def _address(text: str) -> Address:
    if text.startswith("unix:"):
        return Address("", 0, PATH.read(text.removeprefix("unix://").removeprefix("unix:")))
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    # An IPv6 address without brackets: its last part would be taken for the port.
    elif ":" in host:
        raise ValueError(text)
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > _LAST_PORT:
        raise ValueError(text)
    return Address(host, int(port))


def count(low: int, high: int) -> ValueKind[int]:
    """A whole number."""

    def read(text: str) -> int:
        # int() would take 1_000 too, spaces, and the digits of other scripts.
        if not re.fullmatch(r"[0-9]{1,20}", text):
            raise ValueError(text)
        return within(int(text), low, high)

    return ValueKind(read, f"a number from {low} to {high}", form=Form("count", (low, high)))


def size(low: str, high: str) -> ValueKind[int]:
    """Bytes, written as ``1048576``, ``256Mi`` or ``Gi``."""
    bounds = _size(low), _size(high)

    def read(text: str) -> int:
        return within(_size(text), *bounds)

    allowed = f"a number of bytes from {low} to {high}, such as 1, Mi or 256Mi"
    return ValueKind(read, allowed, form=Form("size", (*bounds, _POWERS)))


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None or not text:
        raise ValueError(text)
    return int(match[1] or 1) * _POWERS[match[2]]


def matching(pattern: str, allowed: str) -> ValueKind[str]:
    """A text that matches the pattern as a whole."""
    form = re.compile(pattern, re.ASCII)

    def read(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(text)
        return text

    return ValueKind(read, allowed, form=Form("matching", (pattern,)))


def choice(*names: str, allowed: str = "") -> ValueKind[str]:
    """One of these words. ``allowed`` describes them if they are too many to list."""

    def read(text: str) -> str:
        return names[names.index(text)]

    return ValueKind(read, allowed or f"one of {', '.join(names)}", form=Form("choice", (names,)))


def many(kind: ValueKind[T_co]) -> ValueKind[tuple[T_co, ...]]:
    """One or more values, separated by commas, without duplicates."""

    def read(text: str) -> tuple[T_co, ...]:
        return tuple(dict.fromkeys(kind.read(part.strip()) for part in text.split(",")))

    allowed = f"{kind.allowed}; several separated by commas"
    return ValueKind(read, allowed, many=True, form=Form("many", (kind.form,)))


def pairs(
    name: ValueKind[str], value: ValueKind[str], allowed: str
) -> ValueKind[tuple[tuple[str, str], ...]]:
    """``NAME=VALUE``, separated by commas, each name once."""

    def read(text: str) -> tuple[tuple[str, str], ...]:
        found: dict[str, str] = {}
        for part in text.split(","):
            left, _, right = part.strip().partition("=")
            if found.setdefault(name.read(left), value.read(right)) != right:
                raise ValueError(text)
        return tuple(found.items())

    form = Form("pairs", (name.form, value.form))
    allowed = f"{allowed}; several separated by commas, each once"
    return ValueKind(read, allowed, many=True, pairs=True, form=form)


def _text(text: str) -> str:
    if not text.isprintable():
        raise ValueError(text)
    return text


ADDRESS = ValueKind(
    _address,
    "an address with a port up to 65535, such as :10045, 127.0.0.1:10045, [::1]:10045, or "
    "unix:/run/mgpu.sock",
)
SWITCH = ValueKind({"true": True, "false": False}.__getitem__, "true or false", form=Form("switch"))
TEXT = ValueKind(_text, "a text without control characters")
PATH = matching(_PATH, "an absolute path")
OPTIONAL_PATH = matching(rf"({_PATH})?", "an absolute path")
SOCKET = matching(rf"auto|none|{_PATH}", "auto, none or an absolute path")
ORIGIN = matching(
    r"(https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])"
    rf":(?:{_PORT}))?",
    "an address such as https://10.0.0.1:10250 or http://127.0.0.1:10255",
)
# A label's key has 317 characters at most: a prefix of 253, a slash and a name of 63.
KEY = matching(
    r"\*|[A-Za-z0-9][A-Za-z0-9._/-]{0,316}\*?",
    "the key of a label, the beginning of a key followed by *, or *",
)
# Below /-/ are the exporter's own pages, such as /-/healthy.
URL_PATH = matching(
    r"/([A-Za-z0-9._~]|-[A-Za-z0-9._~-])[A-Za-z0-9._~-]*(/[A-Za-z0-9._~-]+)*",
    "a path such as /metrics, outside /-/",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``name`` is the flag without dashes and the YAML key; ``default`` its text.

    ``live``: a change in the settings file is applied while the exporter runs. ``rare``: hardly
    anybody needs it, so the pages have it and the help does not.
    """

    name: str
    kind: ValueKind[object]
    default: str
    about: str
    why: str = ""
    live: bool = False
    rare: bool = False

    @property
    def variable(self) -> str:
        """The environment variable, e.g. ``MGPU_WEB_LISTEN_ADDRESS``."""
        return "MGPU_" + self.name.upper().replace(".", "_").replace("-", "_")


def setting(
    name: str,
    kind: ValueKind[T],
    default: str,
    about: str,
    why: str = "",
    *,
    live: bool = False,
    rare: bool = False,
) -> T:
    """A dataclass's field that holds a setting of this kind; it has no default of its own."""
    found: T = field(metadata={"setting": Setting(name, kind, default, about, why, live, rare)})
    return found
