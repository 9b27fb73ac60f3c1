"""The price file: YAML to prices. Each mistake is named with its line."""

from collections.abc import Sequence
from typing import Any

import yaml

from exporter.answers.bill.money import Prices, price
from exporter.inputs.mapping import InvalidValue, Reader, Section, below, entries, read_mapping
from exporter.inputs.valuekinds import StructureProblem
from exporter.inputs.yamldocument import parse


class PriceError(ValueError):
    """A price file cannot be used. ``problems`` has a sentence for each mistake."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def prices_of(text: str) -> Prices:
    """The prices of a price file.

    Raises:
        PriceError: with the mistakes.
        YamlError: it is not YAML.

    """
    root = parse(text)
    problems: list[StructureProblem] = []
    given = {} if root is None else read_mapping(root, _FILE, problems)
    if problems:
        raise PriceError(
            [
                f"line {line}: {': '.join(filter(None, (where, why)))}"
                for line, where, why in problems
            ]
        )
    return Prices(
        given.get("currency", "USD"),
        given.get("default"),
        given.get("models", {}),
        given.get("node_labels", {}),
    )


def currency(text: str) -> str:
    """The currency that a text names; raises ValueError if it names none."""
    if not (len(text) == 3 and text.isascii() and text.isalpha()):  # noqa: PLR2004 - ISO 4217
        raise ValueError(f"{text[:40]!r} is no currency: three letters are needed, such as EUR")
    return text.upper()


def _of(known: Any) -> Reader:  # noqa: ANN401 - any function of a text
    def read(node: yaml.Node) -> object:
        if not isinstance(node, yaml.ScalarNode):
            raise InvalidValue("one value is needed")
        try:
            return known(node.value)
        except ValueError as error:
            raise InvalidValue(str(error)) from None

    return read


def _by_name(reader: Reader) -> Reader:
    """A reader of a mapping whose keys are the user's."""

    def read(node: yaml.Node) -> dict[str, object]:
        if not isinstance(node, yaml.MappingNode):
            raise InvalidValue("a mapping is needed")
        found = {}
        for name, value in entries(node):
            try:
                found[name] = reader(value)
            except InvalidValue as wrong:
                place = below(name, wrong.key)
                raise InvalidValue(str(wrong), wrong.node or value, place) from None
        return found

    return read


_FILE: Section = {
    "currency": _of(currency),
    "default": _of(price),
    "models": _by_name(_of(price)),
    "node_labels": _by_name(_by_name(_of(price))),
}
