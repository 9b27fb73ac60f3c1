"""The format and encoding of an answer, from the headers Accept and Accept-Encoding. Pure."""

from typing import NamedTuple

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder

from exporter.metrics.text import Format

_MAX_HEADER = 1024  # characters that are read of a header; Prometheus sends a third of it
_OPENMETRICS = "application/openmetrics-text"


class ResponseFormat(NamedTuple):
    """A format and the Content-Type that it is answered with."""

    form: Format
    content_type: str


def choose_format(accept: str) -> ResponseFormat:
    """The format that a client prefers. Of a long header only the first items are read.

    Chooses as prometheus_client does, but applies q-values and never promises OpenMetrics 2.0.

    The library (0.26) takes the first item that it can serve, and repeats a version 2.0.0 in the
    header of a body that has another version.
    """
    items = [(item.strip(), _weight(item.partition(";")[2])) for item in _items(accept)]
    by_weight = sorted((i for i in items if i[1] > 0), key=lambda item: -item[1])
    wanted = ",".join(item for item, _ in by_weight)
    try:
        _, content_type = choose_encoder(wanted)
    except TypeError:  # a version that is not made of numbers
        content_type = CONTENT_TYPE_PLAIN_0_0_4
    # What is written is OpenMetrics 1.0, whatever the client asked for: a header that promises more
    # would make a strict reader reject the page.
    if not content_type.startswith(_OPENMETRICS):
        return ResponseFormat(Format.TEXT, content_type)
    escaping = content_type.partition("; escaping=")[2]
    suffix = f"; escaping={escaping}" if escaping else ""
    return ResponseFormat(
        Format.OPENMETRICS, f"{_OPENMETRICS}; version=1.0.0; charset=utf-8{suffix}"
    )


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether gzip is accepted: by name or as ``*``, and not with a weight of 0."""
    weights = {}
    for item in _items(accept_encoding.lower()):
        name, _, parameters = item.partition(";")
        weights[name.strip()] = _weight(parameters)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _items(header: str) -> list[str]:
    """The items of a header that end within the bound."""
    read = header if len(header) <= _MAX_HEADER else header[:_MAX_HEADER].rpartition(",")[0]
    return read.split(",")


def _weight(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


def header(request: web.Request, name: str) -> str:
    """A header's values in one."""
    return ",".join(request.headers.getall(name, ()))
