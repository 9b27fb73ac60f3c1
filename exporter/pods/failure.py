"""Requests to the API server that did not bring what was asked for, in words for an operator."""

import re
from http import HTTPStatus

SERVICE_ACCOUNT_USER = re.compile(r"system:serviceaccount:([a-z0-9.-]+):([a-z0-9.-]+)", re.ASCII)


class ApiError(Exception):
    """A request that brought no answer (``status`` None), or another answer than 200."""

    def __init__(self, status: int | None, message: str) -> None:
        super().__init__(message)
        self.status = status


def explanation(failure: ApiError) -> str:
    """What is wrong and what to do about it, in one line."""
    if failure.status is None:
        return f"no connection to the API server ({failure})"
    if failure.status == HTTPStatus.UNAUTHORIZED:
        return f"the API server does not accept the credentials, they are read again ({failure})"
    if failure.status == HTTPStatus.FORBIDDEN:
        match = SERVICE_ACCOUNT_USER.search(str(failure))
        who = f"ServiceAccount {match[1]}/{match[2]}" if match else "this user"
        return (
            f"missing permission: give {who} a ClusterRole with 'pods: get, list, watch' "
            f"({failure})"
        )
    return f"the API server answers {failure.status} ({failure})"
