"""Each bound of the agent has a place in the table of those that tenants fill, or none to share."""

import ast
import re
from pathlib import Path

import pytest

from docs.pages.bounds import AGENT, BOUNDS, ELSEWHERE, Bound, sizes

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"_?(MAX|MOST|LONGEST|LARGEST)(_\w+)?|\w+_(MOST|MAX)|DEFAULT_LIMITS")


def constants() -> set[str]:
    """The bounds of all modules, as ``module:NAME`` without the package's name."""
    found = set()
    package = ROOT / AGENT.replace(".", "/")
    for path in package.rglob("*.py"):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets += [node.target] if isinstance(node, ast.AnnAssign) else []
            names = (name for target in targets for name in ast.walk(target))
            found |= {
                f"{module}:{name.id}"
                for name in names
                if isinstance(name, ast.Name) and NAME.fullmatch(name.id)
            }
    return found


def test_each_bound_has_a_place() -> None:
    shared = {place for bound in BOUNDS for place in bound.at}
    known = constants()

    assert shared <= known
    assert len(shared) == sum(len(bound.at) for bound in BOUNDS)
    assert all(ELSEWHERE.values())
    homeless = {
        place
        for place in known - shared
        if not any(place.startswith((f"{room}.", f"{room}:")) for room in ELSEWHERE)
    }
    assert homeless == set()


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.what[:30])
def test_each_bound_has_a_size_and_a_test_in_which_one_tenant_fills_it(bound: Bound) -> None:
    assert all(sizes(bound))
    assert all((bound.what, bound.cut, bound.said))
    name, _, test = bound.test.partition("::")
    tree = ast.parse((ROOT / "tests" / name).read_text(encoding="utf-8"))
    assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
