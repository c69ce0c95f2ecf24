"""A measured cell as tree: the head's literal becomes the measuring `with` around the body. No IPython.

The body stays inline in the user's own frame, so tracebacks, `await`, and name lookup are the plain cell's. Below, `pm`
stands for `__perfmagic__`. released() gives back what an interrupt at the end of cell() left; it stands there twice, as
a second interrupt may come meanwhile.

    once                                                     repeated
    with pm.released(), pm.released(), pm.cell(head):        with pm.released(), pm.released(), pm.cell(head):
        <body, marked>                                           for () in pm.first():
        pm.value = <last value>                                      <body>; pm.value = <last value>
        pm.display()
    pm.take()                                                    while pm.more():
                                                                     for () in pm.repetitions(0):
                                                                         <body>
                                                             pm.take()

`for () in` binds no name, and a round of it costs less than calling a compiled body. With `--vs` the repetitions of the
variants are interleaved:

    with pm.released(), pm.released(), pm.cell(head):
        for () in pm.first():
            <A>
        for () in pm.first():
            <B>; pm.value = <last value>
        while pm.more():
            for () in pm.repetitions(0):
                <A>
            for () in pm.repetitions(1):
                <B>
    pm.take()
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Any

from perfmagic.capture.cell.marks import RUNTIME, call_at, located, marked
from perfmagic.capture.cell.source import Head, is_separator
from perfmagic.errors import OptionError


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
    return is_text and is_separator(value.value)  # type: ignore[union-attr]


def _interleaved(
    parts: list[list[ast.stmt]], stored: list[ast.stmt], where: ast.stmt, *, show_all: bool
) -> list[ast.stmt]:
    """The first runs, and the loop that interleaves the variants.  stored: all of it, with its value parked."""
    n_before_last = sum(len(part) for part in parts[:-1])
    firsts = [*parts[:-1], stored[n_before_last:]]
    again = [_copies(part) for part in parts]
    if show_all:
        again = [_without_display(part) for part in again]
    repeated: list[ast.stmt] = [_loop("repetitions", part, where, number) for number, part in enumerate(again)]
    test = call_at(where, "more").value
    loop = ast.copy_location(ast.While(test, repeated, []), where)
    return [*(_loop("first", part, where) for part in firsts), loop]


def refusal(tree: ast.Module, message: str, *, method: str = "refuse") -> ast.Module:
    """A tree of one call: what stands in for a cell that is not to be measured, so that it is never run plain."""
    return ast.fix_missing_locations(ast.Module([call_at(tree.body[0], method, message)], []))


def _copies(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements once more, as new nodes.

    Not by copy.deepcopy: CPython shares a context (`ast.Load()`) among all trees, and what shows tracebacks (IPython's
    `executing`) gives each node a `parent`. A copy of `y = x` then holds a whole file of somebody else: 0.3 s a cell.
    """
    return [_copied(statement) for statement in body]


def _copied(node: Any) -> Any:
    if isinstance(node, list):
        return [_copied(one) for one in node]
    if not isinstance(node, ast.AST) or isinstance(node, ast.expr_context):
        return node
    return ast.copy_location(type(node)(**{name: _copied(value) for name, value in ast.iter_fields(node)}), node)


def _refuse_loose_jumps(body: list[ast.stmt]) -> None:
    """Let the compiler find what is illegal outside a loop, at the user's own line."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compile(ast.Module(_copies(body), []), "<cell>", "exec", flags=flags, dont_inherit=True)


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
    *released, cell = (call_at(literal, method).value for method in ("released", "released", "cell"))
    assert isinstance(cell, ast.Call)
    cell.args = [literal.value]
    managers = [ast.withitem(manager, None) for manager in (*released, cell)]
    return ast.copy_location(ast.With(managers, body), literal)
