"""What ``helm test`` runs: every pod behind the Service is ready and serves its metrics.

Where the metrics need a password or a certificate, a refusal is the expected answer.
"""

import socket
import ssl
import sys
import urllib.error
import urllib.request
from http import HTTPStatus

LOCKED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def ask(url: str, context: ssl.SSLContext) -> tuple[int, str]:
    """Status and body."""
    try:
        with urllib.request.urlopen(url, timeout=10, context=context) as answer:  # noqa: S310 - ours
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def judge(scheme: str, address: str, port: int, path: str) -> tuple[bool, str]:
    """Whether the pod at this address is as it should be, and what was seen.

    "tcp" is for listeners that want a certificate before anything else.
    """
    if scheme == "tcp":
        socket.create_connection((address, port), timeout=10).close()
        return True, "listens"
    base = f"{scheme}://{f'[{address}]' if ':' in address else address}:{port}"
    context = ssl._create_unverified_context()  # noqa: S323, SLF001 - it sends no secrets
    ready, words = ask(f"{base}/-/ready", context)
    status, page = ask(f"{base}{path}?collect[]=exporter", context)
    good = ready == HTTPStatus.OK and (status in LOCKED or "mgpu_exporter_build_info" in page)
    return good, f"{ready} {words.strip()}, metrics {status}"


def main(scheme: str, host: str, port: str, path: str) -> int:
    """Ask every address of the Service; 1 if one of them is not as it should be."""
    found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    failed = 0
    for address in sorted({str(entry[-1][0]) for entry in found}):
        try:
            good, seen = judge(scheme, address, int(port), path)
        except OSError as error:
            good, seen = False, str(error)
        failed += not good
        print(f"{address}: {'ok' if good else 'FAILED'} ({seen})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
