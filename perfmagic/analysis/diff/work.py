"""Operators and kernels of two traces, matched by name and input shape: more, less, new and gone work."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple, TypeVar

import numpy as np

from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.timeline.activity import orphans
from perfmagic.analysis.timeline.operators import operators
from perfmagic.base.numerics.intervals import coded
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.hoststack import operator_stack
from perfmagic.trace.json_form import one_of
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.rows import Rows

# Which operator each device op belongs to, in names that two traces share.

Place = tuple[str, str | None]  # an operator's name, and the shape of its inputs where both traces record shapes


@dataclass(frozen=True, eq=False)
class Owners:
    """The operators that launched each device op, as rows of trace.host_ops; NONE if none; shape of trace.ops.

    inner: the innermost.  outer: the outermost.
    """

    inner: Int64
    outer: Int64


@once_per_trace
def owners(trace: Trace) -> Owners:
    """The operators that launched each device op."""
    ops, stack = trace.ops, operator_stack(trace)
    inner, outer = np.full(len(ops), NONE, np.int64), np.full(len(ops), NONE, np.int64)
    launched = np.flatnonzero(ops.launch != NONE)
    thread, at_ns = trace.calls.thread[ops.launch[launched]], trace.calls.start_ns[ops.launch[launched]]
    inner[launched] = stack.innermost_at(thread, at_ns)
    outer[launched] = stack.outermost_at(thread, at_ns)
    return Owners(inner, outer)


def has_shapes(trace: Trace) -> bool:
    """Whether the record has the shapes of operators' inputs."""
    return bool((trace.host_ops.shape != NONE).any())


@once_per_trace
def dtypes(trace: Trace) -> Mapping[Place, AbstractSet[str]]:
    """The types of inputs that calls of each operator had, by name and shape; without those that the record lacks."""
    host, found = trace.host_ops, defaultdict[Place, set[str]](set)
    rows = np.flatnonzero((host.dtype != NONE) & (host.shape != NONE))
    table = np.unique(np.stack((host.name[rows], host.shape[rows], host.dtype[rows])), axis=1).T.tolist()
    for name, shape, dtype in table:
        if text := trace.input_dtypes[dtype]:
            found[trace.names[name], trace.input_shapes[shape]].add(text)
    return found


@once_per_trace
def places(trace: Trace, *, by_shape: bool, outermost: bool = False) -> tuple[tuple[Place, ...], Int64]:
    """The operators that launched device ops, and each op's index among them; NONE if no operator did."""
    known = owners(trace)
    host_row = known.outer if outermost else known.inner
    result = np.full(len(host_row), NONE, np.int64)
    inside = np.flatnonzero(host_row != NONE)
    host = trace.host_ops
    shape = host.shape[host_row[inside]] if by_shape else np.full(len(inside), NONE)
    n_shapes = len(trace.input_shapes) + 1
    keys, result[inside] = coded(host.name[host_row[inside]].astype(np.int64) * n_shapes + shape + 1)
    named = tuple((trace.names[key // n_shapes], _read_shape(trace, key % n_shapes - 1)) for key in keys.tolist())
    return named, result


def _read_shape(trace: Trace, row: int) -> str | None:
    return None if row == NONE else trace.input_shapes[row]


BOTH, NEW, GONE, RESHAPED, EARLY = "both", "new", "gone", "other shape", "launched before"


@dataclass(frozen=True)
class OperatorChange:
    """The calls of one operator with inputs of one shape in two traces.

    name: its name.
    shape: the shapes of its inputs, as recorded; None if they are not compared.
    change: which of the two have it.
    n_calls_a: calls, in the first.
    n_calls_b: calls, in the second.
    n_ops_a: device ops that it launched itself, in the first.
    n_ops_b: device ops that it launched itself, in the second.
    host_a_ns: from call to return, summed, in the first.
    host_b_ns: from call to return, summed, in the second.
    device_a_ns: the summed duration of those ops, in the first.
    device_b_ns: the summed duration of those ops, in the second.
    charged_a_ns: its share of the device's busy time, each instant charged to one op, in the first.
    charged_b_ns: its share of the device's busy time, each instant charged to one op, in the second.
    diff_ns: how much more device time the second has.
    mean_a_ns: device time per call in the first; None without calls.
    mean_b_ns: device time per call in the second; None without calls.
    """

    shown: ClassVar[tuple[str, ...]] = (
        *("name", "shape", "change", "n_calls_a", "n_calls_b", "device_a_ns", "device_b_ns", "diff_ns"),
    )

    name: str
    shape: str | None
    change: Annotated[str, one_of("both", "new", "gone", "other shape")]
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
        """The device time per call in the first trace; None without calls."""
        return self.device_a_ns / self.n_calls_a if self.n_calls_a else None

    @property
    def mean_b_ns(self) -> float | None:
        return self.device_b_ns / self.n_calls_b if self.n_calls_b else None


@dataclass(frozen=True)
class KernelChange:
    """The runs of one kernel, copy or memset under one operator in two traces.

    name: its name.
    operator: the innermost operator that launched it; None if not known.
    shape: the shapes of the operator's inputs; None if they are not compared.
    change: which of the two have it; "launched before" for an orphan, which depends on when the recording began.
    n_a: runs in the first.
    n_b: runs in the second.
    total_a_ns: their summed duration in the first.
    total_b_ns: their summed duration in the second.
    diff_ns: how much more the second has.
    mean_a_ns: the mean in the first; None without runs.
    mean_b_ns: the mean in the second; None without runs.
    """

    shown: ClassVar[tuple[str, ...]] = (
        *("name", "operator", "shape", "change", "n_a", "n_b", "total_a_ns", "total_b_ns", "diff_ns"),
    )

    name: str
    operator: str | None
    shape: str | None
    change: Annotated[str, one_of("both", "new", "gone", "other shape", "launched before")]
    n_a: int
    n_b: int
    total_a_ns: int
    total_b_ns: int
    diff_ns: int

    @property
    def mean_a_ns(self) -> float | None:
        """The mean of its runs in the first trace; None without runs."""
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
    """Every operator of either trace, the largest difference in device time first."""
    sides = [_sum_operators(side, by_shape=by_shape) for side in (first, second)]
    rows = []
    for key in dict.fromkeys(key for side in sides for key in side):
        a, b = (side.get(key, _Cost()) for side in sides)
        rows.append(
            OperatorChange(
                name=str(key[0]),
                shape=key[1],
                change=_classify_change(a.n_calls, b.n_calls),
                **{f"{column}_a{unit}": getattr(a, column + unit) for column, unit in _COLUMNS},
                **{f"{column}_b{unit}": getattr(b, column + unit) for column, unit in _COLUMNS},
                diff_ns=difference(a.device_ns, b.device_ns, repeats),
            )
        )
    shaped = _mark_reshaped(rows, [row.name for row in rows])
    order = sorted(shaped, key=lambda row: (-abs(row.diff_ns), -abs(row.host_b_ns - row.host_a_ns)))
    return Rows(order, OperatorChange)


def kernel_changes(first: Side, second: Side, repeats: tuple[int, int], *, by_shape: bool) -> Rows[KernelChange]:
    """Every kernel, copy and memset of either trace by the operator it ran under, the largest difference first."""
    sides = [_sum_kernels(side, by_shape=by_shape) for side in (first, second)]
    rows = []
    for key in dict.fromkeys(key for side in sides for key in side):
        (n_a, a_ns), (n_b, b_ns) = (side.get(key, (0, 0)) for side in sides)
        diff_ns = difference(a_ns, b_ns, repeats)
        change = EARLY if key[3] else _classify_change(n_a, n_b)
        rows.append(KernelChange(str(key[0]), key[1], key[2], change, n_a, n_b, a_ns, b_ns, diff_ns))
    shaped = _mark_reshaped(rows, [(row.name, row.operator) for row in rows])
    return Rows(sorted(shaped, key=lambda row: -abs(row.diff_ns)), KernelChange)


def changed_ops(trace: Trace, kernels: Rows[KernelChange], least_frac: float, *, by_shape: bool) -> Bool:
    """Which ops belong to kernels that are new, gone, or differ by least_frac of their time; shape of trace.ops."""
    changed = {
        (row.name, row.operator, row.shape, None)
        for row in kernels
        if row.change not in (BOTH, EARLY) or abs(row.diff_ns) >= least_frac * max(row.total_a_ns, row.total_b_ns)
    }  # orphans are never marked: their keys have another end
    keys, inverse = _index_kernels(trace, by_shape=by_shape)
    mask: Bool = np.array([key in changed for key in keys], bool)[inverse]
    return mask


def difference(a_ns: int, b_ns: int, repeats: tuple[int, int]) -> int:
    """How much more the second has, per step."""
    return b_ns - a_ns if repeats == (1, 1) else round(b_ns / repeats[1] - a_ns / repeats[0])


def _sum_operators(side: Side, *, by_shape: bool) -> dict[Key, _Cost]:
    """Calls, ops, and time on the host, on devices and charged, by name and shape."""
    named, owner = places(side.work, by_shape=by_shape)
    n_ops = np.bincount(owner + 1, minlength=len(named) + 1)[1:]
    sums = np.zeros(len(named) + 1, np.int64)
    if side.device is not None:
        np.add.at(sums, owner + 1, side.charged_ns[side.counted])
    own = {key: (int(n), int(ns)) for key, n, ns in zip(named, n_ops, sums[1:], strict=True)}
    costs: dict[Key, _Cost] = {}
    for row in operators(side.work, by_shape=by_shape):
        n, charged = own.get((row.name, row.shape), (0, 0))
        costs[row.name, row.shape] = _Cost(row.n_calls, n, row.host_ns, row.device_self_ns, charged)
    return costs


def _sum_kernels(side: Side, *, by_shape: bool) -> dict[Key, tuple[int, int]]:
    """Runs and their summed duration, by name, operator and shape."""
    ops, (keys, inverse) = side.work.ops, _index_kernels(side.work, by_shape=by_shape)
    n, total = np.bincount(inverse, minlength=len(keys)), np.zeros(len(keys), np.int64)
    np.add.at(total, inverse, ops.end_ns - ops.start_ns)
    return {key: (int(n[i]), int(total[i])) for i, key in enumerate(keys)}


def _index_kernels(trace: Trace, *, by_shape: bool) -> tuple[list[Key], Int64]:
    """The name, operator and shape of each kind of op that occurs, and each op's index among them.

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


def _classify_change(n_a: int, n_b: int) -> str:
    return BOTH if n_a and n_b else NEW if n_b else GONE


def _mark_reshaped(rows: Sequence[ChangeT], called: Sequence[object]) -> list[ChangeT]:
    """The same rows; work that is gone or new is marked if the other side has it in another shape."""
    in_a = {name for row, name in zip(rows, called, strict=True) if row.change not in (NEW, EARLY)}
    in_b = {name for row, name in zip(rows, called, strict=True) if row.change not in (GONE, EARLY)}
    other = {GONE: in_b, NEW: in_a}
    return [
        replace(row, change=RESHAPED) if name in other.get(row.change, ()) else row
        for row, name in zip(rows, called, strict=True)
    ]


# Kernels that replaced others under the same operator, whatever their names.

MOST_KERNELS = 8  # that replace others; longer sequences are other work, new and gone
LONGEST = 1000  # kernels of a call: comparing takes quadratic time, and such a long sequence is a whole graph

Names = tuple[str, ...]


@dataclass(frozen=True)
class Replacement:
    """Kernels that others replaced at the same place in the same operator.

    operator: the innermost operator that both have.
    shape: the shapes of its inputs; None if they are not compared.
    gone: the old kernels, in order.
    new: the new kernels, in order.
    n_calls_a: calls of the operator with the old kernels.
    n_calls_b: calls of the operator with the new kernels.
    a_ns: the summed duration of the old kernels.
    b_ns: the summed duration of the new kernels.
    diff_ns: how much more the second has.
    """

    operator: str
    shape: str | None
    gone: Names
    new: Names
    n_calls_a: int
    n_calls_b: int
    a_ns: int
    b_ns: int
    diff_ns: int


@dataclass(frozen=True, eq=False)
class _Call:
    """One call of an operator: the kernels it launched, what tells them apart, and their rows of trace.ops.

    tokens: a kernel's name, or the inner operator that launched it if that is matched by itself.
    """

    kernels: Names
    tokens: tuple[str | Place, ...]
    rows: Int64


def replacements(first: Side, second: Side, repeats: tuple[int, int], *, by_shape: bool) -> Rows[Replacement]:
    """What replaced what, the largest difference first.

    Calls of an operator with inputs of one shape are matched by order; if their numbers differ, only if all calls of
    a side launched the same kernels. Then the sequences of kernels are compared: kernels between the same neighbours
    replace each other. First come kernels that an operator launched itself. Then, by outermost operator, those of inner
    operators that only one trace has. Source: docs/words.md, "replaced".
    """
    sides, replaced = (first, second), _Replaced(first, second)
    inner = [_calls(side, by_shape=by_shape) for side in sides]
    settled = {at for at in inner[0].keys() & inner[1].keys() if replaced.compare(at, inner[0][at], inner[1][at])}
    outer = [_calls(side, by_shape=by_shape, settled=settled) for side in sides]
    for at in outer[0].keys() & outer[1].keys():
        replaced.compare(at, outer[0][at], outer[1][at])
    rows = [
        Replacement(*at, gone, new, n_a, n_b, a_ns, b_ns, difference(a_ns, b_ns, repeats))
        for (at, gone, new), (n_a, n_b, a_ns, b_ns) in replaced.totals.items()
    ]
    return Rows(sorted(rows, key=lambda row: (-abs(row.diff_ns), row.operator, row.shape or "", row.gone)), Replacement)


class _Replaced:
    """The replacements so far, each with the calls and the time of both sides."""

    def __init__(self, first: Side, second: Side) -> None:
        self._lengths = [side.work.ops.end_ns - side.work.ops.start_ns for side in (first, second)]
        self._known: dict[tuple[object, object], list[tuple[slice, slice]]] = {}
        self.totals: dict[tuple[Place, Names, Names], list[int]] = defaultdict(lambda: [0] * 4)

    def compare(self, at: Place, first: Sequence[_Call], second: Sequence[_Call]) -> bool:
        """Add what differs between the calls of one operator; False if these cannot be matched."""
        pairs = _matched(first, second)
        for old, new in pairs or ():
            tokens = old[0].tokens, new[0].tokens
            if tokens not in self._known:
                self._known[tokens] = list(_find_exchanged(*tokens))
            for went, came in self._known[tokens]:
                total = self.totals[at, old[0].kernels[went], new[0].kernels[came]]
                total[0] += len(old)
                total[1] += len(new)
                total[2] += sum(int(self._lengths[0][call.rows[went]].sum()) for call in old)
                total[3] += sum(int(self._lengths[1][call.rows[came]].sum()) for call in new)
        return pairs is not None


def _calls(side: Side, *, by_shape: bool, settled: AbstractSet[Place] | None = None) -> Mapping[Place, Sequence[_Call]]:
    """The calls that launched something, in order, by innermost operator; by outermost if some are settled."""
    trace = side.work
    inner = places(trace, by_shape=by_shape)
    named, place_of = inner if settled is None else places(trace, by_shape=by_shape, outermost=True)
    call = owners(trace).inner if settled is None else owners(trace).outer
    rows = np.flatnonzero(call != NONE)
    rows = rows[np.lexsort((trace.ops.start_ns[rows], trace.launch_start_ns(rows), call[rows]))]
    calls: dict[Place, list[_Call]] = defaultdict(list)
    for part in np.split(rows, np.flatnonzero(np.diff(call[rows])) + 1) if len(rows) else ():
        if len(part) > LONGEST:
            continue
        kernels = tuple(trace.names[i] for i in trace.ops.name[part].tolist())
        tokens: tuple[str | Place, ...] = kernels
        if settled:
            under = [inner[0][i] for i in inner[1][part].tolist()]
            tokens = tuple(at if at in settled else kernel for at, kernel in zip(under, kernels, strict=True))
        calls[named[place_of[part[0]]]].append(_Call(kernels, tokens, part))
    return calls


def _matched(first: Sequence[_Call], second: Sequence[_Call]) -> list[tuple[Sequence[_Call], Sequence[_Call]]] | None:
    """Matching calls of both sides that differ, those with the same kernels together; None if not known."""
    if len(first) == len(second):
        return [([a], [b]) for a, b in zip(first, second, strict=True) if a.tokens != b.tokens]
    if len({(call.tokens, call.kernels) for call in first}) == len({(c.tokens, c.kernels) for c in second}) == 1:
        return [(first, second)] if first[0].tokens != second[0].tokens else []
    return None


def _find_exchanged(first: Sequence[Hashable], second: Sequence[Hashable]) -> Iterator[tuple[slice, slice]]:
    """Which part of one sequence replaces which part of the other."""
    codes = difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    for what, i, k, j, m in codes:
        if what == "replace" and max(k - i, m - j) <= MOST_KERNELS:
            yield slice(i, k), slice(j, m)
