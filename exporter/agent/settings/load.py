"""Flags, environment variables and the settings file → ``Settings``, in this order of precedence.

All problems are collected, each as a ``Problem`` with its ``ValuePlace``, so that one start
shows them all.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import yaml

from exporter.agent.settings.table import BY_NAME, TABLE, Settings, known_alike
from exporter.inputs.mapping import MAX_PROBLEMS, InvalidValue, below, flag_text
from exporter.inputs.problems import Problem, ValuePlace, not_allowed
from exporter.inputs.valuekinds import StructureError, ValueKind
from exporter.inputs.values import Setting
from exporter.inputs.yamldocument import NULL, YamlError, items, line_of, parse, read_bytes


class SettingsError(Exception):
    """Settings that cannot be used, with all problems found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


Complaint = tuple[str, str]
"""Name of a setting, and what is wrong with its value."""


class _GivenValue(NamedTuple):
    """The text of a value and its place; ``node`` if it has several lines in a file."""

    text: str
    place: ValuePlace
    node: yaml.Node | None = None


def load(
    flags: Mapping[str, list[str]],
    environ: Mapping[str, str] | None = None,
    check: Callable[[Settings], Iterable[Complaint]] = lambda _: (),
) -> Settings:
    """The settings in force, from parsed flags, the environment and the settings file.

    ``check`` returns complaints of other packages about settings that can be read.

    Raises:
        SettingsError: a setting is not allowed, not known or given twice.

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
    """The settings as ``load`` returns them, and all problems.

    A setting that cannot be read has its default.
    """
    environ = os.environ if environ is None else environ
    problems: list[Problem] = []
    # The variables of settings only: a cluster's own service variables may look alike.
    given = {
        s.name: _GivenValue(environ[s.variable], ValuePlace(f"${s.variable}", s.name))
        for s in BY_NAME.values()
        if s.variable in environ
    } | _from_flags(flags, problems)
    file = given.get("config.file")
    if file and file.text:
        # The right side wins: flags and variables go before the file.
        given = _from_file(file, problems) | given
    reading = _ValueReader(given, problems)
    settings = Settings(**{field: reading.value(setting) for field, setting in TABLE.items()})
    if "collection.interval" in given and "collection.samples-interval" not in given:
        # Who asks for a reading in each interval gets it.
        every_ns = settings.collection_interval_ns
        settings = replace(settings, collection_samples_interval_ns=every_ns)
    for name, text in (*_contradictions(settings), *check(settings)):
        reading.complain(name, text)
    # Flags and variables first, then the file by line.
    return settings, sorted(problems, key=lambda one: (one.place.is_file, one.place.line))


class _ValueReader:
    """Reads the values that were given. A value that cannot be read is replaced by its default."""

    def __init__(self, given: Mapping[str, _GivenValue], problems: list[Problem]) -> None:
        self._given = given
        self._problems = problems
        self._wrong: set[str] = set()  # sections with a setting that could not be read

    def value(self, setting: Setting) -> Any:  # noqa: ANN401 - of the setting's kind
        kind = setting.kind
        given = self._given.get(setting.name)
        # The default's own text may be no value of the kind, as "" of a list. It stands for "not
        # set", and still goes before what the file says.
        if given is not None and (given.node is not None or given.text != setting.default):
            try:
                if kind.read_node and given.node:
                    return kind.read_node(given.node)
                return kind.read(given.text)
            except StructureError as error:
                self._problems += (_misread(given, setting, *wrong) for wrong in error.problems)
            except (ValueError, KeyError):
                wrong = _first_wrong(kind, given.text)
                self._problems.append(not_allowed(given.place, wrong, kind.allowed))
            self._wrong.add(setting.name.split(".")[0])
        unset: object = () if kind.many or kind.read_node else ""
        return kind.read(setting.default) if setting.default else unset

    def complain(self, name: str, text: str) -> None:
        """Add a complaint, unless another setting of the section could not be read.

        The complaint may then be about that setting's default.
        """
        if name.split(".", maxsplit=1)[0] not in self._wrong:
            place = (
                self._given[name].place if name in self._given else ValuePlace(f"--{name}", name)
            )
            self._problems.append(Problem(place, text))


def _first_wrong(kind: ValueKind[Any], text: str) -> str:
    """The first of several values that is not allowed; all of the text if each alone is."""
    for part in map(str.strip, text.split(",") if kind.many else ()):
        try:
            kind.read(part)
        except (ValueError, KeyError):
            return part or text
    return text


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
        place = ValuePlace(f"--{name}", name)
        # argparse itself would take the last one, and nobody would see that two places set it.
        if len(texts) > 1 and not BY_NAME[name].kind.many:
            problems.append(Problem(place, f"given {len(texts)} times; give it once"))
            continue
        given[name] = _GivenValue(",".join(texts), place)
    return given


def _from_file(file: _GivenValue, problems: list[Problem]) -> dict[str, _GivenValue]:
    """The settings in a file; what is wrong with it is added to ``problems``."""
    try:
        root = parse(read_bytes(file.text).decode())
    except YamlError as error:
        place = ValuePlace(file.text, "", error.line, error.column)
        problems.append(Problem(place, f"not YAML: {error.words}"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        problems.append(Problem(file.place, f"{file.text} cannot be read: {reason}"))
    else:
        # A file that has nothing but comments sets nothing, and is no mistake.
        if root is not None and root.tag != NULL:
            return _FileReader(file.text, problems).read(root)
    return {}


class _FileReader:
    """Reads one settings file. ``web: {max-requests: 1}`` is the same as ``web.max-requests: 1``.

    It takes the scalars' own text, not YAML's reading of it (``no`` is not False), so that a value
    means the same in a file as in a flag.
    """

    def __init__(self, path: str, problems: list[Problem]) -> None:
        self._path = path
        self._problems = problems
        self._given: dict[str, _GivenValue] = {}

    def read(self, root: yaml.Node) -> dict[str, _GivenValue]:
        if isinstance(root, yaml.MappingNode):
            self._section("", root)
        else:
            self._refuse(root, "", "settings by name are expected, such as log.level: info")
        return self._given

    def _section(self, prefix: str, node: yaml.MappingNode) -> None:
        for item in items(node):
            # Another program's file would give thousands of them.
            if len(self._problems) >= MAX_PROBLEMS:
                return
            name = f"{prefix}.{item.name}" if prefix else item.name or ""
            if item.name is None:
                self._refuse(item.key, prefix, "a name is expected, not a list or mapping")
            elif item.first_line and name not in BY_NAME:  # ``_setting`` reports a setting itself
                self._refuse(item.key, name, f"given twice; see line {item.first_line}")
            elif isinstance(item.value, yaml.MappingNode) and any(
                known.startswith(f"{name}.") for known in BY_NAME
            ):
                self._section(name, item.value)
            else:
                self._setting(name, item.value)

    def _setting(self, name: str, node: yaml.Node) -> None:
        setting = BY_NAME.get(name)
        if setting is None:
            self._refuse(node, name, f"no such setting; {known_alike(name)}")
        elif name == "config.file":
            self._refuse(node, name, "a settings file cannot name another one")
        elif name in self._given:
            before = self._given[name].place
            self._refuse(node, name, f"given twice; see line {before.line}")
        elif setting.kind.read_node and not isinstance(node, yaml.ScalarNode):
            self._given[name] = _GivenValue("", self._place(node, name), node)
        # A name without a value, as a template leaves it, sets nothing.
        elif node.tag != NULL:
            try:
                text = flag_text(setting.kind, node)
            except InvalidValue as invalid:
                self._refuse(invalid.node or node, below(name, invalid.key), str(invalid))
            else:
                self._given[name] = _GivenValue(text, self._place(node, name))

    def _refuse(self, node: yaml.Node, name: str, text: str) -> None:
        self._problems.append(Problem(self._place(node, name), text))

    def _place(self, node: yaml.Node, name: str) -> ValuePlace:
        # The name is the file's own text. It may be of any length, and stands in a line of the log.
        return ValuePlace(self._path, name[:80], line_of(node))
