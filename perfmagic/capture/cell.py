"""A measured cell as tree: the head's literal becomes the measuring `with` around the body. No IPython.

The body stays inline in the user's own frame, so tracebacks, `await`, and name lookup are the plain cell's. Below, `pm`
stands for `__perfmagic__`. released() gives back what an interrupt at the end of cell() left; it stands there twice, as
a second interrupt may come meanwhile.

    once                                                     repeated
    with pm.released(), pm.released(), pm.cell(head):        with pm.released(), pm.released(), pm.cell(head):
        <body, marked>                                           for () in pm.first():
        pm.value = pm.ran(<last value>)                              <body>; pm.value = pm.ran(<last value>)
        pm.display()
    pm.take()                                                    while pm.more():
                                                                     for () in pm.repetitions(0):
                                                                         <body>
                                                             pm.take()

ran() gives the value back, and refuses a coroutine: its code has not run. `for () in` binds no name; a round of it
costs less than calling a compiled body. With `--vs` the repetitions of the variants are interleaved:

    with pm.released(), pm.released(), pm.cell(head):
        for () in pm.first():
            <A>; pm.ran(<last value>)
        for () in pm.first():
            <B>; pm.value = pm.ran(<last value>)
        while pm.more():
            for () in pm.repetitions(0):
                <A>
            for () in pm.repetitions(1):
                <B>
    pm.take()
"""

from __future__ import annotations

import ast
import itertools
import re
import tokenize
from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from perfmagic.base.clock import reader
from perfmagic.base.errors import OptionError

# Which line of the cell was running, and when: marks put before its statements.

RUNTIME = "__perfmagic__"  # the one name the instrumented cell refers to; it lives in builtins, never in user_ns
INNER_MARKS_LIMIT = 100_000  # of statements inside loops: 2.4 MB; then only top level

_BLOCKS = ("body", "orelse", "finalbody")
_COMPOUND: tuple[type[ast.stmt], ...] = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try)
_COMPOUND += tuple(getattr(ast, name) for name in ("TryStar", "Match") if hasattr(ast, name))
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_NOTHING_RUNS = (ast.Global, ast.Nonlocal, ast.Pass, ast.Break, ast.Continue)


def marked(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements with a mark before each; those inside loops and branches are marked in place."""
    out: list[ast.stmt] = []
    for statement in body:
        out.append(call_at(statement, "mark", statement.lineno))
        _mark_inside(statement, statement.lineno)
        out.append(statement)
    return out


def call_at(where: ast.stmt, method: str, *args: int | str) -> ast.Expr:
    """The statement `__perfmagic__.method(*args)`, located where another statement stands."""
    target = ast.Attribute(ast.Name(RUNTIME, ast.Load()), method, ast.Load())
    call: ast.Expr = located(ast.Expr(ast.Call(target, [ast.Constant(a) for a in args], [])), where)
    return call


def located(new: Any, where: ast.stmt | ast.expr) -> Any:
    """Give a new node and all below it the place of an existing one's first line, for tracebacks.

    Not its last line, too: CPython counts a call that spans lines to the last one. A line tracer would see a loop go
    from its first line to its last and back.
    """
    node: Any
    for node in ast.walk(new):
        ast.copy_location(node, where)
        if where.end_lineno != where.lineno:
            node.end_lineno, node.end_col_offset = where.lineno, where.col_offset
    return new


def _mark_inside(statement: ast.stmt, top_line: int) -> None:
    if not isinstance(statement, _COMPOUND):
        return
    for block in _BLOCKS:
        if inner := getattr(statement, block, None):
            setattr(statement, block, _marked_block(inner, top_line))
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        part.body = _marked_block(part.body, top_line)
    if isinstance(statement, _LOOPS):  # the header runs again after the body: fetching the next item is its work
        statement.body.append(call_at(statement, "inner", statement.lineno, top_line))


def _marked_block(block: list[ast.stmt], top_line: int) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for statement in block:
        if not isinstance(statement, _NOTHING_RUNS):
            out.append(call_at(statement, "inner", statement.lineno, top_line))
            _mark_inside(statement, top_line)
        out.append(statement)
    return out


LEAST_WAIT_NS = 1_000_000  # between two marks: reading the scheduler takes 3 µs, and shorter waits explain little


class MarkLog:
    """Collects marks, one call and no object kept for each."""

    def __init__(self, now_ns: Callable[[], int] | None = None, inner_limit: int = INNER_MARKS_LIMIT) -> None:
        self._rows = array("q")
        self._waited_ns, self._last_ns = 0, 0
        self._read_waited_ns: Callable[[], int] | None = None
        self._now_ns = now_ns or reader()
        self._inner_left = inner_limit
        self.inner_dropped = False
        self.when_full: Callable[[], None] = lambda: None  # called once, at the first mark that is not kept

    def mark(self, line: int) -> None:
        """A top-level statement at this line starts now."""
        self._add(self._now_ns(), line, line)

    def inner(self, line: int, top_line: int) -> None:
        """A statement inside the top-level statement at top_line starts now."""
        if self._inner_left > 0:
            self._inner_left -= 1
            self._add(self._now_ns(), line, top_line)
        elif not self.inner_dropped:
            self.inner_dropped = True  # what follows counts to the whole statement
            self._add(self._now_ns(), top_line, top_line)
            self.when_full()

    def _add(self, now_ns: int, line: int, top_line: int) -> None:
        if self._read_waited_ns is not None and now_ns - self._last_ns >= LEAST_WAIT_NS:
            self._waited_ns = self._read_waited_ns()
        self._last_ns = now_ns
        self._rows.extend((now_ns, line, top_line, self._waited_ns))

    def read_by(self, now_ns: Callable[[], int], waited_ns: Callable[[], int] | None = None) -> None:
        """Read another clock from now on: the process may have got it since this was made.

        waited_ns: how long this thread has waited for a core; None where that is not known.
        """
        self._now_ns, self._read_waited_ns = now_ns, waited_ns
        self._waited_ns = waited_ns() if waited_ns else 0

    def columns(self, offset_ns: int, end_ns: int) -> dict[str, Any]:
        """The marks as LineMarks columns, shifted by offset_ns, closed by a line 0 at end_ns (already shifted)."""
        import numpy as np  # here, because %load_ext needs this module and must stay light

        rows = np.array(self._rows, np.int64).reshape(-1, 4)
        close = np.array([[end_ns - offset_ns, 0, 0, self._waited_ns]], np.int64)
        rows = np.concatenate((rows, close)) if len(rows) else rows
        names = ("line", "top_line", "waited_ns")
        return {"at_ns": rows[:, 0] + offset_ns, **dict(zip(names, rows.T[1:], strict=True))}


# A measured cell as source: its head line, the lines that part its variants, and the text as typed. No IPython.

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
        refusing_line = f"{RUNTIME}.refuse_stacked({head.name!r}, {lines[below].split()[0]!r})\n"
        return [*lines[:first], refusing_line]
    below_head = lines[first + 1 :]
    if _VS.search(head.line):
        separators = _separators(below_head)
        below_head = [f"{line.rstrip()!r}\n" if i in separators else line for i, line in enumerate(below_head)]
    return [*lines[:first], head.literal() + "\n", *below_head]


def _separators(lines: Sequence[str]) -> set[int]:
    """Which lines part variants: a comment `# --- name` at the left edge, between two statements.

    Not one in a string, in brackets or in a block. Below something that Python cannot read every such line counts.
    """
    looks_so = {i for i, line in enumerate(lines) if _SEPARATOR.match(line.rstrip())}
    if not looks_so:
        return looks_so
    readable = ("\n" if line[:1] in ("%", "!") else line.rstrip("\n") + "\n" for line in lines)
    separators: set[int] = set()
    waiting: set[int] = set()  # until what follows them shows whether the block has ended
    depth, row = 0, -1
    try:
        for token in tokenize.generate_tokens(lambda: next(readable, "")):
            row = token.start[0] - 1
            if token.type == tokenize.COMMENT and depth == 0 and row in looks_so:
                waiting.add(row)
            elif token.type not in _NO_CODE:
                if token.start[1] == 0 and token.string not in _GOES_ON:
                    separators |= waiting
                waiting = set()
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
    except (tokenize.TokenError, SyntaxError):
        separators |= waiting | {i for i in looks_so if i > row}
    return separators


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
    names = [match[1] for row in rows if (match := _SEPARATOR.match(lines[row].rstrip()))]
    if not rows or any(_is_code(line) for line in lines[: rows[0]]):
        names.insert(0, first)
    return [name or chr(ord("A") + i) for i, name in enumerate(names)]


def assigned_in_all(source: str) -> tuple[str, ...]:
    """The names that every variant of a cell assigns, outside of functions: what the variants are to give alike."""
    lines = below_head(source).splitlines()
    rows = [-1, *sorted(_separators(lines)), len(lines)]
    parts = ["\n".join(lines[start + 1 : end]) for start, end in itertools.pairwise(rows)]
    if not any(map(_is_code, parts[0].splitlines())):
        parts = parts[1:]
    try:
        nodes = [[*ast.walk(ast.parse(part))] for part in parts]
    except SyntaxError:  # lines of magics
        return ()
    each = [{n.id for n in some if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} for some in nodes]
    return tuple(sorted(set.intersection(*each))) if each else ()


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
    # let the compiler find what is illegal outside a loop, at the user's own line
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compile(ast.Module(_copies(body), []), "<cell>", "exec", flags=flags, dont_inherit=True)
    parts = _parted(body) if variants else [body]
    body = [statement for part in parts for statement in part]
    future = [s for s in body if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    body = [s for s in body if s not in future]
    show_all = interactivity == "all"
    first, has_value = (body, False) if show_all else _store_last(body, interactivity)
    if repeated:
        parts[0] = [s for s in parts[0] if s not in future]
        inside = _interleaved(parts, first, literal, show_all=show_all)
    else:
        inside = marked(first) or [located(ast.Pass(), literal)]
        if has_value:
            inside.append(call_at(body[-1], "display"))
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
        message = "--vs: the cell has one variant, two or more are compared"
        raise OptionError(message, hint="separate them by a line such as  # --- B  at the left edge")
    empty = next((i for i, part in enumerate(parts) if not part), None)
    if empty is not None:
        raise OptionError(f"--vs: variant {empty + 1} of {len(parts)} has no code", hint="remove its separator")
    return parts


def _is_separator(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    is_text = isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str)
    return is_text and bool(_SEPARATOR.match(value.value))  # type: ignore[union-attr]


def _interleaved(
    parts: list[list[ast.stmt]], stored: list[ast.stmt], where: ast.stmt, *, show_all: bool
) -> list[ast.stmt]:
    """The first runs, and the loop that interleaves the variants.  stored: all of it, with its value parked."""
    n_before_last = sum(len(part) for part in parts[:-1])
    firsts = [*map(_last_seen, parts[:-1]), stored[n_before_last:]]
    again = [_copies(part) for part in parts]
    if show_all:
        again = [[_park(s.value, s) if isinstance(s, ast.Expr) else s for s in part] for part in again]
    repeated: list[ast.stmt] = [_loop("repetitions", part, where, number) for number, part in enumerate(again)]
    test = call_at(where, "more").value
    loop = ast.copy_location(ast.While(test, repeated, []), where)
    return [*(_loop("first", part, where) for part in firsts), loop]


def call_instead(tree: ast.Module, message: str, *, method: str = "refuse") -> ast.Module:
    """A tree of one call, in place of a cell that cannot be measured and must not run plain."""
    return ast.fix_missing_locations(ast.Module([call_at(tree.body[0], method, message)], []))


def printed_once(tree: ast.Module, names: Collection[str]) -> ast.Module:
    """The tree of a plain cell; `pm.printed()` is around a line magic of those names that ends it."""
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr) and isinstance(call := last.value, ast.Call) and call.args:
        name = getattr(call.args[0], "value", None)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "run_line_magic" and name in names:
            last.value = _passed("printed", call)
            ast.fix_missing_locations(tree)
    return tree


def _copies(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements once more, as new nodes.

    Not by copy.deepcopy: CPython shares a context (`ast.Load()`) among all trees, and what shows tracebacks (IPython's
    `executing`) gives each node a `parent`. A copy of `y = x` then holds a whole foreign file: 0.3 s per cell.
    """
    return [_copied(statement) for statement in body]


def _copied(node: Any) -> Any:
    if isinstance(node, list):
        return [_copied(child) for child in node]
    if not isinstance(node, ast.AST) or isinstance(node, ast.expr_context):
        return node
    return ast.copy_location(type(node)(**{name: _copied(value) for name, value in ast.iter_fields(node)}), node)


def _store_last(body: list[ast.stmt], interactivity: str) -> tuple[list[ast.stmt], bool]:
    """The body with its last value parked on the runtime instead of shown, and whether there is one."""
    last = body[-1] if body else None
    if isinstance(last, ast.Expr):
        return [*body[:-1], _park(_passed("ran", last.value), last)], True
    if interactivity == "last_expr_or_assign" and (name := _assigned_name(last)):
        assert last is not None
        return [*body, _park(ast.Name(name, ast.Load()), last)], True
    return body, False


def _last_seen(body: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a variant whose value is not shown, with that value looked at."""
    last = body[-1]
    return (
        [*body[:-1], ast.copy_location(ast.Expr(_passed("ran", last.value)), last)]
        if isinstance(last, ast.Expr)
        else body
    )


def _passed(method: str, value: ast.expr) -> ast.expr:
    """`__perfmagic__.method(value)`, at the value's own place: an error inside it points there."""
    function = located(ast.Attribute(ast.Name(RUNTIME, ast.Load()), method, ast.Load()), value)
    return ast.copy_location(ast.Call(function, [value], []), value)


def _assigned_name(statement: ast.stmt | None) -> str | None:
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    is_assignment = isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign))
    return targets[0].id if is_assignment and isinstance(targets[0], ast.Name) else None


def _park(value: ast.expr, where: ast.stmt) -> ast.stmt:
    target = located(ast.Attribute(ast.Name(RUNTIME, ast.Load()), "value", ast.Store()), where)
    return ast.copy_location(ast.Assign([target], value), where)


def _loop(method: str, body: list[ast.stmt], where: ast.stmt, *args: int) -> ast.stmt:
    items = call_at(where, method, *args).value
    target = located(ast.Tuple([], ast.Store()), where)
    return ast.copy_location(ast.For(target, items, body or [located(ast.Pass(), where)], []), where)


def _with(literal: ast.stmt, body: list[ast.stmt]) -> ast.stmt:
    assert isinstance(literal, ast.Expr)
    *released, cell = (call_at(literal, method).value for method in ("released", "released", "cell"))
    assert isinstance(cell, ast.Call)
    cell.args = [literal.value]
    managers = [ast.withitem(manager, None) for manager in (*released, cell)]
    return ast.copy_location(ast.With(managers, body), literal)
