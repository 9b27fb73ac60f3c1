"""Requests for pods that did not bring what was asked for, in words for an operator."""

import re
from enum import StrEnum
from http import HTTPStatus

SERVICE_ACCOUNT_USER = re.compile(r"system:serviceaccount:([a-z0-9.-]+):([a-z0-9.-]+)", re.ASCII)
CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"  # of Python's ssl module


class Server(StrEnum):
    """Who was asked."""

    API = "the API server"
    KUBELET = "the kubelet"


class ApiError(Exception):
    """A request that brought no answer (``status`` None), or another answer than 200."""

    def __init__(self, status: int | None, message: str) -> None:
        super().__init__(message)
        self.status = status


def explanation(failure: ApiError, server: Server = Server.API) -> str:
    """What is wrong and what to do about it, in one line."""
    if failure.status is None:
        hint = ""
        if server is Server.KUBELET and CERTIFICATE in str(failure).upper():
            hint = (
                "; its certificate is most often its own: give it with --kubelet.ca-file, let the "
                "cluster sign it (serverTLSBootstrap), or give --kubelet.insecure-tls"
            )
        return f"no connection to {server} ({failure}){hint}"
    if failure.status == HTTPStatus.UNAUTHORIZED:
        return f"{server} does not accept the credentials, they are read again ({failure})"
    if failure.status == HTTPStatus.FORBIDDEN:
        return f"missing permission: give {_who(failure)} {_permission(server)} ({failure})"
    return f"{server} answers {failure.status} ({failure})"


def _who(failure: ApiError) -> str:
    match = SERVICE_ACCOUNT_USER.search(str(failure))
    return f"ServiceAccount {match[1]}/{match[2]}" if match else "this user"


def _permission(server: Server) -> str:
    """What the server asks its authorizer for. KEP-2862 gave pods a resource of their own."""
    if server is Server.API:
        return "a ClusterRole with 'pods: list, watch'"
    return (
        "a ClusterRole with 'nodes/pods: get' (kubelets from 1.33 on). Older ones ask for "
        "'nodes/proxy: get', which also lets one run commands in every container of the node: "
        "rather do without the kubelet"
    )
