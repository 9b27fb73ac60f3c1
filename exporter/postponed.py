"""Packages whose ``__init__`` does not run before something that it makes is asked for.

Before a submodule is imported, Python runs the ``__init__`` of its package, and that of a library
may import all that the library can do: the kubernetes package's imports a thousand models. Who uses
one submodule pays for all. Here the package stands in ``sys.modules`` with nothing but its place,
which is all that importing a submodule takes; the first name that is neither a submodule nor known
runs its ``__init__``, as if it had been imported then. So where a new version of a library asks for
more of itself, memory is lost and nothing else, if what is wanted of it is imported by ``load``. To
be used by one thread at a time: while an ``__init__`` runs, another thread would miss the names
that it has not made yet.

``importlib.util.LazyLoader`` does this for modules; a submodule's import is enough to wake it.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType


class _Postponed(ModuleType):
    """A package whose ``__init__`` has not run."""

    def __getattr__(self, name: str) -> object:
        """A submodule, or what only the ``__init__`` knows of."""
        submodule = f"{self.__name__}.{name}"
        if find_spec(submodule) is not None:
            return import_module(submodule)
        _complete(self)
        return getattr(self, name)


def postpone(name: str, **known: object) -> None:
    """Let a package's ``__init__`` wait; no effect on one that was imported, or is not installed.

    ``known`` are names of the package that can be had before.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        return
    package = module_from_spec(spec)
    package.__class__ = _Postponed
    vars(package).update(known)
    sys.modules[name] = package
    above, _, own = name.rpartition(".")
    if above:
        setattr(sys.modules[above], own, package)


def load(name: str) -> ModuleType:
    """Import a module. If it fails, it is imported again with all postponed packages whole.

    Raises:
        ImportError: it cannot be imported, as ``import`` raises it; or what its code raises.

    """
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise  # not installed
    except Exception:  # noqa: BLE001 - what a module does that was not written for this
        for package in [each for each in sys.modules.values() if isinstance(each, _Postponed)]:
            _complete(package)
        return import_module(name)


def _complete(package: ModuleType) -> None:
    """Run the ``__init__``; one that fails is run again when the next name is asked for."""
    package.__class__ = ModuleType
    try:
        vars(package)["__loader__"].exec_module(package)
    except BaseException:
        package.__class__ = _Postponed
        raise
