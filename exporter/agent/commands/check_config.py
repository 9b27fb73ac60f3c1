"""The command ``check-config``: reports all problems of a configuration at once.

It reads what ``serve`` reads before it starts: the settings from flags, variables and file, the web
configuration with its certificates, the scenario and the kubeconfig. It starts nothing.
"""

import json
import os
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence

from exporter.agent.collector.wiring import examine_settings
from exporter.agent.settings import Settings, unknown_variables
from exporter.agent.simulation import ScenarioError
from exporter.agent.simulation.load_scenario import load as load_scenario
from exporter.agent.web import WebConfig, WebFileError
from exporter.apiserver.client import read_kubeconfig
from exporter.apiserver.kubeconfig import KubeconfigError
from exporter.console.commandline import Refusal
from exporter.console.output import say
from exporter.inputs.problems import Problem, ValuePlace
from exporter.shown.words import plural

FORMS = ("text", "json")
_UNUSABLE = 2


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    parser.add_argument("--format", choices=FORMS, default="text", help="form of the answer")


def check_config(
    flags: Mapping[str, list[str]],
    form: str = "text",
    environ: Mapping[str, str] = os.environ,
    refused: Sequence[Refusal] = (),
) -> int:
    """Print the problems, ``refused`` arguments first. The exit status is 0 if there are none."""
    settings, problems = examine_settings(flags, environ)
    unknown = (Problem(ValuePlace(one.argument), f"{one.what}{one.advice}") for one in refused)
    # All of them at once: whoever sees one at a time restarts the pod for each.
    problems = [*unknown, *problems, *_of_files(settings)]
    warnings = unknown_variables(environ)
    if form == "json":
        say(json.dumps(_document(problems, warnings), indent=2) + "\n")
    else:
        say("".join(f"{line}\n" for line in _lines(settings, problems, warnings)))
    return _UNUSABLE if problems else 0


def _lines(settings: Settings, problems: list[Problem], warnings: list[str]) -> Iterator[str]:
    yield from (f"problem: {problem}" for problem in problems)
    yield from (f"warning: {warning}" for warning in warnings)
    if problems:
        # It starts without a usable kubeconfig, which may come later.
        starts = all(problem.place.origin == settings.kubeconfig for problem in problems)
        what = "serve would start, and try again until it can be used"
        count = plural(len(problems), "problem")
        yield f"{count}: {what if starts else 'serve would not start'}"
        return
    read = (settings.config_file, settings.web_config_file, settings.simulate, settings.kubeconfig)
    named = ", ".join(filter(None, read))
    yield f"the configuration can be used{f' ({named})' if named else ''}"


def _document(problems: list[Problem], warnings: list[str]) -> dict[str, object]:
    return {
        "usable": not problems,
        "problems": [
            {
                "origin": problem.place.origin,
                "line": problem.place.line or None,
                "column": problem.place.column or None,
                "key": problem.place.key or None,
                "problem": problem.text,
                "given": problem.given,
                "allowed": problem.allowed,
            }
            for problem in problems
        ],
        "warnings": warnings,
    }


def _of_files(settings: Settings) -> Iterator[Problem]:
    """The problems of the other files that the settings name."""
    if settings.web_config_file:
        try:
            WebConfig(settings.web_config_file, tokens=settings.web_kubernetes_access)
        except WebFileError as error:
            yield from error.problems
    if settings.simulate:
        try:
            load_scenario(settings.simulate)
        except ScenarioError as error:
            for one in error.problems:
                whole = Problem(ValuePlace("--simulate", "simulate"), str(one))
                yield one if isinstance(one, Problem) else whole
    if settings.kubeconfig:
        try:
            read_kubeconfig(settings.kubeconfig)
        except KubeconfigError as error:
            yield Problem(ValuePlace(settings.kubeconfig, "kubeconfig"), error.words)
