"""Imports of the kubernetes package what reads credentials and connects, without the rest of it.

The rest is 17 MiB that nothing here uses: the models, pydantic for the API classes, ``dynamic``,
``stream`` and ``watch``; and requests, which only an OpenID Connect login of a kubeconfig needs,
and has when it comes to that. ``exporter.postponed`` says how, and what becomes of a version of the
package that does not bear it.
"""

import sys
import threading
from collections.abc import Callable
from importlib import import_module

from exporter.postponed import load, postpone

_importing = threading.Lock()


def import_client() -> None:
    """Import ``kubernetes.client``'s Configuration and its ``rest``; for any number of threads.

    Raises:
        ImportError: the package is not installed.

    """
    with _importing:
        postpone("kubernetes")
        postpone("kubernetes.client", ApiClient=_later("kubernetes.client.api_client", "ApiClient"))
        postpone("kubernetes.config")
        postpone("kubernetes.utils")
        configuration = load("kubernetes.client.configuration").Configuration
        vars(sys.modules["kubernetes.client"]).setdefault("Configuration", configuration)
        load("kubernetes.client.rest")


def import_incluster_config() -> None:
    """Import ``kubernetes.config.incluster_config``, after ``import_client``."""
    with _importing:
        load("kubernetes.config.incluster_config")


def import_kube_config() -> None:
    """Import ``kubernetes.config.kube_config``, after ``import_client``."""
    with _importing:
        postpone("oauthlib")
        postpone("oauthlib.oauth2")
        session = _later("requests_oauthlib.oauth2_session", "OAuth2Session")
        postpone("requests_oauthlib", OAuth2Session=session)
        load("kubernetes.config.kube_config")


def _later(module: str, name: str) -> Callable[..., object]:
    """Stand for a class that is only ever called: it is imported at the first call."""

    def made(*arguments: object, **named: object) -> object:
        result: object = getattr(import_module(module), name)(*arguments, **named)
        return result

    return made
