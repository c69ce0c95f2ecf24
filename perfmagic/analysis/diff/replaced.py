"""Kernels that took the place of others under the same operator, whatever they are called."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.diff.owners import Place, owners, places
from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.diff.work import difference
from perfmagic.analysis.rows import Rows
from perfmagic.trace.columns import NONE, Int64

MOST_KERNELS = 8  # that take the place of others; longer sequences are other work, told as new and gone
LONGEST = 1000  # kernels of a call: sequences are compared in quadratic time, and such a long one is a whole graph

Names = tuple[str, ...]


@dataclass(frozen=True)
class Replacement:
    """Kernels that others replaced at the same place of the same operator; summed durations in ns.

    operator, shape: the innermost operator that both have, and its inputs; shape is None where not recorded.
    gone, new: the kernels, in the order of their launches.  n_calls_a, n_calls_b: of the operator, with these kernels.
    a_ns, b_ns: of the kernels that went, and of those that came.  diff_ns: of one step where steps are compared.
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
    """One call of an operator: the kernels it launched, what tells them apart, and the rows of trace.ops they are.

    tokens: a kernel's name, or the operator inside this one that launched it, where that is matched by itself.
    """

    kernels: Names
    tokens: tuple[str | Place, ...]
    rows: Int64


def replacements(first: Side, second: Side, repeats: tuple[int, int], *, by_shape: bool) -> Rows[Replacement]:
    """What replaced what, the largest difference first.

    Calls of an operator with inputs of one shape are matched by order; where their numbers differ, only if all calls of
    a side launched the same kernels. Of matched calls the sequences of kernels are compared: what stands between the
    same neighbours took the place of what stood there. First the kernels that an operator launched itself, then by the
    outermost operator those of operators inside it that only one trace has. Source: docs/words.md, "replaced".
    """
    sides, found = (first, second), _Found(first, second)
    inner = [_calls(side, by_shape=by_shape) for side in sides]
    settled = {at for at in inner[0].keys() & inner[1].keys() if found.compare(at, inner[0][at], inner[1][at])}
    outer = [_calls(side, by_shape=by_shape, settled=settled) for side in sides]
    for at in outer[0].keys() & outer[1].keys():
        found.compare(at, outer[0][at], outer[1][at])
    rows = [
        Replacement(*at, gone, new, n_a, n_b, a_ns, b_ns, difference(a_ns, b_ns, repeats))
        for (at, gone, new), (n_a, n_b, a_ns, b_ns) in found.totals.items()
    ]
    return Rows(sorted(rows, key=lambda row: (-abs(row.diff_ns), row.operator, row.shape or "", row.gone)), Replacement)


class _Found:
    """The replacements so far: of each the calls and the time of both sides."""

    def __init__(self, first: Side, second: Side) -> None:
        self._lengths = [side.work.ops.end_ns - side.work.ops.start_ns for side in (first, second)]
        self._known: dict[tuple[object, object], list[tuple[slice, slice]]] = {}
        self.totals: dict[tuple[Place, Names, Names], list[int]] = defaultdict(lambda: [0] * 4)

    def compare(self, at: Place, first: Sequence[_Call], second: Sequence[_Call]) -> bool:
        """Add what differs between the calls of one operator; False where these cannot be matched."""
        pairs = _matched(first, second)
        for old, new in pairs or ():
            tokens = old[0].tokens, new[0].tokens
            if tokens not in self._known:
                self._known[tokens] = list(_exchanged(*tokens))
            for went, came in self._known[tokens]:
                total = self.totals[at, old[0].kernels[went], new[0].kernels[came]]
                total[0] += len(old)
                total[1] += len(new)
                total[2] += sum(int(self._lengths[0][call.rows[went]].sum()) for call in old)
                total[3] += sum(int(self._lengths[1][call.rows[came]].sum()) for call in new)
        return pairs is not None


def _calls(side: Side, *, by_shape: bool, settled: AbstractSet[Place] | None = None) -> Mapping[Place, Sequence[_Call]]:
    """The calls that launched something, in order, by innermost operator; by outermost where some are settled."""
    trace = side.work
    inner = places(trace, by_shape=by_shape)
    named, place_of = inner if settled is None else places(trace, by_shape=by_shape, outermost=True)
    call = owners(trace).inner if settled is None else owners(trace).outer
    rows = np.flatnonzero(call != NONE)
    rows = rows[np.lexsort((trace.ops.start_ns[rows], trace.launch_start_ns()[rows], call[rows]))]
    found: dict[Place, list[_Call]] = defaultdict(list)
    for part in np.split(rows, np.flatnonzero(np.diff(call[rows])) + 1) if len(rows) else ():
        if len(part) > LONGEST:
            continue
        kernels = tuple(trace.names[i] for i in trace.ops.name[part].tolist())
        tokens: tuple[str | Place, ...] = kernels
        if settled:
            under = [inner[0][i] for i in inner[1][part].tolist()]
            tokens = tuple(at if at in settled else kernel for at, kernel in zip(under, kernels, strict=True))
        found[named[place_of[part[0]]]].append(_Call(kernels, tokens, part))
    return found


def _matched(first: Sequence[_Call], second: Sequence[_Call]) -> list[tuple[Sequence[_Call], Sequence[_Call]]] | None:
    """Calls of both sides that belong together and differ, those of a side with the same kernels; None: unknown."""
    if len(first) == len(second):
        return [([a], [b]) for a, b in zip(first, second, strict=True) if a.tokens != b.tokens]
    if len({(call.tokens, call.kernels) for call in first}) == len({(c.tokens, c.kernels) for c in second}) == 1:
        return [(first, second)] if first[0].tokens != second[0].tokens else []
    return None


def _exchanged(first: Sequence[Hashable], second: Sequence[Hashable]) -> Iterator[tuple[slice, slice]]:
    """Which part of one sequence stands in the place of which part of the other."""
    codes = difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    for what, i, k, j, m in codes:
        if what == "replace" and max(k - i, m - j) <= MOST_KERNELS:
            yield slice(i, k), slice(j, m)
