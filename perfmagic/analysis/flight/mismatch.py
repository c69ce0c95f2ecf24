"""Ranks whose calls with one number of one group are not the same collective.

What may differ: torch/distributed/flight_recorder/components/types.py, Op.match (read in 2.13). Numbers of elements are
compared, as libraries do, not shapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from perfmagic.analysis.flight.job import Job, Operation
from perfmagic.base import units
from perfmagic.trace.formats.flight import Call, Group

_UNEVEN = re.compile(r"all_?to_?all|_v(?:_|$)|^coalesced$", re.IGNORECASE)  # each rank has sizes of its own
_ONE_ROOT = {"scatter": "inputs", "gather": "outputs"}  # only one rank has them


Parts = list[tuple[str, list[int]]]  # what is asked for, and by which ranks


def mismatch(operation: Operation) -> Parts:
    """What its ranks ask for, the rarest first; empty where they agree."""
    for describe in (_name, _elements, _types):
        found: dict[object, list[int]] = {}
        for rank, call in sorted(operation.calls.items()):
            found.setdefault(describe(call), []).append(rank)
        if len(found) > 1:
            ordered = sorted(found.values(), key=len)
            labels = [_LABELS[describe](operation.calls[ranks[0]]) for ranks in ordered]
            return list(zip(_distinct(labels, ordered, operation), ordered, strict=True))
    return []


def first_mismatches(job: Job, *, standing: bool) -> list[tuple[Operation, Parts]]:
    """The first of each group: what follows it is out of step.

    standing: of those after the last collective in which all its ranks agreed and that ended; else of those before.
    """
    found = []
    for group, numbers in job.by_number.items():
        different = {
            number: parts
            for number, calls in sorted(numbers.items())
            if len({(call.name, call.inputs, call.outputs, call.dtypes) for call in calls.values()}) > 1
            and (parts := mismatch(Operation(group, number, calls, ())))
        }
        agreed = max((n for n in numbers.keys() - different if _is_done(job, group, numbers[n])), default=-1)
        first = next((number for number in different if (number > agreed) == standing), None)
        if first is not None:
            found.append((Operation(group, first, numbers[first], ()), different[first]))
    return found


def _is_done(job: Job, group: Group, calls: Mapping[int, Call]) -> bool:
    return len(calls) == len(job.members(group)) and all(call.ended for call in calls.values())


def _name(call: Call) -> object:
    return call.name


def _elements(call: Call) -> object:
    return () if _UNEVEN.search(call.name) else tuple(getattr(call, side) for side in _sides(call))


def _types(call: Call) -> object:
    inputs, outputs = (frozenset(side) for side in call.dtypes)
    of_sides = {"inputs": inputs, "outputs": outputs}
    return tuple(of_sides[side] for side in _sides(call))


def _sides(call: Call) -> tuple[str, ...]:
    return tuple(side for side in ("inputs", "outputs") if _ONE_ROOT.get(call.name) != side)


def size_label(call: Call) -> str:
    """`16 B`, or the number of elements where the type is not known."""
    if call.size_bytes is not None:
        return units.size(call.size_bytes)
    return units.count(sum(max(call.inputs, call.outputs, key=sum)))


def _type_label(call: Call) -> str:
    return ", ".join(sorted({kind for side in call.dtypes for kind in side}))


def _distinct(labels: list[str], ordered: list[list[int]], operation: Operation) -> list[str]:
    """The labels; where two read alike, with the elements of each tensor."""
    if len(set(labels)) == len(labels):
        return labels
    calls = [operation.calls[ranks[0]] for ranks in ordered]
    return [f"{label} ({call.inputs} → {call.outputs})" for label, call in zip(labels, calls, strict=True)]


_LABELS: dict[Callable[[Call], object], Callable[[Call], str]] = {
    _name: lambda call: call.name,
    _elements: size_label,
    _types: _type_label,
}
