"""Imports parts of a package without running the ``__init__`` modules of the whole.

Python runs the ``__init__`` of a package before any of its submodules. That of the kubernetes
package imports a thousand models and pydantic classes: 17 MiB that nothing here uses. Here an
empty package object takes its place in ``sys.modules``; submodules can be imported from it. The
first name that is neither a submodule nor known runs the real ``__init__``. If a new version of
the package needs more of itself, it gets it: memory is lost, nothing else.

One thread at a time: while an ``__init__`` runs, another thread would miss names that it has not
made yet. ``importlib.util.LazyLoader`` is no alternative: importing a submodule triggers it.
"""

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType


class _LazyPackage(ModuleType):
    """A package whose ``__init__`` has not run."""

    def __getattr__(self, name: str) -> object:
        """A submodule, or a name that only the ``__init__`` defines."""
        submodule = f"{self.__name__}.{name}"
        if find_spec(submodule) is not None:
            return import_module(submodule)
        _complete(self)
        return getattr(self, name)


def make_lazy(name: str, **known: object) -> None:
    """Postpone a package's ``__init__``. No effect if it is imported already or not installed.

    ``known`` are names of the package that are available before it runs.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        return
    package = module_from_spec(spec)
    package.__class__ = _LazyPackage
    vars(package).update(known)
    sys.modules[name] = package
    above, _, own = name.rpartition(".")
    if above:
        setattr(sys.modules[above], own, package)


def load(name: str) -> ModuleType:
    """Import a module. If that fails, import it again after all postponed packages are complete.

    Raises:
        ImportError: it cannot be imported, as ``import`` raises it; or what its code raises.

    """
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise  # not installed
    except Exception:  # noqa: BLE001 - what a module does that was not written for this
        for package in [each for each in sys.modules.values() if isinstance(each, _LazyPackage)]:
            _complete(package)
        return import_module(name)


def _complete(package: ModuleType) -> None:
    """Run the ``__init__``. If it fails, it runs again when the next name is read."""
    package.__class__ = ModuleType
    try:
        vars(package)["__loader__"].exec_module(package)
    except BaseException:
        package.__class__ = _LazyPackage
        raise


_importing = threading.Lock()


def import_client() -> None:
    """Import ``kubernetes.client``'s Configuration and its ``rest``. Thread-safe.

    Raises:
        ImportError: the package is not installed.

    """
    with _importing:
        make_lazy("kubernetes")
        make_lazy(
            "kubernetes.client", ApiClient=_later("kubernetes.client.api_client", "ApiClient")
        )
        make_lazy("kubernetes.config")
        make_lazy("kubernetes.utils")
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
        make_lazy("oauthlib")
        make_lazy("oauthlib.oauth2")
        session = _later("requests_oauthlib.oauth2_session", "OAuth2Session")
        make_lazy("requests_oauthlib", OAuth2Session=session)
        load("kubernetes.config.kube_config")


def _later(module: str, name: str) -> Callable[..., object]:
    """A stand-in for a class that is only called; the class is imported at the first call."""

    def made(*arguments: object, **named: object) -> object:
        result: object = getattr(import_module(module), name)(*arguments, **named)
        return result

    return made
