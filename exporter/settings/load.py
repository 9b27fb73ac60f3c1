"""Flags, environment and file → Settings. The first that has a setting decides.

All errors are gathered, each with its place, so that one start shows them all.
"""

import os
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml

from exporter.settings.table import TABLE, Setting, Settings
from exporter.settings.values import Kind, StructureError

T = TypeVar("T")

_BY_NAME = {setting.name: setting for setting in TABLE.values()}
_MAX_FILE_BYTES = 1 << 20
_NULL = "tag:yaml.org,2002:null"


class SettingsError(Exception):
    """Settings that cannot be used; ``problems`` has a line for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


Complaint = tuple[str, str]
"""Name of a setting, and what is wrong with its value."""


class _Given(NamedTuple):
    """A value's text, or its node where it has several lines in a file."""

    text: str
    place: str
    node: yaml.Node | None = None
    file: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    """Add every setting's flag, in groups. A flag that is not given leaves no attribute."""
    groups: dict[str, Any] = {}
    for setting in TABLE.values():
        group = setting.name.split(".")[0]
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        switch = setting.default in ("true", "false")
        groups[group].add_argument(
            f"--{setting.name}",
            dest=setting.name,
            default=SUPPRESS,
            action="append",
            metavar="VALUE",
            help=_help(setting),
            **({"nargs": "?", "const": "true"} if switch else {}),
        )


def argument(kind: Kind[T]) -> Callable[[str], T]:
    """Make what reads a sub-command's own argument of this kind, for argparse."""

    def read(text: str) -> T:
        try:
            return kind.read(text)
        except (ValueError, KeyError):
            raise ArgumentTypeError(f"{text!r} is not {kind.allowed}") from None

    return read


def _help(setting: Setting) -> str:
    default = f"default {setting.default}" if setting.default else "not set by default"
    repeat = "; repeatable" if setting.kind.many else ""
    text = f"{setting.about} [{setting.kind.allowed}; {default}; ${setting.variable}{repeat}]"
    return text.replace("%", "%%")


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
    environ = os.environ if environ is None else environ
    problems: list[str] = []
    given = _from_environment(environ) | _from_flags(flags, problems)
    file = given.get("config.file")
    if file and file.text:
        given = _from_file(file, problems) | given
    values = {field: _value(s, given.get(s.name), problems) for field, s in TABLE.items()}
    if problems:
        raise SettingsError(problems)
    settings = Settings(**values)
    problems += _contradictions(settings, given)
    problems += (f"{_place(given, name)}: {complaint}" for name, complaint in check(settings))
    if problems:
        raise SettingsError(problems)
    return settings


def _value(setting: Setting, given: _Given | None, problems: list[str]) -> Any:  # noqa: ANN401 - of the setting's kind
    kind = setting.kind
    if given is None or (given.node is None and given.text == setting.default):
        unset: object = () if kind.many or kind.read_node else ""
        return kind.read(setting.default) if setting.default else unset
    try:
        if kind.read_node and given.node:
            return kind.read_node(given.node)
        return kind.read(given.text)
    except StructureError as error:
        problems += (_misread(given, setting, *wrong) for wrong in error.problems)
        return None
    except (ValueError, KeyError):
        problems.append(f"{given.place}: {given.text!r} is not {kind.allowed}")
        return None


def _misread(given: _Given, setting: Setting, line: int, where: str, text: str) -> str:
    place = f"{given.file}, line {line}, {setting.name}" if given.node else given.place
    return f"{place}{where}: {text}"


def _place(given: Mapping[str, _Given], name: str) -> str:
    return given[name].place if name in given else name


def _contradictions(settings: Settings, given: Mapping[str, _Given]) -> Iterator[str]:
    def place(name: str) -> str:
        return _place(given, name)

    if settings.collection_window_ns < settings.collection_interval_ns:
        yield f"{place('collection.window')}: shorter than collection.interval; make it longer"
    if settings.simulate and not {"auto", "simulated"}.issuperset(settings.gpus_source):
        yield f"{place('gpus.source')}: --simulate simulates the whole node; give one of the two"
    if settings.simulate and settings.pods_source not in {"auto", "none"}:
        yield f"{place('pods.source')}: --simulate simulates the whole node; give one of the two"
    if "simulated" in settings.gpus_source and not settings.simulate:
        yield f"{place('gpus.source')}: simulated needs --simulate with a scenario"


def _from_flags(flags: Mapping[str, list[str]], problems: list[str]) -> dict[str, _Given]:
    given = {}
    for name, texts in flags.items():
        if len(texts) > 1 and not _BY_NAME[name].kind.many:
            problems.append(f"--{name}: given {len(texts)} times; give it once")
            continue
        given[name] = _Given(",".join(texts), f"--{name}")
    return given


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    """Take the variables of settings only: a cluster's own service variables may look alike."""
    return {
        s.name: _Given(environ[s.variable], f"${s.variable}")
        for s in _BY_NAME.values()
        if s.variable in environ
    }


def _from_file(file: _Given, problems: list[str]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    try:
        for name, text, line, node in _entries(file.text):
            place = f"{file.text}, line {line}, {name}"
            if name not in _BY_NAME:
                problems.append(f"{place}: no such setting; {_alike(name)}")
            elif name == "config.file":
                problems.append(f"{place}: a settings file cannot name another one")
            elif name in given:
                problems.append(f"{place}: given twice; see {given[name].place}")
            elif text is not None:
                given[name] = _Given(text, place, node, file.text)
    except OSError as error:
        problems.append(f"{file.place}: {file.text} cannot be read: {error.strerror}")
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        problems.append(f"{file.place}: {file.text} cannot be read: {error}")
    return given


def _alike(name: str) -> str:
    part = name.split(".", maxsplit=1)[0]
    near = [known for known in _BY_NAME if known.split(".")[0] == part] or list(_BY_NAME)
    return f"known: {', '.join(near)}"


class _Entry(NamedTuple):
    """A setting in the file; ``node`` where its kind has several lines."""

    name: str
    text: str | None
    line: int
    node: yaml.Node | None = None


def _entries(path: str) -> Iterator[_Entry]:
    """Every entry of the file; ``web: {max-requests: 1}`` is ``web.max-requests: 1``.

    The scalars' own text is taken, not YAML's reading of it (``no`` is not False), so that a
    value means the same in a file as in a flag.
    """
    with Path(path).open("rb") as file:
        raw = file.read(_MAX_FILE_BYTES + 1)
    if len(raw) > _MAX_FILE_BYTES:
        raise ValueError(f"larger than {_MAX_FILE_BYTES} bytes")
    root = yaml.compose(raw.decode(), Loader=yaml.SafeLoader)
    if root is not None and root.tag != _NULL:
        yield from _flat("", root)


def _flat(prefix: str, node: yaml.Node) -> Iterator[_Entry]:
    line = node.start_mark.line + 1
    setting = _BY_NAME.get(prefix)
    if isinstance(node, yaml.MappingNode) and _is_section(prefix):
        for key, value in node.value:
            yield from _flat(f"{prefix}.{key.value}" if prefix else str(key.value), value)
    elif setting and setting.kind.read_node and not isinstance(node, yaml.ScalarNode):
        yield _Entry(prefix, "", line, node)
    elif isinstance(node, yaml.ScalarNode) and prefix:
        yield _Entry(prefix, None if node.tag == _NULL else node.value, line)
    elif setting and isinstance(node, yaml.SequenceNode):
        _expect_plain(node.value, line, prefix)
        yield _Entry(prefix, ",".join(item.value for item in node.value), line)
    elif setting and setting.kind.pairs and isinstance(node, yaml.MappingNode):
        _expect_plain((part for pair in node.value for part in pair), line, prefix)
        yield _Entry(prefix, ",".join(f"{key.value}={own.value}" for key, own in node.value), line)
    elif setting or not prefix:
        raise ValueError(f"line {line}: {prefix or 'the file'}: settings by name are expected")
    else:
        yield _Entry(prefix, "", line)


def _expect_plain(nodes: Iterable[yaml.Node], line: int, name: str) -> None:
    if not all(isinstance(node, yaml.ScalarNode) for node in nodes):
        raise ValueError(f"line {line}, {name}: a list of plain values is expected")


def _is_section(prefix: str) -> bool:
    return not prefix or any(name.startswith(f"{prefix}.") for name in _BY_NAME)
