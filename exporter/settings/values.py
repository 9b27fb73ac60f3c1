"""How the text of a setting is read, and the words for what is allowed. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T_co = TypeVar("T_co", covariant=True)

_LAST_PORT = 65535
_UNITS = {"ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000}
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ms|s|m|h)")
_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}")
_KEY = re.compile(r"(?=.)(?:[A-Za-z0-9][A-Za-z0-9._/-]{0,316})?\*?", re.ASCII)
_URL_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A kind of value: ``read`` takes its text and raises ValueError if it is not ``allowed``."""

    read: Callable[[str], T_co]
    allowed: str
    many: bool = False


class Address(NamedTuple):
    """Where to listen: the host "" is every address of the machine; or a Unix socket's ``path``."""

    host: str
    port: int
    path: str = ""


def _address(text: str) -> Address:
    if text.startswith("unix:"):
        return Address("", 0, _path(text.removeprefix("unix://").removeprefix("unix:")))
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(text)
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > _LAST_PORT:
        raise ValueError(text)
    return Address(host, int(port))


def _duration(text: str) -> int:
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(text)
    return sum(round(float(number) * _UNITS[unit]) for number, unit in parts)


def duration(low: str, high: str) -> Kind[int]:
    """Nanoseconds, written as ``500ms``, ``1s``, ``1m30s``."""

    def read(text: str) -> int:
        return _within(_duration(text), _duration(low), _duration(high))

    return Kind(read, f"a duration from {low} to {high}, such as 500ms, 1s or 1m30s")


def count(low: int, high: int) -> Kind[int]:
    """A whole number."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", text):
            raise ValueError(text)
        return _within(int(text), low, high)

    return Kind(read, f"a number from {low} to {high}")


def choice(*names: str) -> Kind[str]:
    """One of these words."""

    def read(text: str) -> str:
        return names[names.index(text)]

    return Kind(read, f"one of {', '.join(names)}")


def many(kind: Kind[T_co]) -> Kind[tuple[T_co, ...]]:
    """One or more of them, with commas between, each once."""

    def read(text: str) -> tuple[T_co, ...]:
        return tuple(dict.fromkeys(kind.read(part.strip()) for part in text.split(",")))

    return Kind(read, f"{kind.allowed}; several with commas between", many=True)


def _within(number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise ValueError(number)
    return number


def _switch(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _text(text: str) -> str:
    if not text.isprintable():
        raise ValueError(text)
    return text


def _path(text: str) -> str:
    if not text.startswith("/") or "\0" in text:
        raise ValueError(text)
    return text


def _origin(text: str) -> str:
    if text and not _ORIGIN.fullmatch(text):
        raise ValueError(text)
    return text


def _key(text: str) -> str:
    if not _KEY.fullmatch(text):
        raise ValueError(text)
    return text


def _url_path(text: str) -> str:
    if not _URL_PATH.fullmatch(text) or text.startswith("/-/"):
        raise ValueError(text)
    return text


ADDRESS = Kind(
    _address, "an address such as :10045, 127.0.0.1:10045, [::1]:10045 or unix:/run/mgpu.sock"
)
SWITCH = Kind(_switch, "true or false")
TEXT = Kind(_text, "a text without control characters")
PATH = Kind(_path, "an absolute path")
SOCKET = Kind(
    lambda text: text if text in {"auto", "none"} else _path(text), "auto, none or an absolute path"
)
OPTIONAL_PATH = Kind(lambda text: _path(text) if text else text, "an absolute path")
ORIGIN = Kind(_origin, "an address such as https://10.0.0.1:10250 or http://127.0.0.1:10255")
KEY = Kind(_key, "the key of a label, the beginning of one with a * after it, or *")
URL_PATH = Kind(_url_path, "a path such as /metrics, outside /-/")
