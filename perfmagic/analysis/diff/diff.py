"""What changed between two timelines, and where."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from perfmagic.analysis.diff.comparable import notes, repeats_of, unlike
from perfmagic.analysis.diff.lines import LineChange, line_changes
from perfmagic.analysis.diff.owners import has_shapes
from perfmagic.analysis.diff.replaced import Replacement, replacements
from perfmagic.analysis.diff.side import ComparedTrace, Side, busiest_devices
from perfmagic.analysis.diff.steps import StepChange, step_changes
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
    divided, (1, 1) where whole recordings are compared.  parts: each instant of both once; they add up.  totals: by
    class, which may overlap.  operators, kernels, replaced: the work, matched by name and shape, and what took whose
    place.  steps, lines: empty where a trace has none.  notes: what a reader must know, in sentences.
    """

    a: ComparedTrace
    b: ComparedTrace
    no_verdict: str
    repeats: tuple[int, int]
    parts: Rows[TimeChange]
    totals: Rows[TimeChange]
    operators: Rows[OperatorChange]
    kernels: Rows[KernelChange]
    replaced: Rows[Replacement]
    steps: Rows[StepChange]
    lines: Rows[LineChange]
    notes: tuple[str, ...]

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
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "notes": list(self.notes),
            **{
                name: getattr(self, name).to_dict()
                for name in ("parts", "totals", "operators", "kernels", "replaced", "steps", "lines")
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
    devices = busiest_devices(first, second)
    as_cell = all(trace.meta.returned_ns is not None for trace in (first, second))
    a, b = (
        Side(trace, name, title, device, as_cell, pattern)
        for trace, name, title, device, pattern in zip((first, second), names, titles, devices, comm_names, strict=True)
    )
    repeats = repeats_of(a, b)
    by_shape = has_shapes(first) and has_shapes(second)
    operators = operator_changes(a, b, repeats, by_shape=by_shape)
    kernels = kernel_changes(a, b, repeats, by_shape=by_shape)
    return TraceDiff(
        a=a.facts,
        b=b.facts,
        no_verdict=unlike(a, b, operators, kernels, repeats),
        repeats=repeats,
        parts=parts(a, b, repeats),
        totals=totals(a, b, repeats),
        operators=operators,
        kernels=kernels,
        replaced=replacements(a, b, repeats, by_shape=by_shape),
        steps=step_changes(a, b),
        lines=line_changes(a, b),
        notes=notes(a, b, operators, repeats),
    )
