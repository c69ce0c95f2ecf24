"""Where the time went in both: totals that may overlap, and parts that add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Annotated

import numpy as np

from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.timeline.activity import orphans
from perfmagic.analysis.timeline.device_operators import categories
from perfmagic.analysis.timeline.idle import idle_gaps
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.base.numerics.intervals import coded
from perfmagic.trace.columns import Int64
from perfmagic.trace.families import CATEGORY_WORDS, Category
from perfmagic.trace.json_form import one_of
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.rows import Rows

# What kind of work each device op is, in few words, for the parts of a comparison.

_OF_COPIES = {
    OpClass.HTOD: "copies host to device",
    OpClass.DTOH: "copies device to host",
    OpClass.DTOD: "copies on the device",
    OpClass.PTOP: "copies between devices",
}


def op_categories(trace: Trace, comm_names: str | None = None) -> tuple[tuple[str, ...], Int64]:
    """The categories that occur, and for each device op its place among them; shape of trace.ops.

    They are those of perfmagic.analysis.timeline.device_operators; copies are distinguished by direction.
    """
    kinds = categories(trace, comm_names).astype(np.int64)
    keys, inverse = coded(kinds * len(OpClass) + op_classes(trace, comm_names))
    words = [_category_name(Category(key // len(OpClass)), OpClass(key % len(OpClass))) for key in keys.tolist()]
    known = tuple(dict.fromkeys(words))
    places = np.array([known.index(word) for word in words], np.int64)
    return known, places[inverse] if words else inverse


def _category_name(category: Category, op_class: OpClass) -> str:
    return _OF_COPIES.get(op_class, CATEGORY_WORDS[category])


UNEXPLAINED = "unexplained"  # as the causes of perfmagic.analysis.timeline.idle
EARLY = "launched before the recording"  # orphans: they are work of no step and of no operator
HEAD, TAIL = "before the first op", "after the last op"
_TOTALS = ("busy", "compute", "communication", "copy", "memset", "exposed_communication", "exposed_copy", "idle")


@dataclass(frozen=True)
class TimeChange:
    """A time in the first trace and in the second.

    name: what it is the time of; of idle time its cause.
    kind: what kind of time: a part of the whole (busy, idle, or at its edge), or a total, which overlaps others.
    op_class: the class of op that most of it has; empty where it is no busy time.
    a_ns: in the first; in ns, of one step where per_step says so.
    b_ns: in the second; likewise in ns.
    diff_ns: how much more the second has.
    """

    name: str
    kind: Annotated[str, one_of("busy", "idle", "edge", "total")]
    op_class: str
    a_ns: int
    b_ns: int

    @property
    def diff_ns(self) -> int:
        """How much longer it is in the second."""
        return self.b_ns - self.a_ns


def parts(first: Side, second: Side, repeats: tuple[int, int]) -> Rows[TimeChange]:
    """Each instant of both once, by what the device did or waited for, the largest difference first.

    Busy time by category, as charged to the ops, but that of orphans together; idle time by cause; what is before the
    first op and after the last. repeats: how many steps the times are divided by. The parts of each side
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
    changes = [
        TimeChange(name, kind, classes.get(name, "") if kind == "busy" else "", *(side[kind, name] for side in divided))
        for kind, name in keys
    ]
    kept = [change for change in changes if change.a_ns or change.b_ns]
    return Rows(sorted(kept, key=lambda change: -abs(change.diff_ns)), TimeChange)


def totals(first: Side, second: Side, repeats: tuple[int, int]) -> Rows[TimeChange]:
    """The whole, and the time of each class, of both; classes overlap, so these do not add up."""
    values: list[tuple[str, Callable[[Side], int]]] = [("whole", lambda side: side.whole_ns)]
    values += [(name, lambda side, name=name: _class_ns(side, name)) for name in _TOTALS]  # type: ignore[misc]
    a, b = repeats
    return Rows(
        (TimeChange(name, "total", "", _per(value(first), a), _per(value(second), b)) for name, value in values),
        TimeChange,
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
