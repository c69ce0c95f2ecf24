"""The ranks of one job: a row a rank on one time axis, with what they say together."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic import units
from perfmagic.analysis.ranks.alignment import Alignment
from perfmagic.analysis.ranks.arrows import arrows
from perfmagic.analysis.ranks.clock_facts import Ping
from perfmagic.analysis.ranks.files import stretches
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.findings import findings_of, mixed_jobs
from perfmagic.analysis.ranks.host_as_device import host_as_device
from perfmagic.analysis.ranks.jobs import jobs
from perfmagic.analysis.ranks.kernels_of_ranks import KernelOfRanks, kernels_of_ranks
from perfmagic.analysis.ranks.meetings import Meeting, Message
from perfmagic.analysis.ranks.of_file import FileOfRank
from perfmagic.analysis.ranks.summary import Ranks, RankStat, ranks_of
from perfmagic.analysis.rows import Rows, pandas
from perfmagic.errors import OptionError
from perfmagic.files import made_folder, write_text
from perfmagic.results.faces import LiveView, Result
from perfmagic.results.timeline import TimelineResult
from perfmagic.trace.model import Trace, devices_label
from perfmagic.view.svg.canvas import escaped
from perfmagic.view.timeline.viewstate import ViewState

# Views are imported where they are drawn: a script that reads numbers need not load them.
if TYPE_CHECKING:
    import pandas as pd

    from perfmagic.view.ranks.doc import RankRow, RanksDoc
    from perfmagic.view.timeline.wire import Wire


WITH_FINDINGS = 8  # timelines of ranks that have findings of their own: each takes as long as the rest of its data
NO_FINDINGS = "its own findings are not worked out here: .rank({rank}).findings has them"
MOST_READ_AGAIN = 16  # files that are read for the rows of a page, when their traces were not kept


@dataclass(frozen=True, eq=False)
class RanksResult(Result):
    """Several ranks of one job.

    timelines: one for each rank, by rank; each has its own numbers, by its own clock. None of ranks that open_ranks()
    read: rank() reads one again.  ranks: what was worked out of all, with the clocks' alignment and the matched
    collectives.  files: of the ranks without a timeline, by rank.
    """

    timelines: tuple[TimelineResult, ...]
    ranks: Ranks
    files: Mapping[int, FileOfRank] = field(default_factory=dict, repr=False)
    view_state: ViewState = field(default_factory=ViewState, repr=False)

    @classmethod
    def of(cls, timelines: Sequence[TimelineResult]) -> RanksResult:
        """Ranks that are known to be of one job, by rank; also a single one, and ranks that did nothing.

        Raises OptionError for none, and for one that has no rank.
        """
        known = {one.trace.meta.rank: host_as_device(one.trace) for one in timelines}
        if not known or None in known:
            raise OptionError(
                "RanksResult.of: timelines of ranks are needed", hint="perfmagic.open_traces(folder).ranks"
            )
        ranks = Ranks({rank: trace for rank, trace in known.items() if rank is not None}, timelines[0].comm_names)
        return cls(tuple(sorted(timelines, key=lambda one: one.trace.meta.rank or 0)), ranks)

    @property
    def title(self) -> str:
        """The names of the files, the first and the last."""
        names = self._titles
        return f"{names[0]} … {names[-1]}" if len(names) > 1 else names[0]

    @property
    def _titles(self) -> list[str]:
        known = {number: one.title for number, one in zip(self.ranks.ranks, self.timelines, strict=False)}
        return [known[number] if number in known else self.files[number].name for number in self.ranks.ranks]

    @property
    def nothing(self) -> str:
        """That no rank had anything executed, in a sentence; "" where one had."""
        if not self.ranks.idle:
            return ""
        n_ranks, first = len(self.ranks.ranks), self.ranks.summaries[self.ranks.ranks[0]]
        label = devices_label(first.meta.devices)
        who = "the rank" if n_ranks == 1 else f"any of the {n_ranks} ranks"
        if label:
            return f"nothing ran on the {label} of {who}: there is no picture; --device cpu records what the CPU did"
        return f"no operator ran in {who}: there is no picture"

    @cached_property
    def findings(self) -> Rows[RankFinding]:
        """What would win most first, whether Python or late ranks; then ranks whose totals stand out."""
        return Rows(findings_of(self.ranks), RankFinding)

    @property
    def table(self) -> Rows[RankStat]:
        """A row a rank: compute, exposed communication as waiting and transfer, copies, idle (ns), bandwidth."""
        return self.ranks.table

    @property
    def clocks(self) -> Alignment:
        """How the ranks were put on one axis, and how well that is known: offsets (ns), bound (ns), words."""
        return self.ranks.alignment

    def aligned_by(self, pings: Sequence[Ping]) -> RanksResult:
        """The same ranks on an axis by pings between them, exchanged while they ran: see Ping for its clocks (ns)."""
        return RanksResult(self.timelines, replace(self.ranks, pings=tuple(pings)), self.files)

    def meetings(self) -> Rows[Meeting]:
        """Each collective on all its ranks: when the last one came and which, how long each waited and moved (ns)."""
        return self.ranks.meetings

    def kernels(self) -> Rows[KernelOfRanks]:
        """Which kernels took the time of all ranks, and on which rank each took longest (ns, of the busiest device)."""
        return kernels_of_ranks({rank: self.ranks.summaries[rank].kernels for rank in self.ranks.ranks})

    def messages(self) -> Rows[Message]:
        """Each send with its receive: when both ends had come, when it arrived, how long each end waited (ns)."""
        return self.ranks.messages

    def rank(self, number: int) -> TimelineResult:
        """The timeline of one rank, by its own clock; after open_ranks() its file is read again.

        Raises OptionError for one that is not here, TraceError where the file has gone.
        """
        if number not in self.ranks.summaries:
            hint = f"ranks with something to compare: {stretches(self.ranks.ranks)}"
            raise OptionError(f"rank {number} is not here", hint=hint)
        if number in self.ranks.traces:
            return self.timelines[self.ranks.ranks.index(number)]
        file = self.files[number]
        return TimelineResult(file.read(), comm_names=file.comm_names, title=file.name)

    def _trace(self, number: int) -> Trace:
        """The trace of one rank as the rows of a picture have it."""
        return host_as_device(self.rank(number).trace)

    @cached_property
    def doc(self) -> RanksDoc:
        """The document every picture is drawn from."""
        from perfmagic.view.ranks.doc import ranks_doc

        return ranks_doc(self.ranks, self._titles)

    @cached_property
    def wire(self) -> Wire:
        """The data of the live view: a row a rank, and behind each the rank's own timeline on the common axis."""
        from perfmagic.view.ranks.wire import ranks_wire, window_on_axis
        from perfmagic.view.timeline.doc import timeline_doc
        from perfmagic.view.timeline.wire import timeline_wire

        parts: dict[int, Wire] = {}
        for row in self._told_first():
            one = self.rank(row.rank)
            start_ns, end_ns = window_on_axis(self.doc, row)
            findings = one.findings if len(parts) < WITH_FINDINGS else ()
            doc = timeline_doc(one.trace, findings, start_ns=start_ns, end_ns=end_ns, comm_names=one.comm_names)
            if len(parts) >= WITH_FINDINGS:
                doc = replace(doc, trust=(NO_FINDINGS.format(rank=row.rank), *doc.trust))
            parts[row.rank] = timeline_wire(doc, one.trace)
        return ranks_wire(self.doc, parts)

    def read_again(self) -> Iterator[tuple[int, TimelineResult]]:
        """The ranks of whom a finding tells, and their timelines, as many as have findings on a page; one by one."""
        for row in self._told_first()[:WITH_FINDINGS]:
            yield row.rank, self.rank(row.rank)

    def _told_first(self) -> list[RankRow]:
        """The rows that open to a timeline, those of whom a finding tells first: of files a few, read once more."""
        few = (finding.ranks for finding in self.findings if len(finding.ranks) <= WITH_FINDINGS)
        told = dict.fromkeys(rank for ranks in few for rank in ranks)
        rows = {row.rank: row for row in self.doc.rows}
        order = [rows[rank] for rank in (*(rank for rank in told if rank in rows), *(r for r in rows if r not in told))]
        return order if self.timelines else order[:MOST_READ_AGAIN]

    def zoom(self, start_ns: int, end_ns: int) -> None:
        """Show [start_ns, end_ns) of the common axis in the live view."""
        self.view_state.ask((int(start_ns), int(end_ns)))

    def to_dict(self) -> dict[str, Any]:
        """The findings, the clocks and the table, ready for JSON."""
        return {
            "clocks": self.clocks.words,
            "clocks_bound_ns": self.clocks.bound_ns,
            "rank_findings": [finding.to_dict() for finding in self.findings],
            "ranks": self.table.to_dict(),
        }

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)

    def to_frame(self) -> pd.DataFrame:
        """One row a device op: its rank, name, stream, launched, started, ended (ns on the axis). Needs pandas."""
        frames = []
        for number in self.ranks.ranks:
            frame = TimelineResult(self._trace(number)).to_frame()
            for column in ("launched_ns", "start_ns", "end_ns"):
                frame[column] += self.clocks.offset_ns[number]
            frame.insert(0, "rank", number)
            frames.append(frame)
        joined: pd.DataFrame = pandas().concat(frames, ignore_index=True)
        return joined

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all ranks and give the path.

        Chrome JSON (.json, .json.gz) is one file on one axis for Perfetto, a process a rank, with an arrow for each
        message and from each collective's last rank. Any other name is a folder with a file a rank, with every column:
        perfmagic.open_traces(folder).ranks opens it. Raises OptionError where it cannot be written.
        """
        if str(path).endswith((".json", ".json.gz")):
            from perfmagic.trace.formats.chrome_ranks import write_chrome_ranks

            traces = {number: self._trace(number) for number in self.ranks.ranks}
            return write_chrome_ranks(traces, self.clocks.offset_ns, arrows(self.ranks), path)
        folder = made_folder(path)
        for number in self.ranks.ranks:
            self.rank(number).save(folder / f"rank{number}.npz")
        return folder

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page with the live view of all ranks (no network) and give its path."""
        from perfmagic.view.ranks.live import ranks_section
        from perfmagic.view.timeline.live import live_page

        return write_text(path, live_page(self.title, [ranks_section(self.doc, self.wire)]))

    def text(self) -> str:
        """The first line, the findings, a table of the ranks, and how the axis was made."""
        from perfmagic.view.ranks.text import ranks_text

        return self.nothing or ranks_text(self.doc)

    def html(self) -> str:
        """The first line, the findings, the picture of all ranks on one axis, the table; at most 60 kB."""
        from perfmagic.view.html import framed, paragraphs
        from perfmagic.view.ranks.html import ranks_html

        return framed(paragraphs([self.nothing])) if self.nothing else ranks_html(self.doc)

    def live(self) -> LiveView:
        """The live view: its data, and the window that it shares with this object."""
        return _LiveRanks(self)

    def __repr__(self) -> str:
        first = f". {self.findings[0].sentence}" if self.findings else f". {self.nothing}" if self.nothing else ""
        numbers = self.ranks.ranks
        which = ", ".join(map(str, numbers)) if len(numbers) <= WITH_FINDINGS else stretches(numbers)
        return f"Ranks {which} on one axis{first}"


@dataclass(frozen=True)
class _LiveRanks:
    """The live view of several ranks."""

    result: RanksResult

    @property
    def state(self) -> ViewState:
        return self.result.view_state

    @property
    def empty(self) -> bool:
        return bool(self.result.nothing)

    def wire(self) -> Wire:
        return self.result.wire

    def picture_html(self) -> str:
        from perfmagic.view.timeline.html import ONLY_THE_PICTURE

        return ONLY_THE_PICTURE + self.result.html()

    def frame_html(self) -> str:
        from perfmagic.view.ranks.live import ranks_section
        from perfmagic.view.timeline.live import framed_page

        section = ranks_section(self.result.doc, self.result.wire)
        return framed_page(self.result.title, section, self.result.html())


class Traces(tuple[TimelineResult, ...]):  # noqa: SLOT001  it keeps what was worked out
    """The timelines of several files, in order.

    jobs: those that are ranks of one job, on one axis each, the largest job first.  alone: all others.  mixed: which
    jobs the files are of, in a sentence; "" for one job.
    """

    @cached_property
    def _grouped(self) -> tuple[list[RanksResult], list[TimelineResult]]:
        return grouped(self)

    @property
    def jobs(self) -> list[RanksResult]:
        return self._grouped[0]

    @property
    def alone(self) -> list[TimelineResult]:
        return self._grouped[1]

    @property
    def mixed(self) -> str:
        return "".join(finding.sentence for finding in mixed_jobs([one.trace for one in self]))

    @property
    def ranks(self) -> RanksResult:
        """The ranks of the largest job on one axis. Raises OptionError where there are none."""
        if not self.jobs:
            raise OptionError(
                f"{units.plural(len(self), 'trace')}, and no two of them are ranks of one job",
                hint=self.mixed or "open the files of several ranks",
            )
        return self.jobs[0]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What IPython shows: the ranks on one axis, then the timelines that stand alone."""
        shown: list[Result] = [*self.jobs, *self.alone]
        mixed = f"<p>{escaped(self.mixed)}</p>" if self.mixed else ""
        return {
            "text/plain": "\n\n".join([*([self.mixed] if self.mixed else []), *(one.text() for one in shown)]),
            "text/html": mixed + "".join(one.html() for one in shown),
        }


def grouped(results: Sequence[TimelineResult]) -> tuple[list[RanksResult], list[TimelineResult]]:
    """The jobs of which several ranks are given, the largest first, and the timelines that stand alone."""
    found: list[RanksResult] = []
    alone: list[TimelineResult] = []
    for job in jobs([result.trace for result in results]):
        mine = [results[i] for i in job.members]
        with_ops = [one for one in mine if len(host_as_device(one.trace).ops)]
        ranks = ranks_of([one.trace for one in with_ops], with_ops[0].comm_names) if with_ops else None
        if ranks is None:
            alone += mine
            continue
        found.append(RanksResult(tuple(with_ops), ranks))
        alone += [one for one in mine if one not in with_ops]
    return found, alone
