"""Headers that a user adds to each question, such as the tenant of a store that has several."""

import re
from collections.abc import Iterable

MAX_HEADERS = 32
LONGEST_HEADER = 8192

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, token
_VALUE = re.compile(r"[\t -~]+")
_OURS = {
    *("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
    *("accept-encoding", "content-length", "expect", "user-agent"),
}
_SECRET = {"authorization", "cookie", "proxy-authorization"}

Headers = tuple[tuple[str, str], ...]


def headers_of(typed: Iterable[str], kept: Iterable[str]) -> Headers:
    """The headers that were typed, and those of a file, which may have comments.

    Raises:
        ValueError: with what is wrong, and no value of a header.

    """
    found: dict[str, tuple[str, str]] = {}
    for lines, is_typed in ((typed, True), (kept, False)):
        for line in map(str.strip, lines):
            if not (is_typed or line.partition("#")[0]):
                continue
            name, colon, value = (part.strip() for part in line.partition(":"))
            if not colon or not _NAME.fullmatch(name):
                raise ValueError("give NAME: VALUE, such as X-Scope-OrgID: team")
            if name.lower() in _OURS:
                raise ValueError(f"{name} is written by this program itself")
            if len(value) > LONGEST_HEADER or not _VALUE.fullmatch(value):
                raise ValueError(
                    f"{name}: no value, or one of other characters than ASCII's printable"
                )
            # HTTP's names have no case: X-Tenant and x-tenant would be one header with two values.
            known = name.lower()
            if is_typed and known in _SECRET:
                raise ValueError(
                    f"{name}: everybody on this machine can read a command line: give "
                    "--token-file, or --user and --password-file, or write it in --header-file"
                )
            if known in found:
                raise ValueError(f"{name} is given twice")
            found[known] = name, value
    if len(found) > MAX_HEADERS:
        raise ValueError(f"more than {MAX_HEADERS} headers")
    return tuple(found.values())
