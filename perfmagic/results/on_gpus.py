"""The result of `%%timeline --on H100,A100,T4`: one run, predicted for several GPUs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from perfmagic.base import units
from perfmagic.base.errors import OptionError
from perfmagic.base.language import chained, phrase, say
from perfmagic.predict.gpus import gpu_named
from perfmagic.predict.model import DeviceModel
from perfmagic.predict.runs import GpuStat
from perfmagic.results.result import Result
from perfmagic.results.timeline import TimelineResult
from perfmagic.trace.model import in_its_digits
from perfmagic.trace.rows import Rows

if TYPE_CHECKING:
    from perfmagic.results.briefs.form import Brief
    from perfmagic.view.timeline.picture.gpus import GpusDoc


@dataclass(frozen=True, eq=False)
class OnGpusResult(Result):
    """One run, predicted for several GPUs. The code ran once; the host needs the same time on each, but for its waits.

    timelines: of each GPU, in the order in which they were named.  models: theirs.  peak_bytes: the most memory that
    was allocated, the same on each.
    """

    timelines: tuple[TimelineResult, ...]
    models: tuple[DeviceModel, ...]
    peak_bytes: int
    predicted: ClassVar[bool] = True  # its times have two digits

    @cached_property
    def table(self) -> Rows[GpuStat]:
        """One row per GPU: time with its interval, verdict, busy, queue, the cost of waits (ns), memory (bytes)."""
        rows = Rows((self._row(*pair) for pair in zip(self.models, self.timelines, strict=True)), GpuStat)
        return rows.labelled(phrase("predicted, not recorded"))

    def _row(self, model: DeviceModel, timeline: TimelineResult) -> GpuStat:
        from perfmagic.changes import no_item

        header, answers = timeline.doc.header, timeline.answers
        without = timeline.what_if(no_item())
        return GpuStat(
            gpu=model.name,
            time_ns=header.total_ns,
            low_ns=answers.low_ns,
            high_ns=answers.high_ns,
            verdict=timeline.verdict.kind,
            busy_frac=header.busy_frac,
            queue_max=header.queue_max,
            without_waits_ns=None if without.refused else without.predicted_ns,
            peak_bytes=self.peak_bytes,
            memory_bytes=model.gpu.memory_bytes,
        )

    @property
    def sentence(self) -> str:
        """Which GPU is the fastest of those with the memory, as far as the intervals tell."""
        rows = sorted((row for row in self.table if row.fits), key=lambda row: row.time_ns)
        failed = self.timelines[0].trace.meta.failed
        if failed:
            return phrase("the code failed before its end: {error}", error=failed)
        if not rows:
            return chained("{a}; {b}", map(_does_not_fit, self.table))
        small = [_does_not_fit(row) for row in self.table if not row.fits]
        return chained("{a}; {b}", [self._fastest(rows), *small])

    @staticmethod
    def _fastest(rows: list[GpuStat]) -> str:
        first = rows[0]
        open_with = [row.gpu for row in rows[1:] if first.overlaps(row)]
        if open_with:
            names = chained("{a}, {b}", [first.gpu, *open_with])
            return phrase("which is faster is unclear: {names}; their intervals overlap", names=names)
        return phrase("{gpu} is the fastest", gpu=first.gpu)

    def on(self, gpu: str) -> TimelineResult:
        """The timeline of one GPU. Raises OptionError for one that was not named."""
        name = gpu_named(gpu).name
        names = [model.name for model in self.models]
        if name not in names:
            raise OptionError(f"{name}: the run was not predicted for it", hint=f"predicted for: {', '.join(names)}")
        return self.timelines[names.index(name)]

    @cached_property
    def _doc(self) -> GpusDoc:
        from perfmagic.view.timeline.picture.gpus import GpusDoc

        remarks = self.timelines[0].trace.meta.notes
        notes = tuple(remark.words for remark in remarks if remark.kind != "virtual_clock")  # the table says that
        return GpusDoc(self.sentence, notes, tuple(self.table), tuple(t.doc for t in self.timelines))

    def to_dict(self) -> dict[str, Any]:
        """The sentence and the table, ready for JSON; times in ns."""
        return {"sentence": self.sentence, "gpus": self.table.to_dict()}

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)

    @in_its_digits
    def text(self) -> str:
        """The table, then what to do on the first GPU."""
        from perfmagic.view.timeline.picture.gpus import gpus_text

        return gpus_text(self._doc, self.timelines[0].answers)

    @in_its_digits
    def html(self) -> str:
        """The table, and the timelines one below the other on one axis."""
        from perfmagic.view.timeline.writers import gpus_html

        return gpus_html(self._doc, self.timelines[0].answers)

    def markdown(self) -> str:
        """The table as GitHub's Markdown."""
        from perfmagic.view.timeline.picture.gpus import gpus_markdown

        return gpus_markdown(self._doc)

    def svg(self) -> str:
        """The picture alone."""
        from perfmagic.view.timeline.picture.gpus import gpus_svg

        return gpus_svg(self._doc)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page with the table and the picture, and give its path."""
        from perfmagic.base.files import write_text
        from perfmagic.view.page import live_page

        return write_text(path, live_page("perfmagic timeline", [self.html()]))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the trace of the first GPU, as TimelineResult.save() does, and give its path."""
        return self.timelines[0].save(path)

    def to_tensorboard(self, folder: str | os.PathLike[str], worker: str | None = None) -> Path:
        """Write the first GPU's trace for TensorBoard, as TimelineResult.to_tensorboard() does."""
        return self.timelines[0].to_tensorboard(folder, worker)

    @in_its_digits
    def _brief(self) -> Brief:
        from perfmagic.results.briefs.jobs import gpus_brief

        return gpus_brief(self.sentence, self.table)

    def __repr__(self) -> str:
        return say("one run on several GPUs, predicted: {times}", times=self.sentence)


def _does_not_fit(row: GpuStat) -> str:
    words = {"peak": units.rough_size(row.peak_bytes), "there": units.rough_size(row.memory_bytes)}
    return phrase("{gpu} does not fit: needs {peak} of {there}", gpu=row.gpu, **words)
