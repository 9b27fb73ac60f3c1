"""Answers as they arrive: whole chunks, cut off, compressed by somebody on the way."""

import gzip
import socket
from http.client import HTTPResponse

import pytest
import urllib3

from exporter.apiserver.serveranswers import ApiError, Stream

CHUNKED = "Transfer-Encoding: chunked"
END = b"0\r\n\r\n"


def answer(body: bytes, *headers: str) -> Stream:
    """What a server says and then falls silent."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        head = "\r\n".join(["HTTP/1.1 200 OK", *headers, "", ""])
        theirs.sendall(head.encode() + body)
        theirs.shutdown(socket.SHUT_WR)
        raw = HTTPResponse(ours, method="GET")
        raw.begin()
    return Stream(
        urllib3.HTTPResponse(raw, dict(raw.headers), preload_content=False, original_response=raw)
    )


def chunk(data: bytes) -> bytes:
    """One chunk of RFC 9112."""
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize("rest", [b"", b"5\r\nab", b"zz\r\n"])
def test_an_answer_that_is_cut_off_is_a_failure_after_what_came(rest: bytes) -> None:
    with answer(chunk(b"one") + rest, CHUNKED) as stream:
        chunks = stream.chunks()
        assert next(chunks) == b"one"
        with pytest.raises(ApiError, match="reading"):
            list(chunks)


@pytest.mark.parametrize("in_chunks", [True, False])
def test_what_somebody_on_the_way_compressed_is_decoded(*, in_chunks: bool) -> None:
    """Nobody asked for that, but gateways do."""
    packed = gzip.compress(b"one and two")
    body = chunk(packed[:15]) + chunk(packed[15:]) + END if in_chunks else packed
    framing = CHUNKED if in_chunks else f"Content-Length: {len(packed)}"
    with answer(body, framing, "Content-Encoding: gzip") as stream:
        assert stream.read(100) == b"one and two"
