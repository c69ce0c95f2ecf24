"""What was copied, where to, how fast, and again and again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from perfmagic.analysis.timeline.paths import call_paths
from perfmagic.base.language import phrase
from perfmagic.predict.gpus import pcie_bytes_per_s, pcie_generation, pcie_lanes
from perfmagic.trace.columns import NO_LINE, NONE, Int64, OpKind
from perfmagic.trace.json_form import one_of
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.names import OpClass, copy_direction, is_pageable
from perfmagic.trace.paths import NOWHERE
from perfmagic.trace.rows import Rows


@dataclass(frozen=True)
class CopyStat:
    """All copies of one kind, as the record names it.

    name: the name in the record, with the memory at both ends.
    direction: from where to where: h is the host, d the device, p a peer.
    pageable: whether the host's side is pageable memory, which blocks Python.
    n_ops: copies.
    total_ns: their summed duration.
    size_bytes: the summed size of those whose size is recorded.
    sized_ns: the summed duration of those whose size is recorded.
    bandwidth_bytes_per_s: `size_bytes` by `sized_ns`; None without any, or without a duration.
    """

    device: int
    name: str
    direction: Annotated[OpClass, one_of("htod", "dtoh", "dtod", "ptop")]
    pageable: bool
    n_ops: int
    total_ns: int
    size_bytes: int
    sized_ns: int

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        return self.size_bytes / self.sized_ns * 1e9 if self.sized_ns else None


def copies(trace: Trace, device: int) -> Rows[CopyStat]:
    """The copies of a device by kind, the longest in sum first."""
    ops = trace.ops.select((trace.ops.device == device) & (trace.ops.kind == OpKind.MEMCPY))
    stats = []
    for name in np.unique(ops.name).tolist():
        rows = ops.name == name
        length, sized = (ops.end_ns - ops.start_ns)[rows], ops.size_bytes[rows] != NONE
        full_name = trace.names[name]
        stats.append(
            CopyStat(
                device,
                name=full_name,
                direction=copy_direction(full_name),
                pageable=is_pageable(full_name),
                n_ops=int(rows.sum()),
                total_ns=int(length.sum()),
                size_bytes=int(ops.size_bytes[rows][sized].sum()),
                sized_ns=int(length[sized].sum()),
            )
        )
    return Rows(sorted(stats, key=lambda s: (-s.total_ns, s.name)), CopyStat)


# How fast copies between host and device can be: measured on pinned copies, else by the bus of the device.

LARGE_BYTES = 1 << 20  # smaller copies take as long as their launch and say nothing about the bus
PACED_BYTES = 1 << 16  # on a simulated device, which has no bus but a pace


@dataclass(frozen=True)
class Bus:
    """A bandwidth of pinned copies to the device, and in words where it is known from.

    measured: by copies of this trace, not by what the device's name says.
    """

    bytes_per_s: float
    source: str
    measured: bool = True


def pinned_bus(trace: Trace, device: int) -> Bus | None:
    """How fast pinned memory is copied to a device; None where neither the record nor the device's name says.

    From the large pinned copies of the trace; on a simulated device pageable copies get half the bandwidth.
    """
    measured = _measured(trace, device, pageable=False)
    if measured is not None:
        return Bus(measured, phrase("as the pinned copies here"))
    info = trace.device_info(device)
    if info.paced:
        pageable = _measured(trace, device, pageable=True)
        twice = phrase("twice that of pageable memory on a simulated device")
        return Bus(2 * pageable, twice) if pageable else None
    name = info.predicted.gpu if info.predicted else info.name
    bytes_per_s = pcie_bytes_per_s(name)
    if bytes_per_s is None:
        return None
    assumed = phrase("assumed for PCIe {n}.0 ×{lanes}", n=pcie_generation(name), lanes=pcie_lanes(name))
    return Bus(bytes_per_s, assumed, measured=False)


def _measured(trace: Trace, device: int, *, pageable: bool) -> float | None:
    ops = trace.ops
    least_bytes = PACED_BYTES if trace.device_info(device).paced else LARGE_BYTES
    wanted = np.array(
        [copy_direction(name) == OpClass.HTOD and is_pageable(name) is pageable for name in trace.names], bool
    )
    rows = (ops.device == device) & (ops.kind == OpKind.MEMCPY) & (ops.size_bytes >= least_bytes)
    rows &= wanted[ops.name] if len(ops) else rows
    length_ns = int((ops.end_ns - ops.start_ns)[rows].sum())
    return int(ops.size_bytes[rows].sum()) / length_ns * 1e9 if length_ns else None


# Copies of one tensor to the device in each iteration of a loop. What was copied, the cell's text says: no record does.

ROUNDS = 3  # at least
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_TRANSFERS = frozenset({"to", "cuda"})
_READ = _TRANSFERS | {"shape", "dtype", "device", "size", "dim", "ndim", "numel"}  # others may give a view to write to
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


class CopiedAgain(NamedTuple):
    """A tensor that a line of a loop copies to the device in each iteration.

    name: of the cell's variable.  rows: its copies, of trace.ops; the first of them is needed.
    """

    name: str
    line: int
    rows: Int64


@once_per_trace
def copied_again(trace: Trace, device: int) -> tuple[CopiedAgain, ...]:
    """The tensors that a loop of the cell copies to a device in each iteration, but neither binds nor changes.

    A function's line is not asked: its `self` or its globals may be others in each call.
    """
    trained = any("ToCopyBackward" in name for name in trace.names)  # a step changes what is copied
    lines = {} if trace.cell is None or trained else _transfers_in_loops(trace.cell.source)
    if not lines:
        return ()
    ops, to_device = trace.ops, [copy_direction(name) == OpClass.HTOD for name in trace.names]
    rows = np.flatnonzero(np.array(to_device, bool)[ops.name] & (ops.device == device) & (ops.launch != NONE))
    rows = rows[np.argsort(trace.launch_start_ns(rows), kind="stable")]
    if trace.paths is not None:
        path = call_paths(trace)[ops.launch[rows]]
        of_cell = np.array([function.is_cell for function in trace.paths.functions] + [False])
        rows = rows[of_cell[trace.paths.function[path]] & (path != NOWHERE)]
    again = []
    for line in np.unique(ops.line[rows]).tolist():
        of_line = rows[ops.line[rows] == line]
        one_size = len(np.unique(ops.size_bytes[of_line])) == 1
        # a module copies its parameters in one round, and nothing in the next
        rounds = np.searchsorted(trace.marks.at_ns, trace.launch_start_ns(of_line), side="right")
        in_turn = one_size and len(np.unique(rounds)) == len(of_line)
        if line != NO_LINE and line in lines and in_turn and len(of_line) >= ROUNDS:
            again.append(CopiedAgain(lines[line], line, of_line))
    return tuple(again)


def _transfers_in_loops(source: str) -> dict[int, str]:
    """By line the variable that a loop's statement copies, and that stays as it is in the loop."""
    text = "\n".join("" if row.startswith("%%") else row for row in source.split("\n"))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a line magic among the code; a damaged file
        return {}
    lines: dict[int, list[str]] = {}
    seen: set[ast.AST] = set()
    for loop in (node for node in ast.walk(tree) if isinstance(node, _LOOPS)):  # the outermost first
        above = {child: node for node in ast.walk(loop) for child in ast.iter_child_nodes(node)}
        for node in set(above) - seen:
            match node:
                case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _TRANSFERS:
                    statement = _statement_of(node, above)
                    name = value.id if isinstance(value, ast.Name) else ""
                    stays = name and _copies_alone(node, statement) and not _changes(name, node, above)
                    lines.setdefault(statement.lineno, []).append(name if stays else "")
        seen |= set(above)
    return {line: names[0] for line, names in lines.items() if len(names) == 1 and names[0]}


def _statement_of(node: ast.AST, above: dict[ast.AST, ast.AST]) -> ast.stmt:
    while not isinstance(node, ast.stmt):
        node = above[node]
    return node


def _copies_alone(transfer: ast.Call, statement: ast.stmt) -> bool:
    """Whether nothing else of a statement may copy to the device: an index, torch.tensor(…, device=…), a module."""
    if not isinstance(statement, _SIMPLE) or (isinstance(statement, ast.Expr) and statement.value is transfer):
        return False
    arguments = [*transfer.args, *(keyword.value for keyword in transfer.keywords if keyword.arg != "non_blocking")]
    is_dtype = any(isinstance(a, ast.Attribute) and getattr(a.value, "id", "") == "torch" for a in arguments)
    others = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and node is not transfer]
    creates = any(keyword.arg == "device" for call in others for keyword in call.keywords)
    is_called = any(call.func is transfer for call in others)
    return not (is_dtype or creates or is_called or any(isinstance(n, ast.Subscript) for n in ast.walk(statement)))


def _changes(name: str, transfer: ast.Call, above: dict[ast.AST, ast.AST]) -> bool:
    """Whether a loop may change the tensor that a variable names, or its copy on the device.  above: the parents."""
    statement = _statement_of(transfer, above)
    bound = [node for node in ast.walk(statement) if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load)]
    copies = [getattr(target, "id", "") for target in bound]
    return (
        _writes(transfer, above[transfer])
        or not all(_only_reads(*use) for use in _uses(name, above))
        or any(not copy or any(_writes(*use) for use in _uses(copy, above)) for copy in copies)
    )


def _uses(name: str, above: dict[ast.AST, ast.AST]) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Where a variable is named, and what is around it there."""
    return ((node, around) for node, around in above.items() if isinstance(node, ast.Name) and node.id == name)


def _only_reads(node: ast.AST, around: ast.AST) -> bool:
    """Whether a value is only read, and handed to nobody who could write to it."""
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    if isinstance(around, ast.Attribute):
        return around.attr in _READ and isinstance(around.ctx, ast.Load)
    return isinstance(around, (ast.BinOp, ast.UnaryOp, ast.Compare))


def _writes(node: ast.AST, around: ast.AST) -> bool:
    """Whether a value is changed in place: `x += 1`, `x.add_(1)`, `x[0] = 1`."""
    match around:
        case ast.AugAssign(target=target):
            return target is node
        case ast.Attribute(attr=attr, ctx=ctx):
            return attr.endswith("_") or not isinstance(ctx, ast.Load)
        case ast.Subscript(ctx=ctx):
            return not isinstance(ctx, ast.Load)
    return False
