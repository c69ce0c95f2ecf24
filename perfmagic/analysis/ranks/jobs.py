"""Which of several traces are the ranks of one job: files of different jobs must not share a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase
from perfmagic.trace.model import Collective, TraceMeta

_TOLERANCE_NS = 60_000_000_000  # hosts' clocks may be off by seconds; ranks of one job are not recorded a minute apart
_NAMED, _MOST_JOBS = 4, 4  # files and jobs that a sentence names


class OfJob(Protocol):
    """What tells jobs apart, in a trace or in a rank's summary."""

    @property
    def meta(self) -> TraceMeta: ...

    @property
    def collectives(self) -> tuple[Collective, ...]: ...


@dataclass(frozen=True)
class Job:
    """Some traces of one job.  members: their indices, by rank.  apart: why they are not of the first job."""

    members: tuple[int, ...]
    apart: str = ""


def jobs(traces: Sequence[OfJob]) -> tuple[Job, ...]:
    """The jobs that some traces belong to, the largest first; a trace whose file names no rank is a job by itself.

    Ranks of one job have different numbers, one world size, and devices of one name (or a common process group). They
    were recorded at one time. Traces without that information do not contradict it.
    """
    several: list[_Members] = []
    reasons: dict[int, str] = {}
    for i in sorted(range(len(traces)), key=lambda i: (traces[i].meta.rank is None, traces[i].meta.rank or 0, i)):
        for job in several:
            why = next(
                (reason for other in job.compared(traces[i]) if (reason := difference(traces[other], traces[i]))), ""
            )
            if not why:
                job.add(i, traces[i])
                break
            reasons.setdefault(i, why)
        else:
            several.append(_Members())
            several[-1].add(i, traces[i])
    several.sort(key=lambda job: -len(job.members))
    return tuple(Job(tuple(job.members), reasons.get(job.members[0], "") if n else "") for n, job in enumerate(several))


class _Members:
    """The traces of one job, and which of them to compare with another: one of each kind is enough."""

    def __init__(self) -> None:
        self.members: list[int] = []
        self._by_rank: dict[int | None, int] = {}
        self._alike: dict[object, int] = {}
        self._latest: tuple[int, int] | None = None  # when it began, its place
        self._earliest: tuple[int, int] | None = None  # when it ended, its place

    def add(self, i: int, trace: OfJob) -> None:
        self.members.append(i)
        self._by_rank.setdefault(trace.meta.rank, i)
        self._alike.setdefault(_identify_job(trace), i)
        if _is_dated(trace):
            began, ended = _find_span(trace)
            self._latest = max(self._latest or (began, i), (began, i))
            self._earliest = min(self._earliest or (ended, i), (ended, i))

    def compared(self, trace: OfJob) -> list[int]:
        """The members to compare a trace with: if any member differs from it, one of these does."""
        edges = {edge[1] for edge in (self._latest, self._earliest) if edge}
        same = {self._by_rank[trace.meta.rank]} if trace.meta.rank in self._by_rank else set()
        return sorted({*self._alike.values(), *edges, *same}, key=self.members.index)


def _identify_job(trace: OfJob) -> object:
    """What `difference` compares, except the rank and the time."""
    names = frozenset(info.name for info in trace.meta.devices)
    groups = frozenset((c.group, c.ranks, c.group_size) for c in trace.collectives)
    return trace.meta.rank is None, trace.meta.world_size, names, groups


def difference(first: OfJob, second: OfJob) -> str:
    """Why two traces are not two ranks of one job; "" if nothing says so."""
    a, b = first.meta, second.meta
    if a.rank is None or b.rank is None:
        return phrase("no rank in the file")
    if a.rank == b.rank:
        return phrase("rank {rank} twice", rank=a.rank)
    if a.world_size != b.world_size:
        return phrase("{a}, not {b}", a=_describe_size(a.world_size), b=_describe_size(b.world_size))
    groups = _collect_groups(first) & _collect_groups(second)
    if not groups and _collect_groups(first) and _collect_groups(second) and _both_span_job(first, second):
        return phrase("other process groups")
    names = [{info.name for info in trace.meta.devices if _is_named(info.name)} for trace in (first, second)]
    if names[0] and names[1] and not names[0] & names[1] and not groups:
        return phrase("{a}, not {b}", a=_list_names(names[0]), b=_list_names(names[1]))
    apart_ns = max(_find_span(first)[0], _find_span(second)[0]) - min(_find_span(first)[1], _find_span(second)[1])
    if _is_dated(first) and _is_dated(second) and apart_ns > _TOLERANCE_NS:
        return phrase("recorded {time} apart", time=units.duration(apart_ns))
    return ""


def mixed_jobs(traces: Sequence[OfJob]) -> tuple[RankFinding, ...]:
    """Say that files are of several jobs and are not compared as ranks; nothing if they are of one job."""
    words = describe_jobs(traces, [trace.meta.origin for trace in traces])
    if len(words) < 2:
        return ()
    more = phrase("and {n} more", n=len(words) - _MOST_JOBS) if len(words) > _MOST_JOBS else ""
    shown = chained("{a}; {b}", (*words[:_MOST_JOBS], more))
    cause = phrase("these files are of {n} jobs", n=units.count(len(words)))
    return (
        RankFinding(
            rule="mixed_jobs",
            cost_ns=None,
            cause=cause,
            detail=phrase(", which are not compared: {jobs}", jobs=shown),
            ranks=(),
            advice=phrase("Open the ranks of one job together"),
        ),
    )


def describe_jobs(traces: Sequence[OfJob], titles: Sequence[str]) -> tuple[str, ...]:
    """One sentence per job: which ranks, of how many, on what, from which files, and why not with the first job."""
    return tuple(_describe_job(job, traces, titles) for job in jobs(traces))


def _describe_job(job: Job, traces: Sequence[OfJob], titles: Sequence[str]) -> str:
    first = traces[job.members[0]].meta
    ranks = [str(rank) for i in job.members if (rank := traces[i].meta.rank) is not None]
    shown = ", ".join(ranks[:_NAMED]) + (", …" if len(ranks) > _NAMED else "")
    named = counted(len(ranks), "rank {ranks}", "ranks {ranks}", ranks=shown)
    of = phrase(" of {total}", total=first.world_size) if first.world_size and ranks else ""
    devices = _list_names({info.name for info in first.devices})
    who = phrase(
        "{ranks}{total}{devices} ({names})",
        ranks=named if ranks else phrase("a file that names no rank"),
        total=of,
        devices=phrase(" on {devices}", devices=devices) if first.devices else "",
        names=", ".join(titles[i] for i in job.members[:_NAMED]) + (", …" if len(job.members) > _NAMED else ""),
    )
    return chained("{a}: {b}", (who, job.apart))


def _describe_size(world_size: int | None) -> str:
    return phrase("no world size") if world_size is None else counted(world_size, "{n} rank", "{n} ranks")


def _collect_groups(trace: OfJob) -> set[tuple[str, tuple[int, ...]]]:
    """The process groups that the collectives' records name, with their ranks."""
    return {(collective.group, collective.ranks) for collective in trace.collectives if collective.group}


def _both_span_job(first: OfJob, second: OfJob) -> bool:
    """Whether each has a group that spans the whole job: then both would name the same one."""
    sizes = {trace.meta.world_size for trace in (first, second)}
    return all(
        any(collective.group_size in sizes for collective in trace.collectives if collective.group)
        for trace in (first, second)
    )


def _is_named(name: str) -> bool:
    """Whether a device's name is more than its number."""
    return not name.startswith(("device ", "GPU ")) and bool(name)


def _list_names(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _find_span(trace: OfJob) -> tuple[int, int]:
    base = trace.meta.base_unix_ns
    return base + trace.meta.start_ns, base + trace.meta.end_ns


def _is_dated(trace: OfJob) -> bool:
    """Whether times count from a known instant: some writers' files begin at 0, or at the host's boot."""
    return _find_span(trace)[0] > 10**18  # after September 2001


# The files of a job: which are missing, and which cannot be read.

_SHOWN = 6  # stretches of ranks that a sentence lists
_NAMED_FILES = 2  # files that it names


def unread(problems: Sequence[str], n_files: int) -> list[RankFinding]:
    """Say that some files cannot be read.  problems: one sentence per file, which names it and says why."""
    if not problems:
        return []
    more = phrase("and {n} more", n=len(problems) - _NAMED_FILES) if len(problems) > _NAMED_FILES else ""
    return [
        RankFinding(
            rule="unread",
            cost_ns=None,
            cause=phrase(
                "{n} of {files} cannot be read",
                n=units.count(len(problems)),
                files=counted(n_files, "{n} file", "{n} files"),
            ),
            detail=phrase(": {detail}", detail=chained("{a}; {b}", (*problems[:_NAMED_FILES], more))),
            ranks=(),
            advice=phrase("Copy them again, or record them again"),
        )
    ]


def missing(ranks: Iterable[int], world_size: int | None) -> list[RankFinding]:
    """Which ranks of the job have no file; nothing if no file says how many there are."""
    known = set(ranks)
    absent = [rank for rank in range(world_size or 0) if rank not in known]
    if not absent:
        return []
    n, of = len(absent), counted(world_size or 0, "{n} rank", "{n} ranks")
    return [
        RankFinding(
            rule="missing_ranks",
            cost_ns=None,
            cause=counted(n, "{n} of {ranks} has no file", "{n} of {ranks} have no file", ranks=of),
            detail=counted(
                n,
                ": rank {ranks}. Others may have waited for it, and nothing here says so",
                ": ranks {ranks}. Others may have waited for them, and nothing here says so",
                ranks=stretches(absent),
            ),
            ranks=(),
            advice=phrase("Add their files"),
        )
    ]


def stretches(ranks: Sequence[int]) -> str:
    """Ascending numbers as people list them: "3, 17–19, 40, …"."""
    cuts = np.flatnonzero(np.diff(ranks) > 1) + 1
    parts = [part.tolist() for part in np.split(np.asarray(ranks), cuts)]
    words = [str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts]
    return ", ".join(words[:_SHOWN]) + (", …" if len(words) > _SHOWN else "")


def without_match(comm_names: str | None, n_comm: Mapping[int, int]) -> bool:
    """Whether a rule for communication matched nothing on any rank.  n_comm: communication ops by rank."""
    return comm_names is not None and not any(n_comm.values())
