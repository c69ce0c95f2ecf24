"""What changed between two timelines, and where."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfmagic.analysis.diff.comparable import notes, repeats_of, unlike
from perfmagic.analysis.diff.lines import LineChange, line_changes
from perfmagic.analysis.diff.owners import has_shapes
from perfmagic.analysis.diff.ranks import RankChange, Waiting, rank_changes, rank_notes
from perfmagic.analysis.diff.replaced import Replacement, replacements
from perfmagic.analysis.diff.side import ComparedTrace, Side, busiest_devices
from perfmagic.analysis.diff.steps import StepChange, most_changed_words, step_changes
from perfmagic.analysis.diff.times import TimeChange, parts, totals
from perfmagic.analysis.diff.words import headline
from perfmagic.analysis.diff.work import KernelChange, OperatorChange, kernel_changes, operator_changes
from perfmagic.analysis.rows import Rows
from perfmagic.trace.model import Trace

SCHEMA_VERSION = 1  # raised by what changes the meaning of a key, or takes one away


@dataclass(frozen=True, eq=False)
class TraceDiff:
    """What changed from one timeline to another; times in ns.

    a, b: the two.  no_verdict: why none is given, "" where one is.  repeats: the steps of each by which times are
    divided, (1, 1) where whole recordings are compared.  as_cell: whole cells are compared, not extents of a device.
    by_shape: operators are matched by the shape of their inputs too, which both recorded.
    of_samples: one is a sample of a recording, so that counts, totals, and what is new or gone say little.
    parts: each instant of both once; they add up.  totals: by class, which may overlap.  operators, kernels, replaced:
    the work, matched by name and shape, and what took whose place.  steps, lines: empty where a trace has none.
    notes: what a reader must know, in sentences.  ranks: of two jobs; the rest is then about the median rank.
    """

    a: ComparedTrace
    b: ComparedTrace
    no_verdict: str
    as_cell: bool
    by_shape: bool
    repeats: tuple[int, int]
    of_samples: bool
    parts: Rows[TimeChange]
    totals: Rows[TimeChange]
    operators: Rows[OperatorChange]
    kernels: Rows[KernelChange]
    replaced: Rows[Replacement]
    steps: Rows[StepChange]
    lines: Rows[LineChange]
    notes: tuple[str, ...]
    ranks: Rows[RankChange]

    @property
    def whole(self) -> TimeChange:
        """What took how long: the cell, the device's extent, or the mean step."""
        return self.totals[0]

    @property
    def per_step(self) -> bool:
        """Whether the times are of one step each."""
        return self.repeats != (1, 1)

    @property
    def idle(self) -> Rows[TimeChange]:
        """The idle time of both, by cause."""
        return Rows((part for part in self.parts if part.kind == "idle"), TimeChange)

    @property
    def headline(self) -> str:
        """The verdict in one sentence: how much shorter or longer, and by what."""
        return headline(self.a, self.b, self.whole, self.parts, self.no_verdict, per_step=self.per_step)

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON. Source: docs/comparison.schema.json."""
        return {
            "schema_version": SCHEMA_VERSION,
            "headline": self.headline,
            "no_verdict": self.no_verdict,
            "per_step": self.per_step,
            "as_cell": self.as_cell,
            "by_shape": self.by_shape,
            "of_samples": self.of_samples,
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "notes": list(self.notes),
            **{
                name: getattr(self, name).to_dict()
                for name in ("parts", "totals", "operators", "kernels", "replaced", "steps", "lines", "ranks")
            },
        }

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)


def trace_diff(
    first: Trace,
    second: Trace,
    *,
    names: tuple[str, str] = ("A", "B"),
    titles: tuple[str, str] = ("", ""),
    comm_names: tuple[str | None, str | None] = (None, None),
) -> TraceDiff:
    """What changed from the first trace to the second.

    names: what sentences call them.  titles: the files.  comm_names: as in perfmagic.trace.names.op_classes, of each.
    """
    return _diff(*sides(first, second, names, titles, comm_names))


def jobs_diff(
    first: Mapping[int, Side],
    second: Mapping[int, Side],
    missing: Sequence[int] = (),
    waiting_ns: Waiting = ({}, {}),
) -> TraceDiff:
    """What changed from one job to another, by rank: the median rank in full, and the others beside it.

    missing: the ranks that only one of them has.  waiting_ns: as in rank_changes().
    """
    ranks = rank_changes(first, second, waiting_ns)
    median = next(row.rank for row in ranks if row.median)
    found = _diff(first[median], second[median])
    said = (*rank_notes(ranks, missing), *most_changed_words(found.steps))
    return replace(found, ranks=ranks, notes=(*said, *found.notes))


def sides(
    first: Trace,
    second: Trace,
    names: tuple[str, str],
    titles: tuple[str, str],
    comm_names: tuple[str | None, str | None],
) -> tuple[Side, Side]:
    """Two traces as sides of a comparison, the arguments as in trace_diff()."""
    devices = busiest_devices(first, second)
    as_cell = all(trace.meta.returned_ns is not None for trace in (first, second))
    a, b = (
        Side(trace, name, title, device, as_cell, pattern)
        for trace, name, title, device, pattern in zip((first, second), names, titles, devices, comm_names, strict=True)
    )
    return a, b


def _diff(a: Side, b: Side) -> TraceDiff:
    repeats, of_samples = repeats_of(a, b), a.sampled or b.sampled
    if repeats != (1, 1):
        a, b = replace(a, by_step=True), replace(b, by_step=True)
    by_shape = has_shapes(a.trace) and has_shapes(b.trace)
    operators = operator_changes(a, b, repeats, by_shape=by_shape)
    kernels = kernel_changes(a, b, repeats, by_shape=by_shape)
    return TraceDiff(
        a=a.facts,
        b=b.facts,
        no_verdict=unlike(a, b, operators, kernels, repeats),
        as_cell=a.as_cell,
        by_shape=by_shape,
        repeats=repeats,
        of_samples=of_samples,
        parts=parts(a, b, repeats),
        totals=totals(a, b, repeats),
        operators=operators,
        kernels=kernels,
        replaced=Rows((), Replacement) if of_samples else replacements(a, b, repeats, by_shape=by_shape),
        steps=step_changes(a, b),
        lines=line_changes(a, b),
        notes=notes(a, b, operators, repeats),
        ranks=Rows((), RankChange),
    )
