"""What dumps of a flight recorder say: who keeps whom waiting, and a row for each rank and each call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from perfmagic.analysis.findings.answer import Conclusion, Proposal
from perfmagic.analysis.flight.job import Job
from perfmagic.analysis.flight.mismatch import first_mismatches
from perfmagic.analysis.flight.standstill import Found, Standstill, describe_mismatch, find_standstills
from perfmagic.analysis.flight.words import brief_call, describe_group, describe_operation, describe_ranks, is_default
from perfmagic.base.language import capitalised, listed, phrase
from perfmagic.trace.formats.flight import NO_PLACE, Call
from perfmagic.trace.json_form import JsonForm
from perfmagic.trace.rows import Rows

_MOST_ANSWERS = 3


@dataclass(frozen=True)
class RankState:
    """What one rank recorded last.

    rank: its number.
    n_calls: what its dump holds.
    n_lost: earlier calls, which the dump no longer holds.
    last_ended: its last call that ended.
    waits_in: its first call that has not ended; empty where all have.
    state: of that call: scheduled (queued on the device), or started, which torch notes with TORCH_NCCL_ENABLE_TIMING.
    file: of the user's line of that call, else of its last call; empty without stacks.
    line: of that file; 0 without stacks.
    function: around that line.
    created_ns: when that call was made, by the host's clock.
    stack: of that call, innermost first.
    """

    shown: ClassVar[tuple[str, ...]] = ("rank", "last_ended", "waits_in", "state", "file", "line")

    rank: int
    n_calls: int
    n_lost: int
    last_ended: str
    waits_in: str
    state: str
    file: str
    line: int
    function: str
    created_ns: int
    stack: tuple[str, ...]


@dataclass(frozen=True)
class RecordedCall:
    """One collective, or one end of a message, on one rank.

    rank: its number.
    call: its name.
    group: its group, as torch names it.
    number: of the collectives of its group, or of its messages.
    peer: the rank at the other end; None of a collective.
    state: scheduled, started or completed.
    size_bytes: of its inputs or its outputs, the larger; None where the dump does not say.
    created_ns: when it was made, by the host's clock.
    duration_ns: None where torch did not measure it (TORCH_NCCL_ENABLE_TIMING).
    file: of the user's line.
    line: of that file; 0 without stacks.
    """

    rank: int
    call: str
    group: str
    number: int
    peer: int | None
    state: str
    size_bytes: int | None
    created_ns: int
    duration_ns: int | None
    file: str
    line: int


@dataclass(frozen=True)
class FlightReport(JsonForm):
    """What the dumps of one job say.

    version: of the recorder's format.
    library: that communicated, with its version as far as the dumps say.
    conclusion: who keeps whom waiting, and what to look at.
    missing: ranks that left no dump.
    standstills: every operation that ranks cannot leave.
    ranks: what each rank recorded last.
    """

    version: str
    library: str
    conclusion: Conclusion
    missing: tuple[int, ...]
    standstills: Rows[Standstill]
    ranks: Rows[RankState]


def report(job: Job) -> FlightReport:
    """All that is concluded from some dumps."""
    found = find_standstills(job)
    first = next(iter(job.dumps.values()))
    states = Rows([_state(job, rank) for rank in job.dumps], RankState)
    standstills = Rows([standstill for standstill, _ in found], Standstill)
    return FlightReport(first.version, first.library, _conclude(job, found), job.missing, standstills, states)


def recorded_calls(job: Job) -> Rows[RecordedCall]:
    """Every call of every rank, by rank, in order."""
    rows = (_row(job, rank, call) for rank, dump in job.dumps.items() for call in dump.calls)
    return Rows(rows, RecordedCall)


def _row(job: Job, rank: int, call: Call) -> RecordedCall:
    return RecordedCall(
        rank, call.name, call.group.name, call.number, None if call.peer is None else job.peer(call), call.state,
        call.size_bytes, call.created_ns, call.duration_ns, call.place.file, call.place.line,
    )  # fmt: skip


def _conclude(job: Job, found: list[Found]) -> Conclusion:
    if not found:
        return Conclusion(_nothing(job), warnings=tuple(_warnings(job, lost=())))
    first, proposals = found[0]
    others = [
        Proposal(other.sentence, more[0].action, line=more[0].line, function=more[0].function)
        for other, more in found[1:]
        if more
    ]
    lost = first.absent if first.kind == "no dump" else ()
    shown = tuple(replace(each, headline=capitalised(each.headline)) for each in (*proposals, *others)[:_MOST_ANSWERS])
    return Conclusion(capitalised(first.sentence), shown, tuple(_warnings(job, lost=lost)))


def _nothing(job: Job) -> str:
    last = job.last_common()
    if not any(dump.calls for dump in job.dumps.values()):
        return capitalised(phrase("no rank hangs: the dumps hold no call"))
    if last is None:
        return capitalised(phrase("no rank hangs: the dumps hold no open call"))
    call = describe_operation(last, job)
    return capitalised(phrase("no rank hangs: the last common collective is {call}", call=call))


def _warnings(job: Job, lost: tuple[int, ...]) -> list[str]:
    """What the dumps do not say.  lost: ranks without a dump that the answer names."""
    missing = [rank for rank in job.missing if rank not in lost]
    groups = [group for group in job.by_number if not group.ranks]
    unknown = sorted({describe_group(group) for group in groups if not is_default(group)})
    versions = sorted({dump.version for dump in job.dumps.values()})
    warnings: list[str] = [phrase("there is no dump from {ranks}", ranks=describe_ranks(missing))] if missing else []
    if any(map(is_default, groups)):
        warnings.append(phrase("the dumps do not say how many ranks the job has"))
    if unknown:
        names = listed(unknown)
        warnings.append(phrase("the dumps do not name the ranks of {groups}: those that used it count", groups=names))
    passed = first_mismatches(job, standing=False)
    passed += [] if job.waiting else first_mismatches(job, standing=True)
    warnings += [describe_mismatch(job, *different) for different in passed]
    last_calls = [call for dump in job.dumps.values() for call in dump.calls[-1:]]
    if not last_calls:
        warnings.append(phrase("torch records calls only if TORCH_FR_BUFFER_SIZE is above 0"))
    elif not any(call.stack for call in last_calls):
        warnings.append(phrase("the dumps have no stacks: torch writes them into pickles, not into JSON"))
    if len(versions) > 1:
        warnings.append(phrase("the dumps have different versions: {versions}", versions=", ".join(versions)))
    return warnings


def _state(job: Job, rank: int) -> RankState:
    dump = job.dumps[rank]
    ended = next((call for call in reversed(dump.calls) if call.ended), None)
    waits = next((call for call in dump.calls if not call.ended), None)
    last: Call | None = waits or (dump.calls[-1] if dump.calls else None)
    place = last.place if last else NO_PLACE
    return RankState(
        rank=rank,
        n_calls=len(dump.calls),
        n_lost=dump.n_lost,
        last_ended=brief_call(ended, job) if ended else "",
        waits_in=brief_call(waits, job) if waits else "",
        state=waits.state if waits else "",
        file=place.file,
        line=place.line,
        function=place.function,
        created_ns=last.created_ns if last else 0,
        stack=tuple(f"{at.file}:{at.line} {at.function}" for at in last.stack) if last else (),
    )
