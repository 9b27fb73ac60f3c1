"""The rules that record what workloads should ask for, written from the rules that say it.

The board reads a verdict in place of a week of samples, and ``advise`` works out the same formulas.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial

import yaml

from exporter.answers.advise.amounts import (
    UNITS,
    Resource,
    is_known,
    smallest_of,
    steps_of_unit,
)
from exporter.answers.advise.sizing import (
    CARDS,
    FIGURES,
    FOLLOWING,
    LATELY,
    LEVEL,
    RECORDED_S,
)

OVER = "7d"
INTERVAL, KNOWN_FOR = "1h", "2h"  # so old a record may be
# What is shown, and what several formulas need: it is found once, in a week of samples. With the
# target written out, a rule would be longer than the 16 KiB that VictoriaMetrics takes.
_NEEDED: Mapping[Resource, tuple[str, ...]] = {
    Resource.CORE: ("known", "needed", "target"),
    Resource.MEMORY: ("known", "needed", "rounded", "target", "preallocated"),
}
SHOWN = ("allocated", "typical", "peak", "outcome", "recommended", "freed")
RECORDED = {of: (*SHOWN[:3], *needed, *SHOWN[3:]) for of, needed in _NEEDED.items()}
_OF_BOTH = ("steps", "lasting")  # the same of each resource: they are recorded once
# No rule reads these: they stand in a group of their own, for rulers take 20 rules in a group.
_APART = ("typical", "peak")
BEGIN, END = "  # sizing: written by rules/generate.py\n", "  # end of sizing\n"
_DAY_S = 86_400


def name(resource: Resource, figure: str) -> str:
    """What a figure is recorded as."""
    of = "" if figure in _OF_BOTH else f"{resource}_"
    return f"{LEVEL}mgpu_{of}{figure}:{OVER}"


def groups() -> str:
    """The groups of rules, as text of the file."""
    both = [_rule(Resource.CORE, figure) for figure in _OF_BOTH]
    parts = [
        [_rule(of, one) for of in Resource for one in RECORDED[of] if (one in _APART) == is_apart]
        for is_apart in (False, True)
    ]
    named = {"mgpu-advice": [*both, *parts[0]], "mgpu-advice-apart": parts[1]}
    made = [{"name": name, "interval": INTERVAL, "rules": rules} for name, rules in named.items()]
    text = yaml.safe_dump(made, sort_keys=False, width=120)
    return "".join(f"  {line}\n" for line in text.splitlines())


def _rule(resource: Resource, figure: str) -> dict[str, str]:
    return {"record": name(resource, figure), "expr": _expression(resource, figure)}


def written_into(rules: str) -> str:
    """The rules' file with the groups in their place."""
    head, _, rest = rules.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}{groups()}{END}{tail}"


def _expression(resource: Resource, figure: str) -> str:
    formula = FOLLOWING[resource].get(figure)
    if formula is None:
        return _asked(resource, figure)
    return formula.promql(partial(_figure, resource))


def _figure(resource: Resource, figure: str) -> str:
    """A figure in another rule: what is recorded of it before, or its own expression."""
    if figure in (*RECORDED[resource], *_OF_BOTH):
        return name(resource, figure)
    if formula := FOLLOWING[resource].get(figure):
        return f"({formula.promql(partial(_figure, resource))})"
    special: dict[str, Callable[[], str]] = {
        "day": lambda: str(_DAY_S // RECORDED_S),
        "by": lambda: _steps(resource),
        "stepped": lambda: _stepped(resource),
        "smallest": lambda: _smallest(resource),
    }
    return special.get(figure, lambda: _asked(resource, figure))()


def _asked(resource: Resource, figure: str) -> str:
    series, how, over = FIGURES[resource][figure]
    call = how if how.endswith(" ") else f"{how}("
    # Without the sharing system, and without a name, by which rows of a table would fall apart.
    return f"max without (scheme) ({call}{LEVEL}{series}[{over or OVER}]))"


def _steps(resource: Resource) -> str:
    """The steps of one unit of each workload's sharing system, the coarsest if it has several."""
    by_steps: dict[float, list[str]] = defaultdict(list)
    for scheme in sorted({scheme for scheme, of in UNITS if of is resource}):
        by_steps[steps_of_unit(scheme, resource)].append(scheme)
    usual = steps_of_unit("", resource)
    by_steps.pop(usual, None)
    found = [
        f'last_over_time({LEVEL}{CARDS}{{scheme=~"{"|".join(schemes)}"}}[{LATELY}]) * 0 + {steps!r}'
        for steps, schemes in by_steps.items()
    ]
    found.append(f"last_over_time({LEVEL}{CARDS}[{LATELY}]) * 0 + {usual!r}")
    return f"min without (scheme) ({' or '.join(found)})"


def _stepped(resource: Resource) -> str:
    """There for workloads whose sharing systems have steps that are all known."""
    known = "|".join(
        sorted(scheme for scheme, of in UNITS if of is resource and is_known(scheme, of))
    )
    there = f"last_over_time({LEVEL}{CARDS}{{scheme%s{known!r}}}[{LATELY}])".replace("'", '"')
    known, unknown = (f"max without (scheme) ({there % sign})" for sign in ("=~", "!~"))
    return f"({known} unless {unknown})"


def _smallest(resource: Resource) -> str:
    """The smallest amount of the systems that have one, of each workload."""
    found = {scheme: smallest_of(scheme, resource) for scheme, of in UNITS if of is resource}
    each = [
        f'last_over_time({LEVEL}{CARDS}{{scheme="{scheme}"}}[{LATELY}]) * 0 + {amount!r}'
        for scheme, amount in sorted(found.items())
        if amount
    ]
    return f"max without (scheme) ({' or '.join(each)})"
