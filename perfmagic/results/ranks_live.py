"""The live view of several ranks, and what stands in its place where it cannot run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfmagic.results.timeline import TimelineResult
from perfmagic.view.timeline.viewstate import ViewState

if TYPE_CHECKING:
    from perfmagic.view.ranks.doc import RankRow, RanksDoc
    from perfmagic.view.timeline.wire import Wire

WITH_FINDINGS = 8  # timelines of ranks that have findings of their own: each takes as long as the rest of its data
NO_FINDINGS = "its own findings are not worked out here: .rank({rank}).findings has them"


def wire_of(ranks: RanksDoc, rows: Iterable[tuple[RankRow, TimelineResult]]) -> Wire:
    """The data of the live view: a row a rank, and behind each of these its own timeline on the common axis."""
    from perfmagic.view.ranks.wire import ranks_wire, window_on_axis
    from perfmagic.view.timeline.doc import timeline_doc
    from perfmagic.view.timeline.wire import timeline_wire

    parts: dict[int, Wire] = {}
    for row, one in rows:
        start_ns, end_ns = window_on_axis(ranks, row)
        findings = one.findings if len(parts) < WITH_FINDINGS else ()
        doc = timeline_doc(one.trace, findings, start_ns=start_ns, end_ns=end_ns, comm_names=one.comm_names)
        if len(parts) >= WITH_FINDINGS:
            doc = replace(doc, trust=(NO_FINDINGS.format(rank=row.rank), *doc.trust))
        parts[row.rank] = timeline_wire(doc, one.trace)
    return ranks_wire(ranks, parts)


@dataclass(frozen=True)
class LiveRanks:
    """A LiveView.  document, data, picture: made when they are asked for: a page that is never opened costs nothing."""

    title: str
    state: ViewState
    empty: bool
    document: Callable[[], RanksDoc]
    data: Callable[[], Wire]
    picture: Callable[[], str]

    def wire(self) -> Wire:
        return self.data()

    def picture_html(self) -> str:
        from perfmagic.view.timeline.html import ONLY_THE_PICTURE

        return ONLY_THE_PICTURE + self.picture()

    def frame_html(self) -> str:
        from perfmagic.view.ranks.live import ranks_section
        from perfmagic.view.timeline.live import framed_page

        section = ranks_section(self.document(), self.data())
        return framed_page(self.title, section, self.picture())
