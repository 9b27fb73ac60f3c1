"""Packages whose ``__init__`` waits until something that only it makes is asked for."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from exporter.sources.pods.lazy_package import load, make_lazy

LIBRARY = "postponed_library"
CLIENT, SERVER = f"{LIBRARY}.client", f"{LIBRARY}.server"
FILES = {
    "__init__": "VERSION = '1'\nfrom .client import Client\nfrom .http import NAME",
    "client": "class Client: pass",
    "server": "from . import phrases\nSAYS = phrases.SERVED",
    "phrases": "SERVED = 'served'",
    "dated": "from . import VERSION",
    "http": "from . import VERSION\nNAME = f'library {VERSION}'",
    "broken": "raise OSError('of its own')",
}


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package on the search path, forgotten at the end."""
    folder = tmp_path / LIBRARY
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(f"{text}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == LIBRARY]:
        del sys.modules[name]


def package() -> ModuleType:
    return import_module(LIBRARY)


def test_a_submodule_and_those_it_imports_leave_the_init_waiting() -> None:
    make_lazy(LIBRARY)
    assert load(SERVER).SAYS == "served"
    assert CLIENT not in sys.modules
    assert package().phrases is sys.modules[f"{LIBRARY}.phrases"]


def test_a_name_that_only_the_init_makes_has_it_run() -> None:
    make_lazy(LIBRARY)
    server = load(SERVER)
    assert package().VERSION == "1"
    assert package().Client is sys.modules[CLIENT].Client
    assert package().server is server


def test_a_name_that_nobody_makes_is_missing_as_ever() -> None:
    make_lazy(LIBRARY)
    with pytest.raises(AttributeError, match="strange"):
        _ = package().strange


def test_what_is_known_can_be_had_before() -> None:
    make_lazy(LIBRARY, VERSION="known")
    load(f"{LIBRARY}.dated")
    assert package().VERSION == "known"
    assert CLIENT not in sys.modules


def test_a_module_that_takes_more_of_its_package_than_is_known_gets_it() -> None:
    make_lazy(LIBRARY)
    assert load(f"{LIBRARY}.dated").VERSION == "1"
    assert package().Client


def test_where_the_init_needs_the_module_that_asks_for_it_both_are_imported_as_ever() -> None:
    make_lazy(LIBRARY)
    assert load(f"{LIBRARY}.http").NAME == package().NAME == "library 1"
    assert package().Client


def test_a_module_that_fails_of_itself_says_so_and_its_package_is_whole() -> None:
    make_lazy(LIBRARY)
    with pytest.raises(OSError, match="of its own"):
        load(f"{LIBRARY}.broken")
    assert package().VERSION == "1"


def test_what_is_imported_already_stays() -> None:
    whole = package()
    make_lazy(LIBRARY, VERSION="known")
    assert package() is whole
    assert whole.VERSION == "1"


def test_what_is_not_installed_is_missing_as_ever() -> None:
    make_lazy("no_such_library")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load("no_such_library.server")
