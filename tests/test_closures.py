"""How much of the code each of the two programs imports: a bound each, which only falls."""

import ast
import re
from collections.abc import Collection, Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import exporter

ROOT = Path(exporter.__file__).parent
AGENT_LINES = 43_350
PLUGIN_LINES = 19_210
SIMULATION = ("exporter.agent.simulation", "exporter.agent.sources.gpus.simulated")
ANSWERS = ("top", "why", "advise", "bill")


@cache
def _files() -> dict[str, Path]:
    """The file of each module."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("exporter", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imported(module: str) -> Iterator[str]:
    """The modules that a module names in its imports, wherever they stand, and their packages."""
    for node in ast.walk(ast.parse(_files()[module].read_text())):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: imports are absolute"
            names = [str(node.module), *(f"{node.module}.{each.name}" for each in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _closure(*roots: str, without: Collection[str] = ()) -> set[str]:
    """All modules that these import, and what those import."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        is_out = any(module == one or module.startswith(f"{one}.") for one in without)
        if module in _files() and module not in found and not is_out:
            found.add(module)
            waiting += _imported(module)
    return found


def _lines(modules: Collection[str]) -> int:
    """All their lines but those of a comment alone: a bound is no reason to leave out a why."""
    lines = (line for module in modules for line in _files()[module].read_text().splitlines())
    return sum(not line.lstrip().startswith("#") for line in lines)


def test_the_agent_is_small_and_has_no_answer_in_it() -> None:
    agent = _closure("exporter.agent.commands.serve", without=SIMULATION)

    assert _lines(agent) <= AGENT_LINES
    assert not [module for module in agent if module.startswith("exporter.answers")]


def test_kubectl_mgpu_is_small_and_has_no_agent_in_it() -> None:
    commands = [f"exporter.answers.{name}.{name}command" for name in ANSWERS]
    plugin = _closure("exporter.answers.kubectl.plugin", *commands)

    assert _lines(plugin) <= PLUGIN_LINES
    assert not [module for module in plugin if module.startswith("exporter.agent")]


def _packages(modules: Collection[str]) -> set[str]:
    """The packages of others that these modules import."""
    named = packages_distributions()
    found: set[str] = set()
    for module in modules:
        for node in ast.walk(ast.parse(_files()[module].read_text())):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.add(str(node.module).partition(".")[0])
    return {package.lower().replace("_", "-") for name in found for package in named.get(name, ())}


def test_what_only_the_answers_need_is_an_extra() -> None:
    agents = [module for module in _files() if not module.startswith("exporter.answers")]
    lines = requires("mgpu-exporter") or ()
    always = {re.split("[<>=]", line)[0] for line in lines if "extra ==" not in line}

    assert always
    assert always <= _packages(agents)
