"""The result of %%ranks --sweep: one cell on several numbers of ranks, with its picture."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic import units
from perfmagic.analysis.ranks.efficiency import Scaling
from perfmagic.analysis.ranks.scaling import RunOfRanks, ScalingStat, run_of, scaling_table, scaling_words
from perfmagic.analysis.rows import Rows
from perfmagic.errors import OptionError
from perfmagic.files import write_text
from perfmagic.results.faces import Result
from perfmagic.results.ranks import RanksResult
from perfmagic.results.ranks_folder import SWEEP_FORMAT, damaged_folder, folder_to_save, read_about, write_about
from perfmagic.trace.model import devices_label

if TYPE_CHECKING:
    import pandas as pd

    from perfmagic.view.ranks.scaling import ScalingDoc

SAVE_HINT = 'save("found") writes one; to_json() has the table, to_html() writes a page'


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
        ordered = sorted(runs, key=lambda some: len(some[0].timelines))
        timed = [sorted(((run_of(one.ranks).time_ns, i) for i, one in enumerate(some))) for some in ordered]
        middle = [some[times[(len(times) - 1) // 2][1]] for some, times in zip(ordered, timed, strict=True)]
        times_ns = tuple(tuple(run_of(one.ranks).time_ns for one in some) for some in ordered)
        return cls(tuple(middle), times_ns, scaling, failed)

    @cached_property
    def _runs(self) -> dict[int, RunOfRanks]:
        return {len(one.timelines): run_of(one.ranks) for one in self.results}

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
        words = scaling_words(self.table, self.scaling, compute_known=known)
        return f"{words}. {self.failed}" if self.failed else words

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
        """Write the traces into a folder, a folder for each number of ranks (n1, n2 …) with a file a rank; gives it.

        perfmagic.load(folder) gives the same back. Raises OptionError where it cannot be written, and for a name that
        ends as a file.
        """
        folder = folder_to_save(path, "a sweep over ranks", SAVE_HINT)
        for n, one in zip(self.n, self.results, strict=True):
            one.save(folder / f"n{n}")
        times_ns = {str(n): list(times) for n, times in zip(self.n, self.times_ns, strict=True)}
        about = {"n": self.n, "times_ns": times_ns, "scaling": self.scaling, "failed": self.failed}
        write_about(folder, SWEEP_FORMAT, about)
        return folder

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RanksSweep:
        """What save() wrote. Raises OptionError for another folder, TraceError where a trace in it cannot be read."""
        folder, about = read_about(path, SWEEP_FORMAT, "sweep over ranks")
        try:
            numbers, scaling, failed = [int(n) for n in about["n"]], about["scaling"], str(about["failed"])
            times_ns = tuple(tuple(int(ns) for ns in about["times_ns"][str(n)]) for n in numbers)
            if scaling not in ("weak", "strong") or not numbers:
                raise ValueError(f"{scaling} scaling on {numbers} ranks")
        except (LookupError, TypeError, ValueError) as error:
            raise damaged_folder(folder, "sweep over ranks", error) from None
        return cls(tuple(RanksResult.load(folder / f"n{n}") for n in numbers), times_ns, scaling, failed)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page (no network, no script) and give its path."""
        from perfmagic.view.page import page

        return write_text(path, page(f"{self.scaling} scaling to {self.n[-1]} ranks", [self.html()]))

    @cached_property
    def doc(self) -> ScalingDoc:
        """The document every face is made from."""
        from perfmagic.view.ranks.scaling import ScalingDoc

        n_runs = sorted({len(times) for times in self.times_ns})
        return ScalingDoc(self.sentence, self.table, self.scaling, self.device_label, (n_runs[0], n_runs[-1]))

    def text(self) -> str:
        """The sentence, a row for each number of ranks, and how it was measured."""
        from perfmagic.view.ranks.scaling import scaling_text

        return scaling_text(self.doc)

    def html(self) -> str:
        """The sentence, speed-up and time beside the ideal, the table."""
        from perfmagic.view.ranks.scaling import scaling_html

        return scaling_html(self.doc)

    def markdown(self) -> str:
        """The sentence and the table as GitHub's Markdown."""
        from perfmagic.view.report.scaling import scaling_markdown

        return scaling_markdown(self.doc)

    def __repr__(self) -> str:
        return self.sentence
