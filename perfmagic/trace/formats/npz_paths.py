"""The lines of functions in an .npz file: columns as arrays, the rest as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from perfmagic.trace.columns import PathMarks
from perfmagic.trace.paths import Paths, UserFunction

_PATHS = {"parent": np.int32, "function": np.int32, "line": np.int32}
_MARKS = {"at_ns": np.int64, "thread": np.int64, "path": np.int64}


def path_arrays(paths: Paths | None) -> dict[str, Any]:
    """The columns by the names they have in a file; none without paths."""
    if paths is None:
        return {}
    columns = {f"paths.{name}": getattr(paths, name) for name in _PATHS}
    return columns | {f"path_marks.{name}": getattr(paths.marks, name) for name in _MARKS}


def about_paths(paths: Paths | None) -> dict[str, Any] | None:
    """The rest, ready for JSON."""
    if paths is None:
        return None
    functions = [asdict(function) for function in paths.functions]
    return {
        "functions": functions,
        "main_thread": paths.main_thread,
        "until_ns": paths.until_ns,
        "let_go": list(paths.let_go),
    }


def paths_from(about: dict[str, Any] | None, arrays: dict[str, Any]) -> Paths | None:
    """What was saved; None where lines were not followed. Raises ValueError for columns that do not fit together."""
    if about is None:
        return None
    columns = {name: np.asarray(arrays[f"paths.{name}"], dtype) for name, dtype in _PATHS.items()}
    marks = {name: np.asarray(arrays[f"path_marks.{name}"], dtype) for name, dtype in _MARKS.items()}
    n, n_functions = len(columns["parent"]), len(about["functions"])
    rows = np.arange(n)
    fits = (
        n > 0
        and len({len(column) for column in columns.values()}) == 1
        and columns["parent"][0] == 0
        and (columns["parent"] >= 0).all()
        and (columns["parent"][1:] < rows[1:]).all()
        and (columns["function"][1:] >= 0).all()
        and (columns["function"] < n_functions).all()
        and ((marks["path"] >= 0) & (marks["path"] < n)).all()
    )
    if not fits:
        raise ValueError("the paths of lines point outside of their tables")
    for column in columns.values():
        column.flags.writeable = False
    return Paths(
        **columns,
        functions=tuple(_function(one) for one in about["functions"]),
        marks=PathMarks.make(marks),
        main_thread=int(about["main_thread"]),
        until_ns=int(about["until_ns"]),
        let_go=tuple(map(int, about["let_go"])),
    )


def _function(saved: dict[str, Any]) -> UserFunction:
    texts = tuple((int(line), str(text)) for line, text in saved["texts"])
    return UserFunction(**(saved | {"texts": texts}))
