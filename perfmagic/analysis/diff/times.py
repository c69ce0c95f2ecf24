"""Where the time went in both: totals that may overlap, and parts that add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from perfmagic.analysis.diff.categories import op_categories
from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.idle import idle_gaps
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.analysis.timeline.streams import orphans
from perfmagic.trace.names import OpClass, op_classes

UNEXPLAINED = "unexplained"  # as the causes of perfmagic.analysis.timeline.idle
EARLY = "launched before the recording"  # orphans: they are work of no step and of no operator
HEAD, TAIL = "before the first op", "after the last op"
_TOTALS = ("busy", "compute", "communication", "copy", "memset", "exposed_communication", "exposed_copy", "idle")


@dataclass(frozen=True)
class TimeChange:
    """A time in the first trace and in the second, in ns; of one step where steps are compared.

    kind: "busy", "idle" or "edge" for a part of the whole (edge: a cell's time before the first op and after the last),
    "total" for a total, which may overlap others.  name: what it is the time of; of idle time its cause, as in IdleGap.
    op_class: of busy time the class that most of it has, "" for the rest.
    """

    name: str
    kind: str
    op_class: str
    a_ns: int
    b_ns: int

    @property
    def diff_ns(self) -> int:
        """How much longer it is in the second."""
        return self.b_ns - self.a_ns


def parts(first: Side, second: Side, repeats: tuple[int, int]) -> Rows[TimeChange]:
    """Each instant of both once, by what the device did or waited for, the largest difference first.

    Busy time by category, as charged to the ops, but that of orphans together; idle time by cause; of a cell also
    before the first op and after the last. repeats: how many steps the times are divided by. The parts of each side
    add up to its whole, exactly.
    Source: docs/words.md, "parts of a comparison".
    """
    of_sample = first.sampled or second.sampled
    sides = [_side_parts(side, of_sample=of_sample) for side in (first, second)]
    keys = list(dict.fromkeys(key for side in sides for key in side))
    divided = [
        _divided({key: side.get(key, 0) for key in keys}, repeat) for side, repeat in zip(sides, repeats, strict=True)
    ]
    classes = _main_classes(first) | _main_classes(second)
    found = [
        TimeChange(name, kind, classes.get(name, "") if kind == "busy" else "", *(side[kind, name] for side in divided))
        for kind, name in keys
    ]
    kept = [one for one in found if one.a_ns or one.b_ns]
    return Rows(sorted(kept, key=lambda one: -abs(one.diff_ns)), TimeChange)


def totals(first: Side, second: Side, repeats: tuple[int, int]) -> Rows[TimeChange]:
    """The whole, and the time of each class, of both; classes overlap, so these do not add up."""
    values: list[tuple[str, Callable[[Side], int]]] = [("whole", lambda side: side.whole_ns)]
    values += [(name, lambda side, name=name: _class_ns(side, name)) for name in _TOTALS]  # type: ignore[misc]
    a, b = repeats
    return Rows(
        (TimeChange(name, "total", "", _per(of(first), a), _per(of(second), b)) for name, of in values), TimeChange
    )


def _class_ns(side: Side, name: str) -> int:
    """The time of a class; where steps are compared, of the ops that they launched."""
    if not side.by_step or side.device is None or name == "idle":
        return side.parts.class_ns(name)
    return breakdown(side.work, side.device, side.comm_names).class_ns(name)


def _side_parts(side: Side, *, of_sample: bool) -> dict[tuple[str, str], int]:
    """The parts of one side's whole, by kind and name."""
    if side.device is None:
        return {}
    words, places = op_categories(side.trace, side.comm_names)
    sums, early = np.zeros(len(words), np.int64), orphans(side.trace)
    launched = side.counted & ~early
    np.add.at(sums, places[launched], side.charged_ns[launched])
    early_ns = int(side.charged_ns[side.counted & early].sum())
    causes = idle_gaps(side.trace, side.device).by_cause_ns
    if of_sample:  # what a device did while nothing is recorded is not known
        causes = {UNEXPLAINED: sum(causes.values())}
    return {
        **{("busy", word): int(ns) for word, ns in zip(words, sums, strict=True)},
        ("busy", EARLY): early_ns,
        **{("idle", cause): ns for cause, ns in causes.items()},
        ("edge", HEAD): side.head_ns,
        ("edge", TAIL): side.tail_ns,
    }


def _main_classes(side: Side) -> dict[str, str]:
    """The class that most ops of a category have, for its colour."""
    words, places = op_categories(side.trace, side.comm_names)
    classes = op_classes(side.trace, side.comm_names)
    counts = np.zeros((len(words), len(OpClass)), np.int64)
    np.add.at(counts, (places, classes), 1)
    main = {word: OpClass(int(row.argmax())).name.lower() for word, row in zip(words, counts, strict=True)}
    early = classes[orphans(side.trace)]
    return main | ({EARLY: OpClass(int(np.bincount(early).argmax())).name.lower()} if len(early) else {})


def _divided(parts_ns: Mapping[tuple[str, str], int], repeat: int) -> dict[tuple[str, str], int]:
    """Each part of one of `repeat` equal shares, rounded so that the parts add up to the rounded whole."""
    edges = [_per(total, repeat) for total in accumulate(parts_ns.values(), initial=0)]
    return {key: edge - before for key, (before, edge) in zip(parts_ns, pairwise(edges), strict=True)}


def _per(ns: int, repeat: int) -> int:
    return (2 * ns + repeat) // (2 * repeat)
