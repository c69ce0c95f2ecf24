"""The ranks of one job: one row per rank on one time axis, and their joint findings, recorded or predicted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import msgspec

from perfmagic.analysis.bench.saved import damage_of, format_of, kind_of, of_format, read_json, text_of
from perfmagic.analysis.findings.answer import Answers
from perfmagic.analysis.ranks.alignment import Alignment, Ping
from perfmagic.analysis.ranks.finding import CollectiveOfRanks, PipelineStage, RankFinding, RankStat
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.job_prediction import JobReplay, job_replay
from perfmagic.analysis.ranks.jobs import jobs, mixed_jobs, stretches
from perfmagic.analysis.ranks.meetings import Meeting, Message
from perfmagic.analysis.ranks.pipelines.bubble import pipeline_stages
from perfmagic.analysis.ranks.rank_files import FileOfRank
from perfmagic.analysis.ranks.rank_summary import KernelOfRanks, host_as_device, kernels_of_ranks
from perfmagic.analysis.ranks.ranks import Ranks, arrows, ranks_of
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.critical_path import CriticalPath, JobPathPart, PathShare
from perfmagic.base import units
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.base.files import file_path, made_folder, write_text
from perfmagic.base.language import counted, translated
from perfmagic.base.terminal import escaped
from perfmagic.results.result import Result
from perfmagic.results.timeline import TimelineResult
from perfmagic.results.what_if import Bars, Predicted, checked_changes
from perfmagic.trace.formats.sources import read_file
from perfmagic.trace.json_form import Count, typed
from perfmagic.trace.model import PingNumbers, Trace, devices_label
from perfmagic.trace.names import checked_pattern
from perfmagic.trace.rows import Rows, RowT, pandas
from perfmagic.view.timeline.doc import ViewState

if TYPE_CHECKING:
    import pandas as pd

    from perfmagic.results.briefs.form import Brief
    from perfmagic.results.flight import FlightResult
    from perfmagic.view.ranks.doc import RankRow, RanksDoc
    from perfmagic.view.timeline.live_data import Wire
    from perfmagic.view.timeline.writers import LiveView


# The folders that results of several ranks are saved as: traces, and one file that says what they are together.

T = TypeVar("T")

ABOUT = "saved.perfmagic"  # has no ending of a trace: readers of the folder's traces skip it
RANKS_FORMAT, SWEEP_FORMAT = "perfmagic ranks 1", "perfmagic ranks-sweep 1"
_OF_FILES = (".npz", ".json", ".gz", ".zip", ".html", ".htm", ".csv", ".txt", ".md", ".pkl", ".pt")


def folder_to_save(path: str | os.PathLike[str], what: str, hint: str) -> Path:
    """The folder of that name, made where it is not there. Raises OptionError for a name that ends as files do."""
    target = file_path(path)
    if target.suffix.lower() in _OF_FILES and not target.is_dir():
        words = f"{target}: {what} is saved as a folder, and {target.suffix} is the ending of a file"
        raise OptionError(words, hint=hint)
    return made_folder(target)


def write_about(folder: Path, form: str, values: dict[str, Any]) -> None:
    """Write what the folder holds. It is written last, so a folder that has it is complete."""
    write_text(folder / ABOUT, json.dumps({"format": form, **values}, ensure_ascii=False, indent=1))


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder that a result of several ranks was saved as."""
    return (file_path(path) / ABOUT).is_file()


def is_sweep(path: str | os.PathLike[str]) -> bool:
    """Whether that result is a sweep over numbers of ranks."""
    return is_saved(path) and kind_of(format_of(text_of(file_path(path) / ABOUT))) == kind_of(SWEEP_FORMAT)


def read_about(path: str | os.PathLike[str], form: str, what: str, kind: type[T]) -> tuple[Path, T]:
    """The folder, and what write_about() wrote there, of a type. Raises OptionError for another folder."""
    folder = file_path(path)
    if not is_saved(folder):
        is_one = "is a folder without" if folder.is_dir() else "is no folder with"
        hint = "result.save() writes one; perfmagic.open_traces(folder).ranks opens the traces of any folder"
        raise OptionError(f"{path} {is_one} {ABOUT}", hint=hint)
    try:
        data = of_format(read_json(text_of(folder / ABOUT)), (form,), what, "perfmagic.load(folder) opens either kind")
        with damage_of(what):
            return folder, typed(data, kind)
    except OptionError as error:
        raise OptionError(f"{folder / ABOUT}: {error.message}", hint=error.hint) from None


# The live view of several ranks, and what stands in its place where it cannot run.

WITH_FINDINGS = 8  # timelines of ranks that have findings of their own: each takes as long as the rest of its data
NO_FINDINGS = "its own findings are not worked out here: .rank({rank}).findings has them"


def wire_of(ranks: RanksDoc, rows: Iterable[tuple[RankRow, TimelineResult]]) -> Wire:
    """The data of the live view: one row per rank, and behind each its own timeline on the common axis."""
    from perfmagic.view.ranks.live_data import ranks_wire, window_on_axis
    from perfmagic.view.timeline.doc import timeline_doc
    from perfmagic.view.timeline.live_data import timeline_wire

    parts: dict[int, Wire] = {}
    for row, timeline in rows:
        start_ns, end_ns = window_on_axis(ranks, row)
        shown = (timeline.findings, timeline.answers) if len(parts) < WITH_FINDINGS else ((), None)
        doc = timeline_doc(timeline.trace, *shown, start_ns=start_ns, end_ns=end_ns, comm_names=timeline.comm_names)
        if len(parts) >= WITH_FINDINGS:
            doc = replace(doc, trust=(NO_FINDINGS.format(rank=row.rank), *doc.trust))
        parts[row.rank] = timeline_wire(doc, timeline.trace)
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
        from perfmagic.view.page import ONLY_THE_PICTURE

        return ONLY_THE_PICTURE + self.picture()

    def frame_html(self) -> str:
        from perfmagic.view.page import framed_page
        from perfmagic.view.ranks.writers import ranks_section

        section = ranks_section(self.document(), self.data())
        return framed_page(self.title, section, self.picture())


# Views are imported where they are drawn: a script that reads numbers need not load them.


SAVE_HINT = 'save("runs") writes one; save("runs.json.gz") is one file for Perfetto, to_html() writes a page'
MOST_READ_AGAIN = 16  # files that are read for the rows of a page, when their traces were not kept


class _Saved(msgspec.Struct):
    """What is beside the traces in a folder."""

    ranks: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)]
    titles: dict[str, str]
    comm_names: str | None
    pings: tuple[PingNumbers, ...]


@dataclass(frozen=True, eq=False)
class RanksResult(Result):
    """Several ranks of one job.

    timelines: one for each rank, by rank; each has its own numbers, by its own clock. None of large files that
    open_ranks() read: rank() reads one again.  ranks: what was worked out of all, with the clocks' alignment and the
    matched collectives.  files: of the ranks without a timeline, by rank.
    """

    timelines: tuple[TimelineResult, ...]
    ranks: Ranks
    files: Mapping[int, FileOfRank] = field(default_factory=dict, repr=False)
    view_state: ViewState = field(default_factory=ViewState, repr=False)

    def __reduce__(self) -> tuple[type[RanksResult], tuple[object, ...]]:
        """Pickled without what the live views show: a copy in another process has views of its own."""
        return type(self), (self.timelines, self.ranks, self.files)

    @classmethod
    def of(cls, timelines: Sequence[TimelineResult]) -> RanksResult:
        """Ranks that are known to be of one job, by rank; also a single one, and ranks that did nothing.

        Raises OptionError for none, and for one that has no rank.
        """
        known = {timeline.trace.meta.rank: host_as_device(timeline.trace) for timeline in timelines}
        if not known or None in known:
            message = "RanksResult.of: timelines of ranks are needed"
            raise OptionError(message, hint="perfmagic.open_traces(folder).ranks")
        ranks = Ranks({rank: trace for rank, trace in known.items() if rank is not None}, timelines[0].comm_names)
        return cls(tuple(sorted(timelines, key=lambda timeline: timeline.trace.meta.rank or 0)), ranks)

    @property
    def title(self) -> str:
        """The names of the files, the first and the last."""
        names = self._titles
        return f"{names[0]} … {names[-1]}" if len(names) > 1 else names[0]

    @property
    def _titles(self) -> list[str]:
        known = {number: timeline.title for number, timeline in zip(self.ranks.ranks, self.timelines, strict=False)}
        return [known[number] if number in known else self.files[number].name for number in self.ranks.ranks]

    @property
    def nothing(self) -> str:
        """That no rank had anything executed, in a sentence; "" where one had."""
        if not self.ranks.idle:
            return ""
        n_ranks, first = len(self.ranks.ranks), self.ranks.summaries[self.ranks.ranks[0]]
        label = devices_label(first.meta.devices)
        if label and any(device.kind != "cpu" for device in first.meta.devices):
            return counted(
                n_ranks,
                "nothing ran on the {label} of the rank: there is no picture; --device cpu records what the CPU did",
                "nothing ran on the {label} of any of the {n} ranks: there is no picture; "
                "--device cpu records what the CPU did",
                label=label,
            )
        return counted(
            n_ranks,
            "nothing between ranks, and no operator, ran in the rank: there is no picture",
            "nothing between ranks, and no operator, ran in any of the {n} ranks: there is no picture",
        )

    @cached_property
    def findings(self) -> Rows[RankFinding]:
        """The largest gain first, whether of Python or of late ranks; then ranks whose totals stand out."""
        return self._labelled(Rows(findings_of(self.ranks), RankFinding))

    @cached_property
    def answers(self) -> Answers:
        """What to do about the job: at most three answers, each with what the recorded job would take with it."""
        from perfmagic.analysis.ranks.answers import find_job_answers

        return find_job_answers(self.ranks)

    @property
    def table(self) -> Rows[RankStat]:
        """One row per rank: compute, exposed communication as waiting and transfer, copies, idle (ns), bandwidth."""
        return self._labelled(self.ranks.table)

    @property
    def clocks(self) -> Alignment:
        """How the ranks were put on one axis, and how well that is known: offsets (ns), bound (ns), words."""
        return self.ranks.alignment

    def aligned_by(self, pings: Sequence[Ping]) -> RanksResult:
        """The same ranks on an axis by pings between them, exchanged while they ran: see Ping for its clocks (ns)."""
        return RanksResult(self.timelines, replace(self.ranks, pings=tuple(pings)), self.files)

    def meetings(self) -> Rows[Meeting]:
        """Each collective on all its ranks: when the last one came and which, how long each waited and moved (ns)."""
        return self._labelled(self.ranks.meetings)

    def collectives(self) -> Rows[CollectiveOfRanks]:
        """What each kind and size moved once all ranks were there: time (ns), sizes (bytes), bandwidths (bytes/s)."""
        return self._labelled(self.ranks.collectives)

    def pipelines(self) -> Rows[PipelineStage]:
        """Each stage of each pipeline: what a micro-batch takes (ns), bubble beside its minimum, gain of balancing."""
        return self._labelled(pipeline_stages(self.ranks))

    def kernels(self) -> Rows[KernelOfRanks]:
        """Which kernels took the time of all ranks, and on which rank each took longest (ns, of the busiest device)."""
        kernels = {rank: self.ranks.summaries[rank].kernels for rank in self.ranks.ranks}
        return self._labelled(kernels_of_ranks(kernels))

    def critical_path(self) -> Rows[JobPathPart]:
        """What the job waited for at each instant, and on which rank (ns on the axis).

        Where a collective waits for its last rank, the path continues in that rank. Raises TraceError where the records
        do not say. After open_ranks() large files are read again.
        """
        if self._job.unreadable:
            raise TraceError(f"the critical path is not known: {self._job.unreadable}")
        return self._labelled(self._job.path.rows_of_job())

    def what_if(self, *changes: Change, ranks: int | Iterable[int] | None = None) -> RanksWhatIf:
        """What the job would take with changes (perfmagic.changes) on all ranks, or on some.

        ranks: one, or several of them. Raises OptionError for anything but a change, and for a rank that is not here.
        After open_ranks() large files are read again.
        """
        checked_changes("ranks.what_if", changes)
        wanted = self.ranks.ranks if ranks is None else [ranks] if isinstance(ranks, int) else list(ranks)
        unknown = [number for number in wanted if number not in self.ranks.summaries]
        if unknown or not wanted:
            which = f"rank {unknown[0]!r} is not here" if unknown else "no rank is given"
            raise OptionError(f"ranks.what_if: {which}", hint=f"ranks to compare: {stretches(self.ranks.ranks)}")
        prediction, after = self._job.predict(changes, wanted)
        return RanksWhatIf(prediction, self._job.ranks, after)

    def _labelled(self, rows: Rows[RowT]) -> Rows[RowT]:
        """The rows, which say where a model gave the times."""
        return rows.labelled(self.ranks.summaries[self.ranks.ranks[0]].meta.predicted_label)

    @cached_property
    def _job(self) -> JobReplay:
        """The job, ready to be replayed; files whose traces were not kept are read again."""
        ranks = self.ranks
        if len(ranks.traces) < len(ranks.ranks):
            ranks = replace(ranks, traces={number: self._trace(number) for number in ranks.ranks}, given={})
        return job_replay(ranks)

    def messages(self) -> Rows[Message]:
        """Each send with its receive: when both ends had come, when it arrived, how long each end waited (ns)."""
        return self._labelled(self.ranks.messages)

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
        """The data of the live view: one row per rank, and behind each its own timeline on the common axis."""
        return wire_of(self.doc, ((row, self.rank(row.rank)) for row in self._findings_first()))

    def read_again(self) -> Iterator[tuple[int, TimelineResult]]:
        """The ranks that findings name and their timelines, one by one, up to the number a page shows."""
        for row in self._findings_first()[:WITH_FINDINGS]:
            yield row.rank, self.rank(row.rank)

    def _findings_first(self) -> list[RankRow]:
        """The rows that open to a timeline, those that findings name first; of files at most MOST_READ_AGAIN."""
        few = (finding.ranks for finding in self.findings if len(finding.ranks) <= WITH_FINDINGS)
        of_findings = dict.fromkeys(rank for ranks in few for rank in ranks)
        rows = {row.rank: row for row in self.doc.rows}
        order = [
            rows[rank]
            for rank in (*(rank for rank in of_findings if rank in rows), *(r for r in rows if r not in of_findings))
        ]
        return order if self.timelines else order[:MOST_READ_AGAIN]

    def zoom(self, start_ns: int, end_ns: int) -> None:
        """Show [start_ns, end_ns) of the common axis in the live view."""
        self.view_state.ask((int(start_ns), int(end_ns)))

    def to_dict(self) -> dict[str, Any]:
        """What to do, the findings, the clocks and the table, ready for JSON."""
        return {
            "answers": self.answers.to_dict(),
            "clocks": self.clocks.words,
            "clocks_bound_ns": self.clocks.bound_ns,
            "collectives": self.collectives().to_dict(),
            "pipelines": self.pipelines().to_dict(),
            "rank_findings": [finding.to_dict() for finding in self.findings],
            "ranks": self.table.to_dict(),
        }

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)

    def to_frame(self) -> pd.DataFrame:
        """One row per device op: its rank, name, stream, launched, started, ended (ns on the axis). Needs pandas."""
        frames = []
        for number in self.ranks.ranks:
            frame = TimelineResult(self._trace(number), comm_names=self.ranks.comm_names).to_frame()
            for column in ("launched_ns", "start_ns", "end_ns"):
                frame[column] += self.clocks.offset_ns[number]
            frame.insert(0, "rank", number)
            frames.append(frame)
        joined: pd.DataFrame = pandas().concat(frames, ignore_index=True)
        return joined

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all ranks and give the path.

        Chrome JSON (.json, .json.gz) is one file on one axis for Perfetto, with one process per rank. It has an arrow
        for each message, and from each collective's last rank. Any other name is a folder with one file per rank, with
        every column: perfmagic.load(folder) restores it. Raises OptionError where it cannot be written, and for a name
        that ends as another file.
        """
        if str(path).endswith((".json", ".json.gz")):
            from perfmagic.trace.formats.chrome import write_chrome_ranks

            traces = {number: self._trace(number) for number in self.ranks.ranks}
            return write_chrome_ranks(traces, self.clocks.offset_ns, arrows(self.ranks), path)
        folder = folder_to_save(path, "what ranks recorded", SAVE_HINT)
        for number in self.ranks.ranks:
            self.rank(number).save(folder / f"rank{number}.npz")
        names = dict(zip(self.ranks.ranks, self._titles, strict=True))
        pings = [astuple(ping) for ping in self.ranks.pings]
        about = {"ranks": self.ranks.ranks, "titles": names, "comm_names": self.ranks.comm_names, "pings": pings}
        write_about(folder, RANKS_FORMAT, about)
        return folder

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RanksResult:
        """What save() wrote into a folder.

        Raises OptionError for another folder, TraceError where a trace in it cannot be read.
        """
        folder, about = read_about(path, RANKS_FORMAT, "record of several ranks", _Saved)
        checked_pattern(about.comm_names)
        timelines = [
            TimelineResult(
                read_file(folder / f"rank{number}.npz"),
                comm_names=about.comm_names,
                title=about.titles.get(str(number), f"rank {number}"),
            )
            for number in about.ranks
        ]
        result = cls.of(timelines)
        if result.ranks.ranks != [*about.ranks]:
            named, held = (stretches(some) for some in (about.ranks, result.ranks.ranks))
            raise OptionError(f"{folder / ABOUT} names ranks {named}, the traces beside it are of {held}")
        return result.aligned_by([Ping(*ping) for ping in about.pings])

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page with the live view of all ranks (no network) and give its path."""
        from perfmagic.view.page import live_page
        from perfmagic.view.ranks.writers import ranks_section

        return write_text(path, live_page(self.title, [ranks_section(self.doc, self.wire)]))

    def text(self, *, details: bool = False) -> str:
        """Who decides and what to do.  details: the findings, a table of the ranks, how the axis was made, as well."""
        from perfmagic.view.ranks.text import ranks_answers_text, ranks_text

        if self.nothing:
            return translated(self.nothing)
        if not details:
            return ranks_answers_text(self.doc, ".text(details=True)")
        return ranks_text(self.doc)

    def html(self) -> str:
        """Who decides and what to do, the picture of all ranks on one axis, the table; at most 80 kB."""
        from perfmagic.view.html import framed, paragraphs
        from perfmagic.view.ranks.writers import ranks_html

        return framed(paragraphs([translated(self.nothing)])) if self.nothing else ranks_html(self.doc)

    def live(self) -> LiveView:
        """The live view: its data, and the window that it shares with this object."""
        state, empty = self.view_state, bool(self.nothing)
        return LiveRanks(self.title, state, empty, lambda: self.doc, lambda: self.wire, self.html)

    def _brief(self) -> Brief:
        from perfmagic.results.briefs.jobs import ranks_brief

        return ranks_brief(self.ranks, self.answers, self.findings, self.title)

    def __repr__(self) -> str:
        first = self.findings[0].sentence if self.findings else self.nothing or self.answers.decides
        numbers = self.ranks.ranks
        which = ", ".join(map(str, numbers)) if len(numbers) <= WITH_FINDINGS else stretches(numbers)
        return f"Ranks {which} on one axis. {first}"


# The result of `ranks.what_if(...)`: what a job would take with changes on its ranks.


@dataclass(frozen=True, eq=False)
class RanksWhatIf(Predicted):
    """A job with changes on some ranks, predicted by replaying the records of all.

    prediction: the numbers.  ranks: the record it stands on.  after: what would limit the job, None where nothing is
    predicted.  Times in ns.
    """

    checked_against: ClassVar[str] = "recorded ranks with device ops"
    to_check: ClassVar[str] = "run the changed cell under %%ranks -o after, then %compare predicted after"

    ranks: Ranks = field(repr=False)
    after: CriticalPath | None = field(repr=False)

    @property
    def path(self) -> tuple[PathShare, ...]:
        """What the critical path of the predicted job consists of, the longest first."""
        return () if self.after is None else self.after.shares

    def _measured_ns(self, measured: object) -> int | None:
        ranks = getattr(measured, "ranks", None)
        if not isinstance(ranks, Ranks) or len(ranks.traces) != len(ranks.ranks) or ranks.idle:
            return None
        job = job_replay(ranks)
        return None if job.unreadable else job.path.run_ns

    def _bars(self) -> Bars:
        recorded = ("recorded", job_replay(self.ranks).path.shares, units.duration)
        return (recorded, ("predicted", self.path, self.prediction.shown)) if self.path else ()

    def __repr__(self) -> str:
        return f"RanksWhatIf: {self.sentence}"


# The timelines of several files: those that are ranks of one job together, all others alone.


class Traces(tuple[TimelineResult, ...]):  # noqa: SLOT001  it keeps what was worked out
    """The timelines of several files, in order.

    jobs: those that are ranks of one job, on one axis each, the largest job first.  alone: all others.  mixed: which
    jobs the files are of, in a sentence; "" for one job.  flight: what dumps of flight recorders among the files say,
    None without any.
    """

    flight: FlightResult | None = None

    def with_flight(self, flight: FlightResult | None) -> Traces:
        """The same timelines beside what flight recorders say."""
        self.flight = flight
        return self

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
        return "".join(finding.sentence for finding in mixed_jobs([timeline.trace for timeline in self]))

    @property
    def ranks(self) -> RanksResult:
        """The ranks of the largest job on one axis. Raises OptionError where there are none."""
        if not self.jobs:
            message = f"{units.plural(len(self), 'trace')}, and no two of them are ranks of one job"
            hint = ".flight has what their flight recorders say" if self.flight else "open the files of several ranks"
            raise OptionError(message, hint=self.mixed or hint)
        return self.jobs[0]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What IPython shows: flight recorders, the ranks on one axis, then the timelines that stand alone."""
        shown: list[Result] = [*([self.flight] if self.flight else []), *self.jobs, *self.alone]
        mixed = f"<p>{escaped(self.mixed)}</p>" if self.mixed else ""
        return {
            "text/plain": "\n\n".join(
                [*([self.mixed] if self.mixed else []), *(timeline.text() for timeline in shown)]
            ),
            "text/html": mixed + "".join(timeline.html() for timeline in shown),
            **(shown[0].for_programs() if len(shown) == 1 else {}),
        }


def grouped(results: Sequence[TimelineResult]) -> tuple[list[RanksResult], list[TimelineResult]]:
    """The jobs of which several ranks are given, the largest first, and the timelines that stand alone."""
    of_jobs: list[RanksResult] = []
    alone: list[TimelineResult] = []
    for job in jobs([result.trace for result in results]):
        members = [results[i] for i in job.members]
        several = members if len(members) > 1 else []
        with_ops = [timeline for timeline in several if len(host_as_device(timeline.trace).ops)]
        ranks = ranks_of([timeline.trace for timeline in with_ops], with_ops[0].comm_names) if with_ops else None
        if ranks is None:
            alone += members
            continue
        of_jobs.append(RanksResult(tuple(with_ops), ranks))
        alone += [timeline for timeline in members if timeline not in with_ops]
    return of_jobs, alone
