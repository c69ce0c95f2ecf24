"""Where each device op comes from: the operator that launched it, with its inputs, module and user frame.

An op belongs to the innermost recorded operator around its launch: aten::addmm rather than the aten::linear it was
called for. Some things people know by another name: what the inner operators of attention launch belongs to
aten::_scaled_dot_product_…, a kernel of torch.compile that has no operator of its own to its own name, and the ops of
a graph to the graph.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmagic.base.language import Words, counted, phrase
from perfmagic.base.numerics.intervals import coded, distinct
from perfmagic.trace.columns import NONE, Bool, HostOps, Int8, Int32, Int64, constant
from perfmagic.trace.hoststack import HostStack, launching_operators, nested, operator_stack
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.names import kernel_short_names
from perfmagic.trace.rows import names_at

# Kineto writes torch.nn modules as Python frames of this form, numbered by class
MODULE = re.compile(r"nn\.Module: (.+)")
_GRAPH_LAUNCH = re.compile(r"GraphLaunch")
_ENGINE = "autograd::engine::evaluate_function: "  # the autograd engine's frame around what it calls
_FUSED_ATTENTION = re.compile(r"aten::_(?:flash|efficient|cudnn)_attention_(?:forward|backward)")
_SDPA = re.compile(r"aten::_scaled_dot_product_\w+_attention")
_TRITON = re.compile(r"triton_")
_LIBRARY_FRAME = re.compile(
    r"site-packages|dist-packages|(?:^|[\\/])(?:torch|triton)[\\/]|torchinductor|^<|built-in|lib[\\/]python3|^nn\.Module"
    r"|^(?:threading|runpy|contextlib|functools)\.py"
)
_FILE_FRAME = re.compile(r"\.pyx?\(\d+\): ")


class Source(enum.IntEnum):
    """What a device op is charged to."""

    OPERATOR = 0  # the recorded operator that launched it
    GRAPH = 1  # the graph whose launch carried it
    KERNEL = 2  # its own name: it was launched, and no operator was recorded around the launch
    UNKNOWN = 3  # its own name: its launch was not recorded


@dataclass(frozen=True, eq=False)
class Origins:
    """Of each device op, in the order of trace.ops, where it comes from.

    source: a Source.  name: row of `names`.  host_op: row of trace.host_ops, NONE where no operator launched it.
    launch: as in trace.ops.  graph_ops: how many ops the
    launch carried, 0 where it is no graph.
    """

    names: tuple[str, ...]
    source: Int8
    name: Int32
    host_op: Int32
    launch: Int64
    graph_ops: Int32

    def calls(self, rows: Int32) -> Int64:
        """What is one call of the operator, graph or kernel, for some ops: equal numbers, one call; shape of rows."""
        # counted apart: operators, launches of graphs, and kernels, of which each is a call of its own
        graph = rows[self.source[rows] == Source.GRAPH]
        call = 3 * rows.astype(np.int64) + 2
        call[self.source[rows] == Source.GRAPH] = 3 * self.launch[graph].astype(np.int64) + 1
        known = self.host_op[rows] != NONE
        call[known] = 3 * self.host_op[rows[known]].astype(np.int64)
        return call


@once_per_trace
def origins(trace: Trace) -> Origins:
    """Which operator, graph or kernel each device op is charged to."""
    ops = trace.ops
    host_op = _known_as(trace, operator_stack(trace), launching_operators(trace))
    graph_ops = graph_sizes(trace)
    launched = ops.launch != NONE
    known = (host_op != NONE) & (graph_ops == 0)
    known &= ~_compiled_alone(trace, host_op, known)
    source = np.where(graph_ops > 0, Source.GRAPH, np.where(known, Source.OPERATOR, Source.KERNEL))
    source = np.where(launched, source, Source.UNKNOWN).astype(np.int8)
    names, name = _Names(), np.zeros(len(ops), np.int32)
    name[known] = names.rows(trace.host_ops.name[host_op[known]], lambda row: trace.names[row].removeprefix(_ENGINE))
    graph = source == Source.GRAPH
    graphs = _graph_names(trace, graph)
    name[graph] = names.rows(ops.launch[graph], graphs.__getitem__)
    own = (source == Source.KERNEL) | (source == Source.UNKNOWN)
    short = kernel_short_names(trace)
    name[own] = names.rows(ops.name[own], lambda row: short[trace.names[row]])
    charged = host_op if (known == (host_op != NONE)).all() else np.where(known, host_op, NONE).astype(np.int32)
    return Origins(tuple(names.known), source, name, charged, ops.launch, graph_ops)


def launched_from(trace: Trace) -> dict[str, npt.NDArray[Any]]:
    """The operator, module and frame that each device op was launched in, by name, None for none; shape of ops."""
    origin, module, frame = origins(trace), modules(trace), frames(trace)
    operator = np.where(origin.host_op != NONE, origin.name, NONE)
    return {
        "operator": names_at(origin.names, operator.astype(np.int64)),
        "module": names_at(module.words, module.row.astype(np.int64)),
        "frame": names_at(frame.words, frame.row.astype(np.int64)),
    }


@dataclass(frozen=True, eq=False)
class Places:
    """A place in the user's program for each device op: row of words, NONE where none was recorded; shape of ops."""

    words: tuple[str, ...]
    row: Int32


def modules(trace: Trace) -> Places:
    """The innermost torch.nn module that was running where each op was launched, as "Linear_0".

    None for what autograd's own thread launches: a module is a Python frame, and that thread has none.
    """
    return _places(trace)[0]


def frames(trace: Trace) -> Places:
    """The innermost Python frame of the user's own code where each op was launched: no library's, none built in.

    As the record has it: "train.py(3): step".
    """
    return _places(trace)[1]


def is_user_frame(name: str) -> bool:
    """Whether a Python frame's name is of a file that is not part of Python, torch or another installed package."""
    return _FILE_FRAME.search(name) is not None and _LIBRARY_FRAME.search(name) is None


@once_per_trace
def _places(trace: Trace) -> tuple[Places, Places]:
    """Modules and frames of the user's own code: both from the Python frames that ran where something was launched."""
    nowhere = Places((), np.broadcast_to(np.int32(NONE), len(trace.ops)))
    if not len(trace.python_frames) or not len(trace.calls):
        return nowhere, nowhere
    around = trace.python_frames.running_at(trace.calls.start_ns[distinct(trace.ops.launch[trace.ops.launch != NONE])])
    names = {row: trace.names[row] for row in distinct(around.name).tolist()}
    is_module = {row: found[1] for row, name in names.items() if (found := MODULE.fullmatch(name))}
    is_user = {row: name for row, name in names.items() if is_user_frame(name)}
    return _running(trace, around, is_module), _running(trace, around, is_user)


def _running(trace: Trace, around: HostOps, words: Mapping[int, str]) -> Places:
    """The innermost Python frame with words around each launch. around: the frames; words: of names that count."""
    frames_with_words = around.select(np.isin(around.name, list(words)))
    if not len(frames_with_words):
        return Places((), np.broadcast_to(np.int32(NONE), len(trace.ops)))
    at = nested(frames_with_words).innermost_at(trace.calls.thread, trace.calls.start_ns)
    number = np.full(len(trace.names), NONE, np.int32)
    number[list(words)] = np.arange(len(words))
    name = np.where(at != NONE, number[frames_with_words.name[at]], NONE)
    row = np.where(trace.ops.launch != NONE, name[trace.ops.launch], NONE).astype(np.int32)
    return Places(tuple(words.values()), row)


def _known_as(trace: Trace, stack: HostStack, rows: Int32) -> Int32:
    """The rows, those of attention's inner operators replaced by the one around."""
    inner = _named(trace, _FUSED_ATTENTION)[trace.host_ops.name]
    if not inner.any():
        return rows
    outer = _named(trace, _SDPA)[trace.host_ops.name]
    parent = stack.parents()
    above = np.where(rows != NONE, parent[rows], NONE).astype(np.int32)
    replaced = (rows != NONE) & (above != NONE) & inner[rows] & outer[above]
    return np.where(replaced, above, rows)


def _named(trace: Trace, pattern: re.Pattern[str]) -> Bool:
    return np.array([pattern.match(name) is not None for name in trace.names], bool)


@once_per_trace
def graph_sizes(trace: Trace) -> Int32:
    """How many ops the graph launch of each op carried, 0 where it was no graph launch; shape of ops."""
    is_graph = np.array([_GRAPH_LAUNCH.search(name) is not None for name in trace.names], bool)
    launch = trace.ops.launch
    if not is_graph.any() or not len(trace.calls):
        return constant(len(launch), 0, np.int32)
    in_graph = (launch != NONE) & is_graph[trace.calls.name[launch]]
    sizes = np.zeros(len(launch), np.int32)
    sizes[in_graph] = np.bincount(launch[in_graph], minlength=len(trace.calls))[launch[in_graph]]
    return sizes


def describe_graph(size: int) -> Words:
    """A graph by its size: "graph of 421 ops"."""
    return counted(size, "graph of {n} op", "graph of {n} ops")


def _graph_names(trace: Trace, graph: Bool) -> dict[int, str]:
    """The name of each launch's graph: "graph of 421 ops", numbered where others have as many.  graph: which ops."""
    launch, name = trace.ops.launch[graph], trace.ops.name[graph]
    order = np.lexsort((name, launch))  # by name: streams may start a graph's ops in another order
    calls, first = np.unique(launch[order], return_index=True)
    held = np.split(name[order], first[1:]) if len(calls) else []
    of_launch = {call: names.tobytes() for call, names in zip(calls.tolist(), held, strict=True)}
    alike: dict[int, list[bytes]] = {}
    for content in dict.fromkeys(of_launch.values()):
        alike.setdefault(len(content) // name.itemsize, []).append(content)
    graph_names = {
        content: phrase("{graph} ({n})", graph=describe_graph(size), n=number)
        if len(same) > 1
        else describe_graph(size)
        for size, same in alike.items()
        for number, content in enumerate(same, 1)
    }
    return {call: graph_names[content] for call, content in of_launch.items()}


def _compiled_alone(trace: Trace, host_op: Int32, known: Bool) -> Bool:
    """Triton kernels of torch.compile whose launch stands in another operator (a compiled region); shape of ops."""
    triton = _named(trace, _TRITON)
    alone: Bool = known & triton[trace.ops.name]
    rows = np.flatnonzero(alone)
    alone[rows] = ~triton[trace.host_ops.name[host_op[rows]]]
    return alone


class _Names:
    """Numbers for names as they come."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def rows(self, keys: Int64 | Int32, name_of: Callable[[int], str]) -> Int64:
        """The number of the name of each key; shape of keys."""
        used, inverse = coded(keys)
        numbers = [self.known.setdefault(name_of(key), len(self.known)) for key in used.tolist()]
        number_of_key: Int64 = np.array(numbers, np.int64)[inverse]
        return number_of_key
