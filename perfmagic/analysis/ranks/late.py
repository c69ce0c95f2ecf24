"""Which rank the others wait for, in words: the work that takes more than its peers', and what the job wins without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.analysis.findings.catalogue import ACTION_CHARS, HEADLINE_CHARS, Remedy, action, headline
from perfmagic.analysis.ranks.causes import LINK, Cause, causes_of
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.timeline.doings import Doing
from perfmagic.analysis.timeline.own_work import CORE, PYTHON
from perfmagic.base import units
from perfmagic.base.language import Words, counted, listed, phrase, sentences
from perfmagic.base.terminal import columns, cut_to_columns
from perfmagic.trace.columns import NO_LINE
from perfmagic.trace.names import short_name

if TYPE_CHECKING:
    from perfmagic.analysis.ranks.ranks import Ranks

_PHASES = {"backward": phrase("backward")}
OTHER_THREADS = 2  # times the excess that all threads waited for a core: several wait at once
MORE_ROWS = 1.25  # times those of peers
PLACE_CHARS = 40  # beside the code of a line
MOST_NAMED = 3  # ranks, or steps, in a headline


def late(job: Ranks) -> list[RankFinding]:
    """The causes of waiting, the dearest first; where there are none, that ranks wait in turn."""
    found = causes_of(job)
    return [*(_of_cause(job, cause) for cause in found), *_in_turn(job, found)]


def name_ranks(ranks: Sequence[int]) -> Words:
    """Some ranks in words: "rank 3", "ranks 4 and 5", "12 ranks"."""
    if len(ranks) > MOST_NAMED:
        return counted(len(ranks), "{n} rank", "{n} ranks")
    numbers = listed(list(map(str, ranks)))
    return counted(len(ranks), "rank {ranks}", "ranks {ranks}", ranks=numbers)


def name_place(doing: Doing, room: int) -> Words:
    """The place of some work, or its name, in `room` columns: "train.py line 31"."""
    if not doing.line:
        name = phrase("waiting for a core") if doing.name == CORE else short_name(doing.name)
        return phrase("{name}", name=cut_to_columns(name, room))
    if not doing.file:
        return phrase("line {line}", line=doing.line)
    if doing.function:
        place = f" ({doing.file_name}:{doing.line})"
        return phrase("{name}", name=cut_to_columns(doing.function, max(8, room - columns(place))) + place)
    rest = columns(phrase("{file} line {line}", file="", line=doing.line))
    return phrase("{file} line {line}", file=cut_to_columns(doing.file_name, max(8, room - rest)), line=doing.line)


def _of_cause(job: Ranks, cause: Cause) -> RankFinding:
    said, words, detail, remedy = _link(cause) if cause.phase == LINK else _work(job, cause)
    facts = sentences(detail, *_outcome(job, cause))
    found = RankFinding(
        rule="straggler",
        cost_ns=cause.gain_ns,
        cause=words,
        detail=phrase(": {detail}", detail=facts),
        ranks=cause.ranks,
        advice=remedy.advice,
        headline=said,
        action=remedy.action,
        line=cause.doing.cell_line if cause.doing else NO_LINE,
        window_ns=cause.span_ns,
    )
    return replace(found, rule="slow_link") if cause.phase == LINK else found


_Wording = tuple[Words, Words, str, Remedy]  # headline, first and second part of the sentence, what to do


def _work(job: Ranks, cause: Cause) -> _Wording:
    doing, who, more, when = cause.doing, name_ranks(cause.ranks), units.duration(cause.excess_ns), _when(cause)
    where = _where(cause)
    values = {"who": who, "time": more, "where": where, "when": when}
    words = counted(
        len(cause.ranks),
        "{who} takes {time} more than its peers{where}{when}",
        "{who} take {time} more than their peers{where}{when}",
        **values,
    )
    peers_ns = cause.own_ns - cause.excess_ns
    took = {"time": units.duration(cause.own_ns), "peers": units.duration(max(0, peers_ns))}
    detail: str = phrase("{time}, and not {peers}", **took)
    if peers_ns < cause.own_ns // 100:
        detail = phrase("{time}, of which peers have nothing", time=took["time"])
    if cause.rows >= MORE_ROWS:
        rows = counted(
            len(cause.ranks),
            "it has {n} × the rows in the same operators",
            "they have {n} × the rows in the same operators",
            n=f"{cause.rows:.2g}",
        )
        detail = sentences(detail, rows)
    detail = sentences(detail, _counted_how(cause))
    if cause.name == CORE:
        return headline("late_for_core", time=more, ranks=who, when=when), words, detail, _remedy_of_core(job, cause)
    waited_ns = max(job.summaries[rank].meta.waited_for_core_ns or 0 for rank in cause.ranks)
    if waited_ns >= OTHER_THREADS * cause.excess_ns and job.summaries[cause.rank].lane.knows_core:
        # its own thread did not; what another one kept it waiting for is not known
        unknown = phrase(
            "The cause is unknown: its other threads waited {time} for a core", time=units.duration(waited_ns)
        )
        return _headline(cause, who, more, when), words, detail, Remedy(unknown)
    look = phrase("Look at {place} on {who}", place=name_place(doing, HEADLINE_CHARS) if doing else "", who=who)
    if cause.name == PYTHON:
        look = phrase("Look at what Python does there, and at {place}", place=job.where_to_look)
    if cause.doing is None:
        look = phrase("Compare its work with another rank's: rows, sequence lengths, experts")
    return _headline(cause, who, more, when), words, detail, Remedy(look, _action(cause, who))


def _remedy_of_core(job: Ranks, cause: Cause) -> Remedy:
    n_cores = job.summaries[cause.rank].meta.cores
    if n_cores is not None and n_cores < len(job.ranks):
        return Remedy(phrase("Run no more ranks than cores"), action("fewer_ranks"))
    return Remedy(phrase("See what else runs there"), action("other_load", rank=cause.rank))


def _link(cause: Cause) -> _Wording:
    """Transfers that take longer with a rank than without it; of several ranks it is unknown which one it is."""
    who, kind = name_ranks(cause.ranks), cause.name
    ratio = f"{cause.own_ns / max(1, cause.own_ns - cause.excess_ns):.1f}"
    words = phrase("{kind} with {who} takes {n} × as long as without", kind=kind, who=who, n=ratio)
    took = {"time": units.duration(cause.own_ns), "usual": units.duration(cause.own_ns - cause.excess_ns)}
    detail: str = phrase("{time}, and not {usual}, once all have come", **took)
    if len(cause.ranks) > 1:
        detail = sentences(detail, phrase("each of these ranks takes part: which link is slow is unknown"))
    look = phrase("Check the links of {who}, and what else they carry", who=who)
    said = headline("slow_link", kind=kind, ranks=who, n=ratio)
    return said, words, detail, Remedy(look, action("slow_link", ranks=who))


def _headline(cause: Cause, who: Words, more: str, when: str) -> Words:
    values = {"ranks": who, "time": more, "when": when}
    if cause.doing is None:
        return headline("late_at_work", **values)
    if cause.line and not cause.doing.file:
        at = {"line": cause.line, **values}
        return (
            headline("late_on_line_in", phase=_PHASES[cause.phase], **at)
            if cause.phase
            else headline("late_on_line", **at)
        )
    phase: str = phrase(" ({phase})", phase=_PHASES[cause.phase]) if cause.phase and cause.line else ""
    room = HEADLINE_CHARS - columns(headline("late_in", name=phase, **values))
    return headline("late_in", name=phrase("{a}{b}", a=name_place(cause.doing, room), b=phase), **values)


def _action(cause: Cause, who: Words) -> Words:
    doing = cause.doing
    if doing is None or cause.rows >= MORE_ROWS:
        return action("late_work", ranks=who)
    if not doing.line or (doing.file and not doing.name):
        room = ACTION_CHARS - columns(action("late_in", name="", ranks=who))
        return action("late_in", name=name_place(doing, room), ranks=who)
    at = {"place": name_place(doing, PLACE_CHARS), "ranks": who}
    if not doing.name:
        return action("late_in", name=at["place"], ranks=who)
    room = ACTION_CHARS - columns(action("late_line", code="", **at))
    return action("late_line", code=cut_to_columns(doing.name, room), **at)


def _where(cause: Cause) -> str:
    """On which line, or in what, of which phase; "" for all its work."""
    if cause.doing is None:
        return ""
    name = name_place(cause.doing, HEADLINE_CHARS)
    place: str = phrase(" in {name}", name=name)
    if cause.line and not cause.doing.function:
        place = phrase(" on {place}", place=name)
    return phrase("{place} ({phase})", place=place, phase=_PHASES[cause.phase]) if cause.phase else place


def _when(cause: Cause) -> str:
    """In which steps; where none are marked, how often."""
    if _names_steps(cause):
        numbers = listed(list(map(str, cause.steps)))
        return counted(len(cause.steps), " in step {steps}", " in steps {steps}", steps=numbers)
    if cause.steps and len(cause.steps) == cause.n_rounds:
        return phrase(" in every step")
    if cause.steps:
        return phrase(" in {n} of {total} steps", n=len(cause.steps), total=cause.n_rounds)
    if cause.n_rounds == 1:
        return ""
    if cause.n_times >= cause.n_rounds:
        return phrase(" in every round")
    return phrase(" in {n} of {total} rounds", n=cause.n_times, total=cause.n_rounds)


def _names_steps(cause: Cause) -> bool:
    return 0 < len(cause.steps) <= MOST_NAMED and len(cause.steps) < max(cause.n_rounds, 2)


def _counted_how(cause: Cause) -> str:
    """What the numbers in _when() count."""
    if _names_steps(cause):
        return phrase("steps count from 0")
    return "" if cause.steps or cause.n_rounds == 1 else phrase("a round ends with a collective of all ranks")


def _outcome(job: Ranks, cause: Cause) -> tuple[Words, ...]:
    """What the job wins, and how much less the others wait."""
    less = {"time": units.duration(cause.gain_ns), "waits": units.duration(cause.waited_ns)}
    n_others = len(job.ranks) - len(cause.ranks)
    won = phrase("with its peers' time the job takes {time} less", **less)
    if cause.about:
        won = phrase("with its peers' time the job takes about {time} less", **less)
    waits = counted(
        n_others, "the other rank waits {waits} less", "the other {n} ranks wait {waits} less in all", **less
    )
    return (won, waits) if cause.waited_ns else (won,)


def _in_turn(job: Ranks, found: Sequence[Cause]) -> list[RankFinding]:
    """That ranks wait, and that no work stands out for it."""
    waited_ns = job.waits.costs_ns.sum(axis=0).tolist()
    each_ns = round(float(np.median(waited_ns)))
    if found or each_ns < job.notable_ns or not job.computes:
        return []
    each = phrase("the median rank waits {time}", time=units.duration(each_ns))
    if len(job.ranks) == 2:
        first, second = map(units.duration, waited_ns)
        ranks = {"rank": job.ranks[0], "other": job.ranks[1]}
        each = phrase("rank {rank} waits {first} and rank {other} {second}", first=first, second=second, **ranks)
    median = phrase(
        "{waits} in {collectives}, without overlapping with compute", waits=each, collectives=job.n_collectives
    )
    none = phrase("no work of one rank stands out from its peers'")
    return [
        RankFinding(
            rule="ranks_in_turn",
            cost_ns=each_ns,
            cause=phrase("ranks wait for each other in turn"),
            detail=phrase(": {detail}", detail=sentences(median, none)),
            ranks=tuple(job.ranks),
            advice=phrase("The work of a step varies from rank to rank: sequence lengths, experts, or Python's pauses"),
            headline=headline("ranks_in_turn", time=units.duration(each_ns)),
            action=action("balance"),
        )
    ]
