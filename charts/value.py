"""What the table holds of one value of the chart, and the kinds of values there are."""

from collections.abc import Mapping
from dataclasses import dataclass

Schema = Mapping[str, object]

TEXT: Schema = {"type": "string"}
PATTERN: Schema = {"type": "string", "pattern": '^[^"%\\\\]*$'}  # it goes into quoted strings
SWITCH: Schema = {"type": "boolean"}
AUTO: Schema = {"enum": ["auto", True, False]}
OBJECT: Schema = {"type": "object"}  # of Kubernetes' own: the API server checks what is in it
OBJECTS: Schema = {"type": "array", "items": OBJECT}
TEXTS: Schema = {"type": "array", "items": TEXT}


def objects(**fields: Schema) -> Schema:
    """Objects of Kubernetes' own in which these fields have a form.

    A number or ``true`` is easily written where it wants text, and the API server then ends the
    install with a message about its own types.
    """
    return {"type": "array", "items": {"type": "object", "properties": fields}}


VARIABLES = objects(name=TEXT, value=TEXT)
CONTAINERS = objects(env=VARIABLES, command=TEXTS, args=TEXTS)
SECRETS: Schema = {
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {"type": "object", "required": ["name"], "properties": {"name": TEXT}},
        ]
    },
}
PAIRS: Schema = {"type": "object", "additionalProperties": TEXT}
_SELECTED = ("name", "instance", "component")  # by them Services and monitors find the pods
MORE_LABELS: Schema = {
    **PAIRS,
    "properties": {f"app.kubernetes.io/{name}": False for name in _SELECTED},
}
PATH: Schema = {"type": "string", "pattern": "^/"}
OPTIONAL_PATH: Schema = {"type": "string", "pattern": "^(/|$)"}
DURATION: Schema = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w|y))*$"}
_DIGITS = {"type": ["integer", "string"], "pattern": "^(0|[1-9][0-9]*)$"}  # as variables write it
PORT: Schema = {**_DIGITS, "minimum": 1, "maximum": 65535, "maxLength": 5}
NUMBER: Schema = {**_DIGITS, "minimum": 0}
SHARE: Schema = {"type": ["integer", "string"], "minimum": 1, "pattern": "^0*[1-9][0-9]*%?$"}


def choice(*words: str) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": list(words)}


@dataclass(frozen=True, slots=True)
class Value:
    """One value: its place in values.yaml, such as ``image.tag``, default, form and meaning.

    ``optional``: null, which takes a default away, leaves it to Kubernetes, or leaves it out.
    Lists and tables are so too. For all others null is the default.
    """

    path: str
    default: object
    schema: Schema
    about: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Values of one subject, under a heading."""

    title: str
    values: tuple[Value, ...]
