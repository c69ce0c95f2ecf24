"""Itanium-mangled names, as AMD's kernels come: the function, and the template arguments that stand in it in the open.

The grammar is that of the Itanium C++ ABI, section 5.1. Substitutions and expressions are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_PART = re.compile(r"(\d+)")
_ARGUMENT = re.compile(r"IN(?:S\w?_)?")
_TOKEN = re.compile(r"L([a-z])(n?\d+)E|DF16_|DF16b|Dh|S\w?_|T\d*_|[KPRO]+(?=[a-zDNS\d])|[a-z]|[A-Z]")
_BUILTIN = {
    **dict(zip("bcahst", ("bool", "char", "signed char", "unsigned char", "short", "unsigned short"), strict=True)),
    **dict(zip("ijlmfd", ("int", "unsigned int", "long", "unsigned long", "float", "double"), strict=True)),
    "DF16_": "half",
    "DF16b": "bf16",
    "Dh": "half",
}
MOST_ARGUMENTS = 200


def is_mangled(name: str) -> bool:
    """Whether a name is as the Itanium C++ ABI mangles it."""
    return name.startswith("_Z")


def mangled_parts(name: str, shells: Collection[str]) -> tuple[str, list[str]]:
    """The function of a mangled name, "" where it cannot be read, and its arguments: types, classes and values.

    shells: functions that are named after their first argument.

    >>> mangled_parts("_ZN5aiter4normIDF16bLi256ELb0EEEvPT0_", ())
    ('norm', ['bf16', '256', 'false'])
    """
    at = 3 if name.startswith("_ZN") else 2
    while True:
        part = ""
        while number := _PART.match(name, at):
            part = name[number.end() : number.end() + int(number[1])]
            at = number.end() + int(number[1])
        argument = _ARGUMENT.match(name, at)
        if part not in shells or not argument:
            return part, _arguments(name, at)
        at = argument.end()


def _arguments(name: str, at: int) -> list[str]:
    """What stands between I and its E, classes by their own name and without their arguments."""
    if not name.startswith("I", at):
        return []
    found: list[str] = []
    depth, at = 1, at + 1
    while depth and at < len(name) and len(found) < MOST_ARGUMENTS:
        if number := _PART.match(name, at):
            at = number.end() + int(number[1])
            found.append(name[number.end() : at])
            continue
        token = _TOKEN.match(name, at)
        if token is None:
            break
        at = token.end()
        word = token[0]
        if token[1]:
            found.append(_value(token[1], token[2]))
        elif word in _BUILTIN:
            found.append(_BUILTIN[word])
        elif word in "INJX":
            depth += 1
        elif word == "E":
            depth -= 1
    return found


def _value(kind: str, digits: str) -> str:
    if kind == "b":
        return "true" if digits == "1" else "false"
    return digits.replace("n", "-")
