"""A measured cell, as source and as tree: pure transformations, without IPython.

`%%name options` on the first line becomes a string literal on that same line; later, in the tree, that literal says
what to do with the body. Nothing is remembered between the two steps: a cell is transformed twice by ipykernel, at
every Enter by a console, and a syntax error may come between.

The body stays inline in the user's own frame, so tracebacks, `await`, and name lookup are the plain cell's:

    once                                         repeated
    with __perfmagic__.cell(head):               with __perfmagic__.cell(head):
        <body, marked>                               for () in __perfmagic__.first():
        __perfmagic__.value = <last value>               <body>; __perfmagic__.value = <last value>
    __perfmagic__.take()                             while __perfmagic__.turn():
                                                         for () in __perfmagic__.steps(0):
                                                             <body>
                                                 __perfmagic__.take()

`for () in` binds no name, and a round of it costs less than calling a compiled body. With `--vs` the lines `# --- name`
part the body into variants; they become literals like the head, and the repetitions take turns:

    with __perfmagic__.cell(head):
        for () in __perfmagic__.first():
            <A>
        for () in __perfmagic__.first():
            <B>; __perfmagic__.value = <last value>
        while __perfmagic__.turn():
            for () in __perfmagic__.steps(0):
                <A>
            for () in __perfmagic__.steps(1):
                <B>
    __perfmagic__.take()
"""

from __future__ import annotations

import ast
import copy
import re
import tokenize
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from perfmagic.capture.cell.marks import RUNTIME, call_at, located, marked
from perfmagic.errors import OptionError

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


def head_of(tree: ast.AST, names: Collection[str]) -> Head | None:
    """The head of a measured cell, None for any other tree."""
    body = getattr(tree, "body", None)
    if not isinstance(tree, ast.Module) or not body or not isinstance(body[0], ast.Expr):
        return None
    value = body[0].value
    return Head.parse(value.value, names) if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def wrap(tree: ast.Module, *, repeated: bool, interactivity: str = "last_expr", variants: bool = False) -> ast.Module:
    """The tree of a measured cell that runs its body under the runtime.

    interactivity: IPython's ast_node_interactivity, which decides what the plain cell would have shown.
    variants: whether separators part the body.
    Raises SyntaxError for a body that is no valid cell by itself: a `break` must not end the measuring loop.
    Raises OptionError for variants that are fewer than two, or empty.
    """
    literal, body = tree.body[0], list(tree.body[1:])
    _refuse_loose_jumps(body)
    parts = _parted(body) if variants else [body]
    body = [statement for part in parts for statement in part]
    future = [s for s in body if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    body = [s for s in body if s not in future]
    show_all = interactivity == "all"
    first, has_value = (body, False) if show_all else _store_last(body, interactivity)
    if repeated:
        parts[0] = [s for s in parts[0] if s not in future]
        inside = _in_turns(parts, first, literal, show_all=show_all)
    else:
        inside = marked(first) or [located(ast.Pass(), literal)]
    statements: list[ast.stmt] = [*future, _with(literal, inside)]
    if has_value:
        statements.append(call_at(body[-1], "take"))
    return ast.fix_missing_locations(ast.Module(statements, []))


def _parted(body: list[ast.stmt]) -> list[list[ast.stmt]]:
    """The statements between separators."""
    parts: list[list[ast.stmt]] = [[]]
    for statement in body:
        if _is_separator(statement):
            parts.append([])
        else:
            parts[-1].append(statement)
    if not parts[0] and len(parts) > 1:  # the first variant has a separator of its own, with its name
        del parts[0]
    if len(parts) < 2:
        raise OptionError(
            "--vs: the cell has one variant, two or more are compared",
            hint="part them by a line such as  # --- B  at the left edge",
        )
    empty = next((i for i, part in enumerate(parts) if not part), None)
    if empty is not None:
        raise OptionError(f"--vs: variant {empty + 1} of {len(parts)} has no code", hint="remove its separator")
    return parts


def _is_separator(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    is_text = isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str)
    return is_text and bool(_SEPARATOR.match(value.value))  # type: ignore[union-attr]


def _in_turns(
    parts: list[list[ast.stmt]], stored: list[ast.stmt], where: ast.stmt, *, show_all: bool
) -> list[ast.stmt]:
    """The first runs, and the loop in which the variants take turns.  stored: all of it, with its value parked."""
    n_before_last = sum(len(part) for part in parts[:-1])
    firsts = [*parts[:-1], stored[n_before_last:]]
    again = copy.deepcopy(parts)
    if show_all:
        again = [_without_display(part) for part in again]
    turns: list[ast.stmt] = [_loop("steps", part, where, number) for number, part in enumerate(again)]
    test = call_at(where, "turn").value
    loop = ast.copy_location(ast.While(test, turns, []), where)
    return [*(_loop("first", part, where) for part in firsts), loop]


def refusal(tree: ast.Module, message: str, *, method: str = "refuse") -> ast.Module:
    """A tree of one call: what stands in for a cell that is not to be measured, so that it is never run plain."""
    return ast.fix_missing_locations(ast.Module([call_at(tree.body[0], method, message)], []))


def _refuse_loose_jumps(body: list[ast.stmt]) -> None:
    """Let the compiler find what is illegal outside a loop, at the user's own line."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compile(ast.Module(copy.deepcopy(body), []), "<cell>", "exec", flags=flags, dont_inherit=True)


def _store_last(body: list[ast.stmt], interactivity: str) -> tuple[list[ast.stmt], bool]:
    """The body with its last value parked on the runtime instead of shown, and whether there is one."""
    last = body[-1] if body else None
    if isinstance(last, ast.Expr):
        return [*body[:-1], _park(last.value, last)], True
    if interactivity == "last_expr_or_assign" and (name := _assigned_name(last)):
        assert last is not None
        return [*body, _park(ast.Name(name, ast.Load()), last)], True
    return body, False


def _assigned_name(statement: ast.stmt | None) -> str | None:
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    is_assignment = isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign))
    return targets[0].id if is_assignment and isinstance(targets[0], ast.Name) else None


def _park(value: ast.expr, where: ast.stmt) -> ast.stmt:
    target = located(ast.Attribute(ast.Name(RUNTIME, ast.Load()), "value", ast.Store()), where)
    return ast.copy_location(ast.Assign([target], value), where)


def _without_display(body: list[ast.stmt]) -> list[ast.stmt]:
    """Under interactivity "all" every bare expression is shown; repetitions park theirs instead."""
    return [_park(s.value, s) if isinstance(s, ast.Expr) else s for s in body]


def _loop(method: str, body: list[ast.stmt], where: ast.stmt, *args: int) -> ast.stmt:
    items = call_at(where, method, *args).value
    target = located(ast.Tuple([], ast.Store()), where)
    return ast.copy_location(ast.For(target, items, body or [located(ast.Pass(), where)], []), where)


def _with(literal: ast.stmt, body: list[ast.stmt]) -> ast.stmt:
    assert isinstance(literal, ast.Expr)
    manager = call_at(literal, "cell").value
    assert isinstance(manager, ast.Call)
    manager.args = [literal.value]
    return ast.copy_location(ast.With([ast.withitem(manager, None)], body), literal)
