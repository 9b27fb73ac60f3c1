"""Answers held against the schema."""

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from exporter.agent import api


@cache
def validator(answer: str) -> Draft202012Validator:
    """What holds the answer of this name to its part of the schema."""
    schema = api.schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(
        {"$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": f"#/$defs/{answer}"}
    )


def validate(answer: str, document: Any) -> None:
    """Fail with the first few errors, and where they are."""
    errors = [f"{e.json_path}: {e.message[:200]}" for e in validator(answer).iter_errors(document)]
    assert not errors, errors[:5]
