"""Where device ops come from, in words for the card of an op: operator, inputs, the user's own frame."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

from perfmagic.numerics.grouped import coded
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.hoststack import nested, operator_stack
from perfmagic.trace.model import Trace

MOST_INPUTS = 120  # characters
_FOLDER = re.compile(r".*[\\/]")
_FRAME = re.compile(r"(?P<file>[^()]+\.pyx?)\((?P<line>\d+)\): (?P<function>.+)")
# Frames of the interpreter, of installed packages and of what compilers wrote are not the user's own.
_LIBRARY = re.compile(
    r"site-packages|dist-packages|(?:^|[\\/])(?:torch|triton)[\\/]|torchinductor|^<|[\\/]python3\.\d+[\\/]"
)


@dataclass(frozen=True, eq=False)
class OpOrigins:
    """The origins that occur, and which one each device op has.

    words: operator, inputs and frame, each "" where it is not recorded.  of_op: row of words, NONE for none; shape of
    trace.ops.
    """

    words: tuple[tuple[str, str, str], ...]
    of_op: Int64


def op_origins(trace: Trace) -> OpOrigins:
    """The innermost operator around each op's launch, with its inputs, and the innermost frame of the user's code."""
    launched = np.flatnonzero(trace.ops.launch != NONE)
    calls, inverse = np.unique(trace.ops.launch[launched], return_inverse=True)
    host = trace.host_ops
    operator = operator_stack(trace).innermost_at(trace.calls.thread[calls], trace.calls.start_ns[calls])
    known = operator != NONE
    name, shape, frame = (np.full(len(calls), NONE, np.int64) for _ in range(3))
    name[known], shape[known] = host.name[operator[known]], host.shape[operator[known]]
    frame[:] = _frames(trace, calls)
    n_names, n_shapes = len(trace.names) + 1, len(trace.input_shapes) + 1
    key = ((name + 1) * n_shapes + shape + 1) * n_names + frame + 1
    unique, which = coded(key)
    words = [
        _words(trace, k // n_names // n_shapes - 1, k // n_names % n_shapes - 1, k % n_names - 1)
        for k in unique.tolist()
    ]
    of_op = np.full(len(trace.ops), NONE, np.int64)
    of_op[launched] = which[inverse]
    said = np.array([any(row) for row in words], bool)
    if words:
        of_op[(of_op != NONE) & ~said[of_op]] = NONE
    return OpOrigins(tuple(words), of_op)


def _words(trace: Trace, name: int, shape: int, frame: int) -> tuple[str, str, str]:
    return (
        trace.names[name] if name != NONE else "",
        input_words(trace.input_shapes[shape]) if shape != NONE else "",
        frame_words(trace.names[frame]) if frame != NONE else "",
    )


def input_words(shapes: str) -> str:
    """The shapes of an operator's tensors, as people write them; what is no tensor is left out.

    >>> input_words("[[64, 128], [], [128, 256], [[2], [3]]]")
    '[64, 128], [128, 256], [[2], [3]]'
    """
    try:
        found = json.loads(shapes)
    except ValueError:
        return shapes[:MOST_INPUTS]
    said = ", ".join(filter(None, map(_shape, found if isinstance(found, list) else [])))
    return said if len(said) <= MOST_INPUTS else f"{said[: MOST_INPUTS - 1]}…"


def _shape(one: object) -> str:
    if not isinstance(one, list) or not one:
        return ""
    tensors = any(isinstance(part, list) for part in one)  # a list of them
    return f"[{', '.join(filter(None, map(_shape if tensors else str, one)))}]"


def frame_words(frame: str) -> str:
    """A Python frame without the folders: "/home/me/train.py(12): step" → "step, train.py line 12"."""
    found = _FRAME.fullmatch(frame)
    if found is None:
        return frame
    return f"{found['function']}, {_FOLDER.sub('', found['file'])} line {found['line']}"


def _frames(trace: Trace, calls: Int64) -> Int64:
    """The name of the innermost frame of the user's code around each call, NONE for none; shape of calls."""
    result = np.full(len(calls), NONE, np.int64)
    if not len(trace.python_frames) or not len(calls):
        return result
    at = trace.calls.start_ns[calls]
    table = trace.python_frames.running_at(at)
    own = np.array([bool(_FRAME.fullmatch(n)) and not _LIBRARY.search(n) for n in trace.names], bool)
    found = nested(table, own[table.name]).innermost_at(trace.calls.thread[calls], at)
    result[found != NONE] = table.name[found[found != NONE]]
    return result
