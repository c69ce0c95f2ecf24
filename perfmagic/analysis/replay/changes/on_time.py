"""No rank later than the others: a change of a job, which is made where its ranks are together."""

from __future__ import annotations

from dataclasses import dataclass

from perfmagic.analysis.replay.changes.change import Change, Stage
from perfmagic.analysis.replay.graph import Graph


@dataclass(frozen=True)
class OnTime(Change):
    """No rank comes later to a collective than the median of its ranks: see perfmagic.analysis.ranks.job.on_time."""

    stage = Stage.LENGTHS

    @property
    def words(self) -> str:
        return "no rank comes later to a collective than the median of its ranks"

    def refusal(self, graph: Graph) -> str:
        return "this is the record of one rank: who was late is known where all ranks are together"

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        return graph
