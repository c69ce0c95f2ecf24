"""Operators and kernels of two traces matched by name and the shape of their inputs: more, less, new and gone work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from perfmagic.analysis.diff.owners import places
from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.operators import operators
from perfmagic.analysis.timeline.streams import orphans
from perfmagic.numerics.grouped import coded
from perfmagic.trace.columns import Bool, Int64
from perfmagic.trace.model import Trace

BOTH, NEW, GONE, RESHAPED, EARLY = "both", "new", "gone", "other shape", "launched before"


@dataclass(frozen=True)
class OperatorChange:
    """The calls of one operator with inputs of one shape in two traces; summed durations in ns.

    change: "both"; "new" or "gone" where one trace has none; "other shape" where it has the operator with other inputs
    only. shape: None where a trace records none.  n_calls, n_ops: calls, and device ops that they launched themselves.
    host_ns: from call to return, as in OperatorStat.  device_ns: of those ops, which may run at once.  charged_ns: of
    the compared device's busy time, each instant to one op.  diff_ns: how much more device_ns the second has, of one
    step where steps are compared.
    """

    shown: ClassVar[tuple[str, ...]] = (
        *("name", "shape", "change", "n_calls_a", "n_calls_b", "device_a_ns", "device_b_ns", "diff_ns"),
    )

    name: str
    shape: str | None
    change: str
    n_calls_a: int
    n_calls_b: int
    n_ops_a: int
    n_ops_b: int
    host_a_ns: int
    host_b_ns: int
    device_a_ns: int
    device_b_ns: int
    charged_a_ns: int
    charged_b_ns: int
    diff_ns: int

    @property
    def mean_a_ns(self) -> float | None:
        """The device time of a call in the first trace, None where it has none."""
        return self.device_a_ns / self.n_calls_a if self.n_calls_a else None

    @property
    def mean_b_ns(self) -> float | None:
        return self.device_b_ns / self.n_calls_b if self.n_calls_b else None


@dataclass(frozen=True)
class KernelChange:
    """The runs of one kernel, copy or memset under one operator in two traces; summed durations in ns.

    change: as in OperatorChange, or "launched before" of orphans: which of them a recording has depends on when it
    began.  operator, shape: that launched it, the innermost; None where none is known.
    diff_ns: of one step where steps are compared.
    """

    shown: ClassVar[tuple[str, ...]] = (
        *("name", "operator", "shape", "change", "n_a", "n_b", "total_a_ns", "total_b_ns", "diff_ns"),
    )

    name: str
    operator: str | None
    shape: str | None
    change: str
    n_a: int
    n_b: int
    total_a_ns: int
    total_b_ns: int
    diff_ns: int

    @property
    def mean_a_ns(self) -> float | None:
        """The mean of its runs in the first trace, None where it has none."""
        return self.total_a_ns / self.n_a if self.n_a else None

    @property
    def mean_b_ns(self) -> float | None:
        return self.total_b_ns / self.n_b if self.n_b else None


ChangeT = TypeVar("ChangeT", OperatorChange, KernelChange)
Key = tuple[str | None, ...]
_COLUMNS = (("n_calls", ""), ("n_ops", ""), ("host", "_ns"), ("device", "_ns"), ("charged", "_ns"))


class _Cost(NamedTuple):
    """What an operator cost in one trace, as in OperatorChange."""

    n_calls: int = 0
    n_ops: int = 0
    host_ns: int = 0
    device_ns: int = 0
    charged_ns: int = 0


def operator_changes(first: Side, second: Side, repeats: tuple[int, int], *, by_shape: bool) -> Rows[OperatorChange]:
    """Every operator of either trace, the largest difference on the device first."""
    sides = [_operators(side, by_shape=by_shape) for side in (first, second)]
    found = []
    for key in dict.fromkeys(key for side in sides for key in side):
        a, b = (side.get(key, _Cost()) for side in sides)
        found.append(
            OperatorChange(
                name=str(key[0]),
                shape=key[1],
                change=_change(a.n_calls, b.n_calls),
                **{f"{column}_a{unit}": getattr(a, column + unit) for column, unit in _COLUMNS},
                **{f"{column}_b{unit}": getattr(b, column + unit) for column, unit in _COLUMNS},
                diff_ns=difference(a.device_ns, b.device_ns, repeats),
            )
        )
    shaped = _reshaped(found, [row.name for row in found])
    order = sorted(shaped, key=lambda row: (-abs(row.diff_ns), -abs(row.host_b_ns - row.host_a_ns)))
    return Rows(order, OperatorChange)


def kernel_changes(first: Side, second: Side, repeats: tuple[int, int], *, by_shape: bool) -> Rows[KernelChange]:
    """Every kernel, copy and memset of either trace by the operator it ran under, the largest difference first."""
    sides = [_kernels(side, by_shape=by_shape) for side in (first, second)]
    found = []
    for key in dict.fromkeys(key for side in sides for key in side):
        (n_a, a_ns), (n_b, b_ns) = (side.get(key, (0, 0)) for side in sides)
        diff_ns = difference(a_ns, b_ns, repeats)
        change = EARLY if key[3] else _change(n_a, n_b)
        found.append(KernelChange(str(key[0]), key[1], key[2], change, n_a, n_b, a_ns, b_ns, diff_ns))
    shaped = _reshaped(found, [(row.name, row.operator) for row in found])
    return Rows(sorted(shaped, key=lambda row: -abs(row.diff_ns)), KernelChange)


def changed_ops(trace: Trace, kernels: Rows[KernelChange], least_frac: float, *, by_shape: bool) -> Bool:
    """Which ops of a trace are of kernels that are new, gone, or differ by that share of their time; shape of ops."""
    changed = {
        (row.name, row.operator, row.shape, None)
        for row in kernels
        if row.change not in (BOTH, EARLY) or abs(row.diff_ns) >= least_frac * max(row.total_a_ns, row.total_b_ns)
    }  # orphans are never marked: their keys end otherwise
    keys, inverse = _kernel_keys(trace, by_shape=by_shape)
    mask: Bool = np.array([key in changed for key in keys], bool)[inverse]
    return mask


def difference(a_ns: int, b_ns: int, repeats: tuple[int, int]) -> int:
    """How much more the second has, of one step each."""
    return b_ns - a_ns if repeats == (1, 1) else round(b_ns / repeats[1] - a_ns / repeats[0])


def _operators(side: Side, *, by_shape: bool) -> dict[Key, _Cost]:
    """Calls, ops, and time on the host, on devices and charged, by name and shape."""
    named, owner = places(side.work, by_shape=by_shape)
    n_ops = np.bincount(owner + 1, minlength=len(named) + 1)[1:]
    sums = np.zeros(len(named) + 1, np.int64)
    if side.device is not None:
        np.add.at(sums, owner + 1, side.charged_ns[side.counted])
    own = {key: (int(n), int(ns)) for key, n, ns in zip(named, n_ops, sums[1:], strict=True)}
    found: dict[Key, _Cost] = {}
    for row in operators(side.work, by_shape=by_shape):
        n, charged = own.get((row.name, row.shape), (0, 0))
        found[row.name, row.shape] = _Cost(row.n_calls, n, row.host_ns, row.device_self_ns, charged)
    return found


def _kernels(side: Side, *, by_shape: bool) -> dict[Key, tuple[int, int]]:
    """Runs and their summed duration, by name, operator and shape."""
    ops, (keys, inverse) = side.work.ops, _kernel_keys(side.work, by_shape=by_shape)
    n, total = np.bincount(inverse, minlength=len(keys)), np.zeros(len(keys), np.int64)
    np.add.at(total, inverse, ops.end_ns - ops.start_ns)
    return {key: (int(n[i]), int(total[i])) for i, key in enumerate(keys)}


def _kernel_keys(trace: Trace, *, by_shape: bool) -> tuple[list[Key], Int64]:
    """The name, operator and shape of each kind of op that occurs, and for each op its place among them.

    A fourth element tells orphans from ops that no operator launched.
    """
    named, owner = places(trace, by_shape=by_shape)
    under: tuple[tuple[str | None, ...], ...] = (
        (None, None, EARLY),
        (None, None, None),
        *((*at, None) for at in named),
    )
    place = np.where(orphans(trace), 0, owner + 2)
    codes, inverse = coded(trace.ops.name.astype(np.int64) * len(under) + place)
    return [(trace.names[code // len(under)], *under[code % len(under)]) for code in codes.tolist()], inverse


def _change(n_a: int, n_b: int) -> str:
    return BOTH if n_a and n_b else NEW if n_b else GONE


def _reshaped(rows: Sequence[ChangeT], called: Sequence[object]) -> list[ChangeT]:
    """The same rows; what is gone or new in one shape, and is there in another one on the other side, says so."""
    in_a = {name for row, name in zip(rows, called, strict=True) if row.change not in (NEW, EARLY)}
    in_b = {name for row, name in zip(rows, called, strict=True) if row.change not in (GONE, EARLY)}
    other = {GONE: in_b, NEW: in_a}
    return [
        replace(row, change=RESHAPED) if name in other.get(row.change, ()) else row
        for row, name in zip(rows, called, strict=True)
    ]
