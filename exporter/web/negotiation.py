"""What a client wants: its Accept and Accept-Encoding headers → format and encoding. Pure."""

from functools import lru_cache
from typing import NamedTuple

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder

from exporter.exposition import Format

_KEPT = 16  # answers; who scrapes asks the same each time
_READ = 1024  # characters of a header; Prometheus sends a third of it
_OPENMETRICS = "application/openmetrics-text"


class Choice(NamedTuple):
    """A format and the Content-Type that it is answered with."""

    form: Format
    content_type: str


def choose_format(accept: str) -> Choice:
    """The format that a client wants most; of a long header only the first items are read."""
    return _choose_format(_beginning(accept))


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether gzip is accepted: named or as ``*``, and not with a weight of 0."""
    return _accepts_gzip(_beginning(accept_encoding))


def _beginning(header: str) -> str:
    """The items of a header that end within the bound."""
    return header if len(header) <= _READ else header[:_READ].rpartition(",")[0]


@lru_cache(_KEPT)
def _choose_format(accept: str) -> Choice:
    """Choose as prometheus_client does, but heed q-values, and never promise OpenMetrics 2.0.

    The library (0.26) takes the first item that it can serve, and echoes a version 2.0.0 over a
    body that is not.
    """
    wanted = ",".join(item for item, _ in _by_weight(accept))
    try:
        _, content_type = choose_encoder(wanted)
    except TypeError:  # a version that is not made of numbers
        content_type = CONTENT_TYPE_PLAIN_0_0_4
    if not content_type.startswith(_OPENMETRICS):
        return Choice(Format.TEXT, content_type)
    escaping = content_type.partition("; escaping=")[2]
    suffix = f"; escaping={escaping}" if escaping else ""
    return Choice(Format.OPENMETRICS, f"{_OPENMETRICS}; version=1.0.0; charset=utf-8{suffix}")


@lru_cache(_KEPT)
def _accepts_gzip(accept_encoding: str) -> bool:
    weights = {}
    for item in accept_encoding.lower().split(","):
        name, _, parameters = item.partition(";")
        weights[name.strip()] = _weight(parameters)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _by_weight(header: str) -> list[tuple[str, float]]:
    """The items of a header, the most wanted first, without those of weight 0."""
    items = [(item.strip(), _weight(item.partition(";")[2])) for item in header.split(",")]
    return sorted((i for i in items if i[1] > 0), key=lambda item: -item[1])


def _weight(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0
