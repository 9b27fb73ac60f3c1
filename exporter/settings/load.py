"""Flags, environment and file → Settings. The first that has a setting decides.

All problems are gathered, each with its place, so that one start shows them all.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from exporter.settings import yamlfile
from exporter.settings.problem import Place, Problem, SettingsError, not_allowed
from exporter.settings.table import BY_NAME, TABLE, Settings
from exporter.settings.values import Setting, StructureError

Complaint = tuple[str, str]
"""Name of a setting, and what is wrong with its value."""


class _GivenValue(NamedTuple):
    """A value's text, or its node where it has several lines in a file."""

    text: str
    place: Place
    node: yaml.Node | None = None


def load(
    flags: Mapping[str, list[str]],
    environ: Mapping[str, str] | None = None,
    check: Callable[[Settings], Iterable[Complaint]] = lambda _: (),
) -> Settings:
    """Read the settings in force from parsed flags, the environment and the settings file.

    ``check`` says what other rooms cannot work with.

    Raises:
        SettingsError: something is not allowed, not known or given twice; nothing is half read.

    """
    settings, problems = examine(flags, environ, check)
    if problems:
        raise SettingsError(problems)
    return settings


def examine(
    flags: Mapping[str, list[str]],
    environ: Mapping[str, str] | None = None,
    check: Callable[[Settings], Iterable[Complaint]] = lambda _: (),
) -> tuple[Settings, list[Problem]]:
    """Read as ``load`` does, and tell what is wrong: for those are the defaults in the settings."""
    environ = os.environ if environ is None else environ
    problems: list[Problem] = []
    given = _from_environment(environ) | _from_flags(flags, problems)
    file = given.get("config.file")
    if file and file.text:
        given = _from_file(file, problems) | given
    reading = _Reading(given, problems)
    settings = Settings(**{field: reading.value(setting) for field, setting in TABLE.items()})
    for name, text in (*_contradictions(settings), *check(settings)):
        reading.complain(name, text)
    return settings, sorted(problems, key=_by_line)


def _by_line(problem: Problem) -> tuple[bool, int]:
    """Flags and variables first, then the file from its beginning to its end."""
    return problem.place.is_file, problem.place.line


class _Reading:
    """Values by what was given. One that cannot be read is the default for what comes after."""

    def __init__(self, given: Mapping[str, _GivenValue], problems: list[Problem]) -> None:
        self._given = given
        self._problems = problems
        self._wrong: set[str] = set()  # sections of the settings that could not be read

    def value(self, setting: Setting) -> Any:  # noqa: ANN401 - of the setting's kind
        kind = setting.kind
        given = self._given.get(setting.name)
        if given is not None and (given.node is not None or given.text != setting.default):
            try:
                return self._read(setting, given)
            except StructureError as error:
                self._problems += (_misread(given, setting, *wrong) for wrong in error.problems)
            except (ValueError, KeyError):
                self._problems.append(not_allowed(given.place, given.text, kind.allowed))
            self._wrong.add(setting.name.split(".")[0])
        unset: object = () if kind.many or kind.read_node else ""
        return kind.read(setting.default) if setting.default else unset

    def _read(self, setting: Setting, given: _GivenValue) -> object:
        if setting.kind.read_node and given.node:
            return setting.kind.read_node(given.node)
        return setting.kind.read(given.text)

    def complain(self, name: str, text: str) -> None:
        """Add what is wrong with a value that could be read, unless it may come of one that not."""
        if name.split(".", maxsplit=1)[0] not in self._wrong:
            place = self._given[name].place if name in self._given else Place(f"--{name}", name)
            self._problems.append(Problem(place, text))


def _misread(given: _GivenValue, setting: Setting, line: int, where: str, text: str) -> Problem:
    name = f"{setting.name}{where}"
    if given.node:
        return Problem(given.place._replace(line=line, key=name), text)
    return Problem(given.place._replace(origin=f"{given.place.origin}{where}"), text)


def _contradictions(settings: Settings) -> Iterator[Complaint]:
    simulated = "--simulate simulates the whole node; give one of the two"
    if settings.collection_window_ns < settings.collection_interval_ns:
        yield "collection.window", "shorter than collection.interval; make it longer"
    if settings.simulate and not {"auto", "simulated"}.issuperset(settings.gpus_source):
        yield "gpus.source", simulated
    if settings.simulate and settings.pods_source not in {"auto", "none"}:
        yield "pods.source", simulated
    if "simulated" in settings.gpus_source and not settings.simulate:
        yield "gpus.source", "simulated needs --simulate with a scenario"


def _from_flags(flags: Mapping[str, list[str]], problems: list[Problem]) -> dict[str, _GivenValue]:
    given = {}
    for name, texts in flags.items():
        place = Place(f"--{name}", name)
        if len(texts) > 1 and not BY_NAME[name].kind.many:
            problems.append(Problem(place, f"given {len(texts)} times; give it once"))
            continue
        given[name] = _GivenValue(",".join(texts), place)
    return given


def _from_environment(environ: Mapping[str, str]) -> dict[str, _GivenValue]:
    """Take the variables of settings only: a cluster's own service variables may look alike."""
    return {
        s.name: _GivenValue(environ[s.variable], Place(f"${s.variable}", s.name))
        for s in BY_NAME.values()
        if s.variable in environ
    }


def _from_file(file: _GivenValue, problems: list[Problem]) -> dict[str, _GivenValue]:
    entries = yamlfile.read(file.text, file.place, problems)
    return {
        name: _GivenValue(entry.text or "", entry.place, entry.node)
        for name, entry in entries.items()
    }
