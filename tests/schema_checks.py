"""What a JSON Schema describes, and what values fill of it. References have to be inlined (tests.schemas.schema_of)."""

from collections.abc import Iterable, Iterator
from typing import Any


def objects(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object with named keys in the schema, with where it is."""
    if "properties" in schema:
        yield path, schema
    for key, part in schema.items():
        if isinstance(part, dict):
            yield from objects(part, f"{path}/{key}")
        elif isinstance(part, list):
            for number, item in enumerate(part):
                if isinstance(item, dict):
                    yield from objects(item, f"{path}/{key}/{number}")


def never_filled(schema: dict[str, Any], values: Iterable[Any]) -> list[str]:
    """The places of the schema that are null, or absent, in all values."""
    return sorted(set(described(schema)) - {place for value in values for place in met(schema, value)})


def met(schema: dict[str, Any], value: Any, path: str = "") -> Iterator[str]:
    """The places of the schema that a value fills with anything but null."""
    if value is None:
        return
    yield path
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            yield from met(choice, value, path)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            yield from met(schema["items"], item, f"{path}[]")
    if isinstance(value, dict):
        named = schema.get("properties", {})
        for key, item in value.items():
            if key in named:
                yield from met(named[key], item, f"{path}.{key}")
            elif isinstance(schema.get("additionalProperties"), dict):
                yield from met(schema["additionalProperties"], item, f"{path}.*")


def described(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every place of the schema."""
    yield path
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            yield from described(choice, path)
    if isinstance(schema.get("items"), dict):
        yield from described(schema["items"], f"{path}[]")
    for key, part in schema.get("properties", {}).items():
        yield from described(part, f"{path}.{key}")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from described(schema["additionalProperties"], f"{path}.*")


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    """Where a value is not what the schema says."""
    from jsonschema import Draft202012Validator  # takes seconds

    errors = Draft202012Validator(schema).iter_errors(value)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in errors]
