"""A cell on several numbers of ranks: its table and its faces as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfmagic import units
from perfmagic.analysis.ranks.scaling import ScalingStat
from perfmagic.view.html import cells_table, framed, image, paragraphs, short
from perfmagic.view.ranks.scaling_picture import draw_scaling
from perfmagic.view.text import table, wrapped

HEAD = (
    "ranks", "time", "ideal", "speed-up", "efficiency", "compute", "exposed comm.", "waiting for ranks",
    "waiting for a core",
)  # fmt: skip
SAME_WORK = {"weak": "each rank has the same work", "strong": "all ranks share one work"}


@dataclass(frozen=True, eq=False)
class ScalingDoc:
    """sentence: what is lost, and to what.  rows: the fewest ranks first.  n_runs: of each, the fewest and the most."""

    sentence: str
    rows: Sequence[ScalingStat]
    scaling: str
    device_label: str
    n_runs: tuple[int, int]

    @property
    def fine_print(self) -> str:
        """How it was measured, the device last."""
        fewest, most = self.n_runs
        runs = "one run each" if most == 1 else f"median of {fewest if fewest == most else f'{fewest} to {most}'} runs"
        return f"{self.scaling} scaling: {SAME_WORK[self.scaling]} \u00b7 {runs} \u00b7 {self.device_label}"

    @property
    def note(self) -> str:
        """What the columns are."""
        return (
            f"Speed-up and efficiency are against {units.plural(self.rows[0].ranks, 'rank')}. The other times are the "
            "mean of the ranks. Exposed: with no compute beside it; waiting for ranks is a part of it. "
            "Waiting for a core: all threads of a rank added up"
        )


def scaling_cells(doc: ScalingDoc) -> list[tuple[str, ...]]:
    """A row for each number of ranks under HEAD."""
    return [
        (
            str(row.ranks),
            units.duration(row.time_ns),
            units.duration(row.ideal_ns),
            f"\u00d7 {units.significant(row.speedup)}",
            units.percent(row.efficiency_frac),
            units.duration(row.compute_ns),
            units.duration(row.exposed_communication_ns),
            units.duration(row.exposed_waiting_ns),
            "" if row.waited_for_core_ns is None else units.duration(row.waited_for_core_ns),
        )
        for row in doc.rows
    ]


def scaling_text(doc: ScalingDoc) -> str:
    """The sentence, the table and the fine print, as wide as the terminal."""
    lines = [*wrapped(doc.sentence), "", *table(HEAD, scaling_cells(doc)), ""]
    lines += [*wrapped(doc.note), *wrapped(doc.fine_print)]
    return "\n".join(line.rstrip() for line in lines)


def scaling_html(doc: ScalingDoc) -> str:
    """The sentence, the picture as an image, the table and the fine print; survives sanitisers."""
    line = f'<div style="margin:4px 0"><b>{short(doc.sentence)}</b></div>'
    picture = image(draw_scaling(doc.rows, doc.scaling, doc.device_label, doc.sentence), doc.sentence)
    return framed(line + picture + cells_table(HEAD, scaling_cells(doc)) + paragraphs([doc.note, doc.fine_print]))
