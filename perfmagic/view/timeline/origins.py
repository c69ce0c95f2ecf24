"""Where device ops come from, in words for the card of an op: operator, inputs, module, the user's own frame."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline.origin import frames, modules, origins
from perfmagic.numerics.grouped import coded
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.work.inputs import Inputs, dtype_words, shape_words

MOST_INPUTS = 120  # characters
_FRAME = re.compile(r"(?P<file>[^()]+\.pyx?)\((?P<line>\d+)\): (?P<function>.+)")
_FOLDER = re.compile(r".*[\\/]")


@dataclass(frozen=True, eq=False)
class OriginWords:
    """The origins that occur, and which one each device op has.

    rows: operator, inputs, module and frame, each "" where it is not recorded.  of_op: row of rows, NONE for none;
    shape of trace.ops.
    """

    rows: tuple[tuple[str, str, str, str], ...]
    of_op: Int64


def origin_words(trace: Trace) -> OriginWords:
    """Who launched each op, with which inputs, in which module and from where in the user's code; each origin once."""
    host, launched_by = trace.host_ops, origins(trace).host_op
    module, frame = modules(trace), frames(trace)
    known = launched_by != NONE
    columns = [np.full(len(trace.ops), NONE, np.int64) for _ in range(3)]
    for column, of_host in zip(columns, (host.name, host.shape, host.dtype), strict=True):
        column[known] = of_host[launched_by[known]]
    places = [module.row.astype(np.int64), frame.row.astype(np.int64)]
    key = np.zeros(len(trace.ops), np.int64)
    for column in (*columns, *places):  # each pair of codes becomes one code: no product of sizes can overflow
        _, code = coded(column)
        _, key = coded(key * (int(code.max(initial=0)) + 1) + code)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    words = [
        (
            trace.names[columns[0][op]] if known[op] else "",
            _inputs(trace, int(columns[1][op]), int(columns[2][op])),
            module.words[module.row[op]] if module.row[op] != NONE else "",
            frame_words(frame.words[frame.row[op]]) if frame.row[op] != NONE else "",
        )
        for op in first.tolist()
    ]
    said: dict[tuple[str, str, str, str], int] = {}
    row = [said.setdefault(one, len(said)) if any(one) else NONE for one in words]
    return OriginWords(tuple(said), np.array(row, np.int64)[which] if row else np.zeros(0, np.int64))


def _inputs(trace: Trace, shape: int, dtype: int) -> str:
    """The shapes and types of an operator's tensors: "[64, 128] [128, 32] bf16"."""
    if shape == NONE:
        return ""
    inputs = Inputs.read(trace.input_shapes[shape], trace.input_dtypes[dtype] if dtype != NONE else None)
    types = dtype_words([one for _, one in inputs.tensors])
    words = " ".join(filter(None, (shape_words(inputs.shapes), types)))
    return words if len(words) <= MOST_INPUTS else f"{words[: MOST_INPUTS - 1]}…"


def frame_words(frame: str) -> str:
    """A Python frame without the folders: "/home/me/train.py(12): step" → "step, train.py line 12"."""
    found = _FRAME.fullmatch(frame)
    if found is None:
        return frame
    return f"{found['function']}, {_FOLDER.sub('', found['file'])} line {found['line']}"
