"""A name server for a few IPv4 addresses, in CoreDNS's place: RFC 1035, sections 4.1 and 4.2.1.

Run as a program: ``python -m tools.cluster.names <address> <name>=<IPv4>...``.
"""

import ipaddress
import socket
import struct
import sys

_A = 1  # the type of an address, section 3.2.2
_QUESTION = struct.Struct("!HH")  # its type and class, after the name
_HEADER = struct.Struct("!6H")
_ANSWERS_WELL, _NO_SUCH_NAME = 0x8580, 0x8583  # authoritative answers: without error; NXDOMAIN
_POINTS_TO_QUESTION = b"\xc0\x0c"


def answer(query: bytes, known: dict[str, bytes]) -> bytes:
    """The answer to a query of one question."""
    labels, place = [], _HEADER.size
    while size := query[place]:
        labels.append(query[place + 1 : place + 1 + size].decode().lower())
        place += 1 + size
    end = place + 1 + _QUESTION.size
    kind, _ = _QUESTION.unpack_from(query, place + 1)
    address = known.get(".".join(labels))
    flags = _NO_SUCH_NAME if address is None else _ANSWERS_WELL
    record = b""
    if address is not None and kind == _A:
        record = _POINTS_TO_QUESTION + struct.pack("!HHIH", kind, 1, 5, len(address)) + address
    header = _HEADER.pack(int.from_bytes(query[:2], "big"), flags, 1, bool(record), 0, 0)
    return header + query[_HEADER.size : end] + record


def main(address: str, *names: str) -> None:
    """Answer for ever."""
    pairs = (name.partition("=") for name in names)
    known = {name: ipaddress.IPv4Address(value).packed for name, _, value in pairs}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            query, sender = server.recvfrom(512)
            server.sendto(answer(query, known), sender)


if __name__ == "__main__":
    main(*sys.argv[1:])
