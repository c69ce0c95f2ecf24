"""A measured cell as source: its head line, the lines that part its variants, and the text as typed. No IPython.

`%%name options` on the first line becomes a string literal on that same line; later, in the tree, that literal says
what to do with the body (perfmagic.capture.cell.tree). With `--vs` the lines `# --- name` part the body into variants;
they become literals like the head. Nothing is remembered between the two steps: a cell is transformed twice by
ipykernel, at every Enter by a console, and a syntax error may come between.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from perfmagic.capture.cell.marks import RUNTIME

_MAGIC = re.compile(r"%%(\w+)(?:\s+(.*))?$")
_VS = re.compile(r"(?:^|\s)--vs(?:\s|$)")
_SEPARATOR = re.compile(r"#\s?-{3,}\s*(.*?)[\s-]*$")
_GOES_ON = ("elif", "else", "except", "finally", "case")  # what such a line begins with belongs to the statement before
_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


@dataclass(frozen=True)
class Head:
    """A magic's first line: its name and what follows it on the line."""

    name: str
    line: str

    def literal(self) -> str:
        """The head as a Python string, as it also appears in the user's tracebacks: '%%bench -n 5'."""
        return repr(f"%%{self.name} {self.line}".rstrip())

    @classmethod
    def parse(cls, text: str, names: Collection[str]) -> Head | None:
        """The head a line or a literal carries, None where it is not one of the magics that measure."""
        match = _MAGIC.match(text.rstrip())
        return cls(match[1], (match[2] or "").strip()) if match and match[1] in names else None


def replace_head(lines: Sequence[str], names: Collection[str]) -> list[str]:
    """Turn the `%%name …` line of a cell into its literal; other cells come back unchanged.

    lines: the cell's lines with their ends.  names: the magics that measure.
    A second cell magic right below is refused: the cell then says so when it runs, and runs nothing else.
    """
    first = next((i for i, line in enumerate(lines) if line.strip()), None)
    head = Head.parse(lines[first], names) if first is not None else None
    if first is None or head is None:
        return list(lines)
    below = next((i for i in range(first + 1, len(lines)) if lines[i].strip()), None)
    if below is not None and lines[below].startswith("%%"):
        refusal = f"{RUNTIME}.refuse_stacked({head.name!r}, {lines[below].split()[0]!r})\n"
        return [*lines[:first], refusal]
    below_head = lines[first + 1 :]
    if _VS.search(head.line):
        found = _separators(below_head)
        below_head = [f"{line.rstrip()!r}\n" if i in found else line for i, line in enumerate(below_head)]
    return [*lines[:first], head.literal() + "\n", *below_head]


def _separators(lines: Sequence[str]) -> set[int]:
    """Which lines part variants: a comment `# --- name` at the left edge, between two statements.

    Not one in a string, in brackets or in a block. Below something that Python cannot read every such line counts.
    """
    looks_so = {i for i, line in enumerate(lines) if _SEPARATOR.match(line.rstrip())}
    if not looks_so:
        return looks_so
    readable = ("\n" if line[:1] in ("%", "!") else line.rstrip("\n") + "\n" for line in lines)
    found: set[int] = set()
    waiting: set[int] = set()  # until what follows them shows whether the block has ended
    depth, row = 0, -1
    try:
        for token in tokenize.generate_tokens(lambda: next(readable, "")):
            row = token.start[0] - 1
            if token.type == tokenize.COMMENT and depth == 0 and row in looks_so:
                waiting.add(row)
            elif token.type not in _NO_CODE:
                if token.start[1] == 0 and token.string not in _GOES_ON:
                    found |= waiting
                waiting = set()
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
    except (tokenize.TokenError, SyntaxError):
        found |= waiting | {i for i in looks_so if i > row}
    return found


def is_separator(text: str) -> bool:
    """Whether a line, or the literal made of it, parts variants."""
    return bool(_SEPARATOR.match(text))


def as_typed(line: str) -> str:
    """A separator's literal as the comment it was; other lines as they are."""
    text = line.strip()
    is_literal = text[:1] in ("'", '"') and text[-1:] == text[:1] and bool(_SEPARATOR.match(text[1:-1]))
    return f"{text[1:-1]}\n" if is_literal else line


def below_head(source: str) -> str:
    """A measured cell as typed, without the line of its magic and what is blank before that."""
    lines = source.splitlines(keepends=True)
    return "".join(lines[next((i + 1 for i, line in enumerate(lines) if line.strip()), 0) :])


def variant_names(source: str, first: str = "") -> list[str]:
    """What the variants of a cell are called that is measured with `--vs`: A, B… where a separator has no name.

    source: the cell as typed, its head included.  first: a name for the first, if it has no separator of its own.
    """
    lines = below_head(source).splitlines()
    rows = sorted(_separators(lines))
    found = [match[1] for row in rows if (match := _SEPARATOR.match(lines[row].rstrip()))]
    if not rows or any(_is_code(line) for line in lines[: rows[0]]):
        found.insert(0, first)
    return [name or chr(ord("A") + i) for i, name in enumerate(found)]


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")
