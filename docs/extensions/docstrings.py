"""The house's docstrings as reStructuredText: `name: what it is.` becomes an item of a list, code stays code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FULL_LINE = 108  # docstrings are filled to 120 columns with up to 8 of indentation, and the next word did not fit
FIELD = re.compile(r"((?:[a-z_][a-zA-Z0-9_]*)(?:, [a-z_][a-zA-Z0-9_]*)*)( \((?:[^()]|\([^()]*\))*\))?: +")
SPAN = re.compile(r"(`[^`]+`|(?<!\w)\*[^*\s](?:[^*]*[^*\s])?\*(?!\w)|\bdocs/[a-z-]+\.md\b)")


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.connect("autodoc-process-docstring", _replace)
    return {"parallel_read_safe": True}


def _replace(_app: Sphinx, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = restructured("\n".join(lines)).splitlines()


def restructured(docstring: str) -> str:
    """A docstring without common indentation as reStructuredText."""
    return "\n\n".join(_block(block) for block in _blocks(docstring))


def _blocks(docstring: str) -> list[list[str]]:
    """The parts between empty lines; code that has empty lines in it stays one."""
    found: list[list[str]] = []
    for part in re.split(r"\n\s*\n", docstring.strip("\n")):
        lines = part.splitlines()
        if not lines:
            continue
        if found and _is_code(lines) and _is_code(found[-1]):
            found[-1] += ["", *lines]
        else:
            found.append(lines)
    return found


def _is_code(lines: list[str]) -> bool:
    return lines[0].startswith(("    ", ">>> "))


def _block(lines: list[str]) -> str:
    if lines[0].startswith(">>> "):
        return "\n".join(lines)
    if _is_code(lines):
        return "\n".join([".. code-block:: python", "", *lines])
    return "\n\n".join(_part(part) for sentence in _sentences(lines) for part in _fields(sentence))


def _fields(sentence: str) -> list[str]:
    """The parts of a line that names several things, with two spaces between them."""
    found: list[str] = []
    for part in re.split(r"  +", sentence):
        if found and not FIELD.match(part):
            found[-1] += " " + part
        else:
            found.append(part)
    return found


def _sentences(lines: list[str]) -> list[str]:
    """Lines joined where they were filled, apart where the writer began a new one."""
    found: list[str] = []
    before = ""
    for line in lines:
        word = line.split(maxsplit=1)[0]
        filled = line.startswith("    ") or len(before) + 1 + len(word) > FULL_LINE
        if found and filled and not FIELD.match(line):
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
        before = line
    return found


def _part(words: str) -> str:
    """A field as an item, anything else as a paragraph."""
    named = FIELD.match(words)
    if named is None:
        return _escaped(words)
    names = ", ".join(f"``{name}``" for name in named[1].split(", "))
    return f"- {names}{_escaped(named[2] or '')}: {_escaped(words[named.end() :])}"


def _escaped(words: str) -> str:
    """Words in which only code and emphasis are marked."""
    shown = []
    for piece in SPAN.split(words):
        if piece.startswith("`") and len(piece) > 1:
            shown.append(f"``{piece[1:-1]}``")
        elif piece.startswith("docs/") and piece.endswith(".md"):
            shown.append(f":doc:`{piece} </{piece.removesuffix('.md')}>`")
        elif SPAN.fullmatch(piece):
            shown.append(piece)
        else:
            shown.append(re.sub(r"([\\*_|`])", r"\\\1", piece))
    return "".join(shown)
