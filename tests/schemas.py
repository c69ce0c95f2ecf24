"""Write docs/*.schema.json: keys and types come from classes, descriptions from their docstrings.

    python -m tests.schemas

A docstring describes a key by "name: text", at the beginning of a line or after two spaces, up to the next key or the
end of the paragraph. The unit follows from the key's name.
"""

import enum
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from perfmagic.analysis.bench.compare import CompareSummary
from perfmagic.analysis.bench.result import BenchSummary
from perfmagic.analysis.bench.sweep import SweepSummary
from perfmagic.analysis.diff.diff import TraceDiff
from perfmagic.analysis.flight.report import FlightReport
from perfmagic.analysis.report import Report
from perfmagic.results.briefs.form import Brief
from perfmagic.trace.json_form import JsonForm, json_keys, one_of
from perfmagic.trace.rows import Rows, row_columns

DOCS = Path(__file__).parents[1] / "docs"
RESULTS: dict[str, tuple[type[Any], ...]] = {
    "report": (Report,),
    "comparison": (TraceDiff,),
    "flight": (FlightReport,),
    "brief": (Brief,),
    "bench": (BenchSummary, CompareSummary, SweepSummary),
}
_UNITS = {
    "bytes_per_s": "in bytes per second",
    "flop_per_s": "in FLOP per second",
    "tokens_per_s": "in tokens per second",
    "_ns": "in ns",
    "_us": "in microseconds",
    "_s": "in seconds",
    "_bytes": "in bytes",
    "_frac": "0 to 1",
}


def main() -> None:
    """Write every schema anew."""
    for name, classes in RESULTS.items():
        (DOCS / f"{name}.schema.json").write_text(schema_text(name, *classes), encoding="utf-8")


def schema_text(name: str, *classes: type[Any]) -> str:
    """The JSON Schema of one of some classes, a line for each key: every key is required, and no other is allowed."""
    structs = [_struct(cls, json_keys(cls)) for cls in classes]
    references, objects = msgspec.json.schema_components(structs, ref_template="#/$defs/{name}")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"perfmagic {name}"}
    root = {"anyOf": list(references)} if len(classes) > 1 else objects.pop(classes[0].__name__)
    return _key_a_line(head | _tidy(root | {"$defs": dict(sorted(objects.items()))})) + "\n"


def schema_of(name: str) -> Any:
    """A committed schema, with each reference replaced by what it stands for."""
    schema = json.loads((DOCS / f"{name}.schema.json").read_text("utf-8"))
    return _inlined(schema, schema.pop("$defs"))


def _inlined(part: Any, objects: dict[str, Any]) -> Any:
    if isinstance(part, list):
        return [_inlined(item, objects) for item in part]
    if not isinstance(part, dict):
        return part
    named = _inlined(objects[part["$ref"].rpartition("/")[2]], objects) if "$ref" in part else {}
    return named | {key: _inlined(item, objects) for key, item in part.items() if key != "$ref"}


def _tidy(part: Any) -> Any:
    """The same from every version of msgspec: descriptions first, null last, no titles."""
    if isinstance(part, list):
        return [_tidy(item) for item in sorted(part, key=lambda item: item == {"type": "null"})]
    if not isinstance(part, dict):
        return part
    if all(isinstance(item, dict) for item in part.values()):  # keys of a result, not of the schema
        return {key: _tidy(item) for key, item in part.items()}
    about = {"description": part["description"]} if "description" in part else {}
    return about | {key: _tidy(item) for key, item in part.items() if key != "title"}


def _key_a_line(value: Any, indent: str = "") -> str:
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if {"properties", "$defs"} & value.keys():
        return "{" + ", ".join(f"{json.dumps(key)}: {_key_a_line(part, indent)}" for key, part in value.items()) + "}"
    if not all(isinstance(part, dict) for part in value.values()):
        return json.dumps(value, ensure_ascii=False)
    lines = (f"{indent} {json.dumps(key)}: {_key_a_line(part, f'{indent} ')}" for key, part in value.items())
    return "{\n" + ",\n".join(lines) + "}"


@cache  # the same class is described once
def _struct(cls: type[Any], keys: tuple[str, ...]) -> Any:
    """A msgspec Struct with these keys of a class, their types and descriptions."""
    hints, (about, texts) = _hints(cls, keys), _descriptions(cls)
    optional = getattr(cls, "optional", ())
    described = []
    for key in keys:
        if key not in texts:
            raise ValueError(f"{cls.__module__}.{cls.__name__}: the docstring does not describe {key}")
        hint = _without_none(hints[key]) if key in optional else hints[key]
        kind = Annotated[_json_type(hint), msgspec.Meta(description=_with_unit(key, texts[key]))]
        described.append((key, kind | msgspec.UnsetType, msgspec.UNSET) if key in optional else (key, kind))
    namespace = {"__doc__": about, "__module__": cls.__module__}
    return msgspec.defstruct(cls.__name__, described, namespace=namespace, kw_only=True, forbid_unknown_fields=True)


def _without_none(hint: Any) -> Any:
    """The type of a key that is absent where it is None."""
    if NoneType not in get_args(hint):
        return hint
    return Union[tuple(set(get_args(hint)) - {NoneType})]  # noqa: UP007


def _hints(cls: type[Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The types of some fields and properties of a class."""
    members = {key: getattr(cls, key, None) for key in keys}
    properties = {key: member.fget for key, member in members.items() if isinstance(member, property)}
    computed = {key: get_type_hints(getter, include_extras=True)["return"] for key, getter in properties.items()}
    return get_type_hints(cls, include_extras=True) | computed


def _descriptions(cls: type[Any]) -> tuple[str, dict[str, str]]:
    """What the docstring of a class says of the class, and what it and those of its bases say of each key."""
    about: list[str] = []
    texts: dict[str, str] = {}
    name = "|".join(row_columns(cls))
    entry = re.compile(rf"(?:\n|  )((?:(?:{name}), )*(?:{name})): ")
    for base in reversed(cls.__mro__[:-1]):
        about, described = [], False
        for paragraph in inspect.cleandoc(base.__doc__ or "").split("\n\n"):
            before, *entries = entry.split(f"\n{paragraph}")
            about += [before] if not described else []
            described = described or bool(entries)
            for names, text in zip(entries[::2], entries[1::2], strict=True):
                texts.update(dict.fromkeys(names.split(", "), _sentence(text)))
    return _sentence(" ".join(about)), texts


def _sentence(text: str) -> str:
    """A text of a docstring as one line for readers of JSON."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))


def _with_unit(key: str, text: str) -> str:
    """A description with the unit that the key ends in: "its start; null for none." → "Its start, in ns; null …"."""
    unit = next((words for ending, words in _UNITS.items() if key.endswith(ending)), "")
    unit = unit or ("a count" if key.startswith("n_") else "")
    text = text[:1].upper() + text[1:]
    return text if unit in text or "as a share" in text else re.sub(r"(?=[;.](?: |$))", f", {unit}", text, count=1)


def _json_type(hint: Any) -> Any:
    """The type of a value's JSON, for msgspec."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kind = str if _is_enum(args[0]) else _json_type(args[0])  # some members of an enumeration
        return Annotated[(kind, *hint.__metadata__)]
    if origin in (Union, UnionType):
        return Union[tuple(map(_json_type, args))]  # noqa: UP007
    if origin is Literal:
        return Annotated[str, one_of(*args)]
    if isinstance(origin, type):
        return _container(origin, args)
    if _is_enum(hint):
        return Annotated[str, one_of(*(member.name.lower() for member in hint))]
    return _struct(hint, json_keys(hint)) if is_dataclass(hint) else hint


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, enum.Enum)


def _container(origin: type[Any], args: tuple[Any, ...]) -> Any:
    if issubclass(origin, Rows):
        if issubclass(args[0], JsonForm):  # the table has more columns
            return list[_json_type(args[0])]  # type: ignore[misc]
        columns = tuple(name for name in row_columns(args[0]) if name not in origin.left_out)
        return list[_struct(args[0], columns)]  # type: ignore[misc]
    if issubclass(origin, Mapping):
        key = str if args[0] is int else _json_type(args[0])
        return dict[key, _json_type(args[1])]  # type: ignore[valid-type,misc]
    if origin is tuple and args[-1] is not Ellipsis:
        return tuple[tuple(map(_json_type, args))]
    return list[_json_type(args[0])]  # type: ignore[misc]


if __name__ == "__main__":
    main()
