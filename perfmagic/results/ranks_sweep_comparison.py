"""The result of comparing two sweeps over numbers of ranks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfmagic import units
from perfmagic.analysis.ranks.efficiency import Scaling
from perfmagic.analysis.ranks.scaling_change import ScalingChange, change_words, scaling_changes
from perfmagic.analysis.rows import Rows
from perfmagic.errors import OptionError
from perfmagic.results.faces import Result
from perfmagic.results.ranks_sweep import RanksSweep

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class RanksSweepComparison(Result):
    """Two sweeps of one cell over numbers of ranks, such as before and after a change.

    names: what sentences call them.  table: a row for each number of ranks that both have.  no_verdict: why none is
    given, "" where one is.  notes: what a reader must know, in sentences.
    """

    names: tuple[str, str]
    table: Rows[ScalingChange]
    scaling: Scaling
    no_verdict: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, first: RanksSweep, second: RanksSweep, names: tuple[str, str]) -> RanksSweepComparison:
        """What changed from the first sweep to the second. Raises OptionError where they have nothing in common."""
        if first.scaling != second.scaling:
            raise OptionError(
                f"compare: {names[0]} has {first.scaling} scaling, {names[1]} has {second.scaling}",
                hint="sweep both with --strong, or both without",
            )
        times_ns = [dict(zip(one.n, one.times_ns, strict=True)) for one in (first, second)]
        table = scaling_changes(first.table, second.table, (times_ns[0], times_ns[1]))
        if not len(table):
            numbers = [", ".join(map(str, one.n)) for one in (first, second)]
            raise OptionError(
                f"compare: {names[0]} has {numbers[0]} ranks, {names[1]} has {numbers[1]}: none is in both",
                hint="sweep both over the same numbers of ranks",
            )
        labels = first.device_label, second.device_label
        no_verdict = f"{names[0]} ran on {labels[0]}, {names[1]} on {labels[1]}" if labels[0] != labels[1] else ""
        return cls(names, table, first.scaling, no_verdict, _notes(first, second, names))

    @property
    def headline(self) -> str:
        """What changed on the most ranks in one sentence, or why that is not said."""
        if self.no_verdict:
            return f"No verdict: {self.no_verdict}"
        return change_words(self.table, self.names)

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "headline": self.headline,
            "names": list(self.names),
            "scaling": self.scaling,
            "no_verdict": self.no_verdict,
            "notes": list(self.notes),
            "ranks": self.table.to_dict(),
        }

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)

    def to_frame(self) -> pd.DataFrame:
        """One row for each number of ranks. Needs pandas."""
        return self.table.to_frame()

    def text(self) -> str:
        """The verdict, a row for each number of ranks, and what a reader must know."""
        from perfmagic.view.ranks.scaling_change import change_text

        return change_text(self.headline, self.table, self.names, self.notes)

    def html(self) -> str:
        """The same as HTML."""
        from perfmagic.view.ranks.scaling_change import change_html

        return change_html(self.headline, self.table, self.names, self.notes)

    def __repr__(self) -> str:
        return self.headline


def _notes(first: RanksSweep, second: RanksSweep, names: tuple[str, str]) -> tuple[str, ...]:
    """How often each was measured, what only one has, and what the ranks had to share."""
    each = [_runs(one) for one in (first, second)]
    said = [f"{each[0]} of {names[0]} and {each[1]} of {names[1]}, one sweep after the other: no statistics"]
    only = sorted({*first.n} ^ {*second.n})
    said += [f"only one has {', '.join(map(str, only))} ranks"] if only else []
    crowded = [row for one in (first, second) for row in one.table if row.crowded]
    if crowded:
        where = f"{crowded[-1].ranks} ranks shared {units.plural(crowded[-1].cores or 0, 'core')}"
        said.append(f"{where}: waiting for a core may be a part of any difference")
    ended = [f"{name}: {one.failed}" for name, one in zip(names, (first, second), strict=True) if one.failed]
    return (*said, *ended)


def _runs(sweep: RanksSweep) -> str:
    """How often each number of ranks was measured."""
    counts = sorted({len(times) for times in sweep.times_ns})
    return units.plural(counts[0], "run") if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]} runs"
