"""The result of %%ranks --sweep: one cell on several numbers of ranks, with its picture."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from perfmagic.analysis.bench.saved import damage_of
from perfmagic.analysis.findings.answer import Conclusion
from perfmagic.analysis.ranks.scaling import (
    RunOfRanks,
    Scaling,
    ScalingChange,
    ScalingStat,
    conclude_scaling,
    describe_scaling,
    describe_scaling_change,
    run_of,
    scaling_changes,
    scaling_table,
)
from perfmagic.base import units
from perfmagic.base.errors import OptionError
from perfmagic.base.files import write_text
from perfmagic.results.ranks import ABOUT, SWEEP_FORMAT, RanksResult, folder_to_save, read_about, write_about
from perfmagic.results.result import Result
from perfmagic.trace.json_form import Ns
from perfmagic.trace.model import devices_label
from perfmagic.trace.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

    from perfmagic.results.briefs.form import Brief
    from perfmagic.view.ranks.scaling import ScalingDoc


SAVE_HINT = 'save("found") writes one; to_json() has the table, to_html() writes a page'


_Times = Annotated[tuple[Ns, ...], msgspec.Meta(min_length=1)]


class _Saved(msgspec.Struct):
    """What is beside the folders of the runs."""

    n: Annotated[tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(min_length=1)]
    times_ns: dict[str, _Times]
    scaling: Scaling
    failed: str


@dataclass(frozen=True, eq=False)
class RanksSweep(Result):
    """A cell measured on several numbers of ranks.

    results: the run of median time for each number of ranks, the fewest first.  times_ns: of every run, likewise.
    scaling: "weak" where each rank has the same work whatever their number, "strong" where all share one.
    failed: what ended it early, and on how many ranks; then the numbers of ranks before are here.
    """

    results: tuple[RanksResult, ...]
    times_ns: tuple[tuple[int, ...], ...]
    scaling: Scaling
    failed: str = ""

    @classmethod
    def of(cls, runs: Sequence[Sequence[RanksResult]], scaling: Scaling, *, failed: str = "") -> RanksSweep:
        """A sweep of some runs.  runs: those of one number of ranks beside each other. Raises OptionError for none."""
        if not runs or not all(runs):
            raise OptionError("RanksSweep.of: a run for each number of ranks is needed")
        medians, times_ns = [], []
        for results in sorted(runs, key=lambda results: len(results[0].timelines)):
            times = [run_of(result.ranks).time_ns for result in results]
            by_time = sorted(range(len(times)), key=times.__getitem__)
            medians.append(results[by_time[(len(times) - 1) // 2]])
            times_ns.append(tuple(times))
        return cls(tuple(medians), tuple(times_ns), scaling, failed)

    @cached_property
    def _runs(self) -> dict[int, RunOfRanks]:
        return {len(result.timelines): run_of(result.ranks) for result in self.results}

    @cached_property
    def table(self) -> Rows[ScalingStat]:
        """A row for each number of ranks: time, ideal time, speed-up, efficiency, and where the time went (ns)."""
        return scaling_table(self._runs, self.scaling)

    @property
    def n(self) -> tuple[int, ...]:
        """The numbers of ranks, rising."""
        return tuple(self._runs)

    @property
    def sentence(self) -> str:
        """How efficient the most ranks are, what is lost and to what."""
        known = all(run.compute_known for run in self._runs.values())
        words = describe_scaling(self.table, self.scaling, compute_known=known)
        return f"{words}. {self.failed}" if self.failed else words

    @property
    def conclusion(self) -> Conclusion:
        """How efficient the most ranks are, and what to do about the loss, in English."""
        known = all(run.compute_known for run in self._runs.values())
        return conclude_scaling(self.table, self.scaling, compute_known=known, failed=self.failed)

    @property
    def device_label(self) -> str:
        """What the ranks computed on."""
        return devices_label(self.results[-1].ranks.traces[0].meta.devices) or "CPU"

    def on(self, n: int) -> RanksResult:
        """The run on n ranks, with each rank's timeline. Raises OptionError for a number that was not measured."""
        if n not in self._runs:
            known = ", ".join(map(str, self.n))
            raise OptionError(f"{units.plural(n, 'rank')}: not measured", hint=f"measured: {known}")
        return self.results[self.n.index(n)]

    def to_dict(self) -> dict[str, Any]:
        """The sentence, the table and every run's time, ready for JSON."""
        return {
            "scaling": self.scaling,
            "sentence": self.sentence,
            "conclusion": self.conclusion.to_dict(),
            "failed": self.failed,
            "device": self.device_label,
            "ranks": self.table.to_dict(),
            "times_ns": {str(n): list(times) for n, times in zip(self.n, self.times_ns, strict=True)},
        }

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)

    def to_frame(self) -> pd.DataFrame:
        """One row for each number of ranks. Needs pandas."""
        return self.table.to_frame()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the traces into a folder, one for each number of ranks (n1, n2 …), with one file per rank; gives it.

        perfmagic.load(folder) restores it. Raises OptionError where it cannot be written, and for a name that
        ends as a file.
        """
        folder = folder_to_save(path, "a sweep over ranks", SAVE_HINT)
        for n, result in zip(self.n, self.results, strict=True):
            result.save(folder / f"n{n}")
        times_ns = {str(n): list(times) for n, times in zip(self.n, self.times_ns, strict=True)}
        about = {"n": self.n, "times_ns": times_ns, "scaling": self.scaling, "failed": self.failed}
        write_about(folder, SWEEP_FORMAT, about)
        return folder

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RanksSweep:
        """What save() wrote. Raises OptionError for another folder, TraceError where a trace in it cannot be read."""
        folder, about = read_about(path, SWEEP_FORMAT, "sweep over ranks", _Saved)
        with damage_of("sweep over ranks", f"{folder / ABOUT}: "):
            if {str(n) for n in about.n} != about.times_ns.keys() or sorted(set(about.n)) != [*about.n]:
                raise ValueError(f"numbers of ranks {about.n}, times of {', '.join(about.times_ns)}")
            results = tuple(RanksResult.load(folder / f"n{n}") for n in about.n)
            if wrong := [n for n, result in zip(about.n, results, strict=True) if len(result.timelines) != n]:
                raise ValueError(f"n{wrong[0]} holds other than {wrong[0]} ranks")
        return cls(results, tuple(about.times_ns[str(n)] for n in about.n), about.scaling, about.failed)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page (no network, no script) and give its path."""
        from perfmagic.view.page import page

        return write_text(path, page(f"{self.scaling} scaling to {self.n[-1]} ranks", [self.html()]))

    @cached_property
    def doc(self) -> ScalingDoc:
        """The document that text, page and pictures are made from."""
        from perfmagic.view.ranks.scaling import ScalingDoc

        n_runs = sorted({len(times) for times in self.times_ns})
        return ScalingDoc(self.conclusion, self.table, self.scaling, self.device_label, (n_runs[0], n_runs[-1]))

    def text(self, *, details: bool = False) -> str:
        """How efficient the most ranks are and what to do, a row for each number.  details: all columns, as well."""
        from perfmagic.view.ranks.scaling import scaling_text

        return scaling_text(self.doc, details=details)

    def html(self) -> str:
        """How efficient the most ranks are and what to do, speed-up and time beside the ideal, the table."""
        from perfmagic.view.ranks.scaling import scaling_html

        return scaling_html(self.doc)

    def markdown(self) -> str:
        """How efficient the most ranks are, what to do, and the table as GitHub's Markdown."""
        from perfmagic.view.ranks.scaling import scaling_markdown

        return scaling_markdown(self.doc)

    def _brief(self) -> Brief:
        from perfmagic.results.briefs.jobs import scaling_brief

        return scaling_brief(self.conclusion, self.table, self.device_label, self.failed)

    def __repr__(self) -> str:
        return self.sentence


# The result of comparing two sweeps over numbers of ranks.


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
            message = f"compare: {names[0]} has {first.scaling} scaling, {names[1]} has {second.scaling}"
            raise OptionError(message, hint="sweep both with --strong, or both without")
        times_ns = [dict(zip(sweep.n, sweep.times_ns, strict=True)) for sweep in (first, second)]
        table = scaling_changes(first.table, second.table, (times_ns[0], times_ns[1]))
        if not len(table):
            numbers = [", ".join(map(str, sweep.n)) for sweep in (first, second)]
            message = f"compare: {names[0]} has {numbers[0]} ranks, {names[1]} has {numbers[1]}: none is in both"
            raise OptionError(message, hint="sweep both over the same numbers of ranks")
        labels = first.device_label, second.device_label
        no_verdict = f"{names[0]} ran on {labels[0]}, {names[1]} on {labels[1]}" if labels[0] != labels[1] else ""
        return cls(names, table, first.scaling, no_verdict, _notes(first, second, names))

    @property
    def headline(self) -> str:
        """What changed on the most ranks in one sentence, or why that is not said."""
        if self.no_verdict:
            return f"No verdict: {self.no_verdict}"
        return describe_scaling_change(self.table, self.names)

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
        from perfmagic.view.ranks.scaling import change_text

        return change_text(self.headline, self.table, self.names, self.notes)

    def html(self) -> str:
        """The same as HTML."""
        from perfmagic.view.ranks.scaling import change_html

        return change_html(self.headline, self.table, self.names, self.notes)

    def _brief(self) -> Brief:
        from perfmagic.results.briefs.jobs import scaling_change_brief

        return scaling_change_brief(self.headline, self.table, self.names, self.no_verdict, self.notes)

    def __repr__(self) -> str:
        return self.headline


def _notes(first: RanksSweep, second: RanksSweep, names: tuple[str, str]) -> tuple[str, ...]:
    """How often each was measured, what only one has, and what the ranks had to share."""
    each = [_runs(sweep) for sweep in (first, second)]
    said = [f"{each[0]} of {names[0]} and {each[1]} of {names[1]}, one sweep after the other: no statistics"]
    only = sorted({*first.n} ^ {*second.n})
    said += [f"only one has {', '.join(map(str, only))} ranks"] if only else []
    crowded = [row for sweep in (first, second) for row in sweep.table if row.crowded]
    if crowded:
        where = f"{crowded[-1].ranks} ranks shared {units.plural(crowded[-1].cores or 0, 'core')}"
        said.append(f"{where}: waiting for a core may be a part of any difference")
    ended = [f"{name}: {sweep.failed}" for name, sweep in zip(names, (first, second), strict=True) if sweep.failed]
    return (*said, *ended)


def _runs(sweep: RanksSweep) -> str:
    """How often each number of ranks was measured."""
    counts = sorted({len(times) for times in sweep.times_ns})
    return units.plural(counts[0], "run") if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]} runs"
