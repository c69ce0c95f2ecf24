"""Where ranks hang, and which rank keeps them there: absent ranks, calls that do not match, circular waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from perfmagic.analysis.findings.answer import Proposal
from perfmagic.analysis.flight.job import SENDS, Job, Operation
from perfmagic.analysis.flight.mismatch import Parts, first_mismatches, size_label
from perfmagic.analysis.flight.words import (
    at_place,
    describe_call,
    describe_group,
    describe_operation,
    describe_place,
    describe_ranks,
)
from perfmagic.base.language import chained, counted, phrase
from perfmagic.trace.formats.flight import NO_PLACE, Place
from perfmagic.trace.json_form import JsonForm, one_of

KINDS = ("mismatch", "absent", "no dump", "circle", "queued", "transfer", "follows")  # what is said first
_MOST_PLACES = 3  # of absent ranks, each an answer


@dataclass(frozen=True)
class Standstill(JsonForm):
    """One operation that some ranks cannot leave.

    kind: why: calls that do not match, ranks that never came, ranks without a dump, ranks that wait in a circle,
    ranks whose device has not begun it, a transfer that does not end; "follows" where the absent ranks hang
    elsewhere.
    call: its name.
    number: of the collectives of its group, or of the rank's messages.
    group: its group, as torch names it.
    ranks: the ranks in it.
    absent: the ranks that it waits for, without those that hang elsewhere, unless all do.
    sentence: all of this in words.
    """

    shown: ClassVar[tuple[str, ...]] = ("kind", "ranks", "absent", "sentence")

    kind: Annotated[str, one_of(*KINDS)]
    call: str
    number: int
    group: str
    ranks: tuple[int, ...]
    absent: tuple[int, ...]
    sentence: str


Found = tuple[Standstill, tuple[Proposal, ...]]


def find_standstills(job: Job) -> list[Found]:
    """Every operation that ranks cannot leave, with what to look at; what keeps others there comes first."""
    if not job.waiting:
        return []
    different = first_mismatches(job, standing=True)
    at_fault = {id(operation.calls) for operation, _ in different}
    found = [_different(job, operation, parts) for operation, parts in different]
    heads = [head for head in job.collectives if id(head.calls) not in at_fault]
    found += [_stands(job, operation) for operation in (*heads, *job.messages)]
    if all(standstill.kind == "follows" for standstill, _ in found):
        found = [_circle(job, [*heads, *job.messages]), *found]
    stuck = {one.group for one, _ in found if one.ranks}
    return sorted(found, key=lambda one: KINDS.index(one[0].kind if one[0].group in stuck else "transfer"))


def _stands(job: Job, operation: Operation) -> Found:
    lost = [rank for rank in operation.absent if rank not in job.dumps]
    free = [rank for rank in operation.absent if rank in job.dumps and rank not in job.waiting]
    if free:
        return _absent(job, operation, free)
    if lost:
        return _lost(job, operation, lost)
    if operation.absent:
        return _made("follows", operation, operation.absent, _never_came(job, operation, operation.absent)), ()
    if operation.is_message and (parts := _sizes_of_ends(operation)):
        return _different(job, operation, parts)
    return _inside(job, operation)


def _made(kind: str, operation: Operation, absent: Sequence[int], sentence: str) -> Standstill:
    call = next(iter(operation.calls.values()))
    return Standstill(kind, call.name, operation.number, call.group.name, operation.open, tuple(absent), sentence)


def _never_came(job: Job, operation: Operation, absent: Sequence[int]) -> str:
    return counted(
        len(operation.open),
        "{absent} never came to {call}: {ranks} waits there",
        "{absent} never came to {call}: {ranks} wait there",
        absent=describe_ranks(absent),
        call=describe_operation(operation, job),
        ranks=describe_ranks(operation.open),
    )


def _absent(job: Job, operation: Operation, absent: Sequence[int]) -> Found:
    """Ranks that have no call under way: what they do instead is Python, or on their device."""
    sentence = _never_came(job, operation, absent)
    if operation.is_message:
        (rank, call), *_ = operation.calls.items()
        other = "recv" if call.name in SENDS else "send"
        sentence = phrase(
            "rank {rank} waits in {call}, and rank {peer} has no {other} for it",
            rank=rank, call=describe_call(call, job), peer=absent[0], other=other,
        )  # fmt: skip
    return _made("absent", operation, absent, sentence), tuple(_last_seen(job, absent))


def _last_seen(job: Job, ranks: Sequence[int]) -> Iterator[Proposal]:
    """Where the absent ranks were last, the ranks at one line together."""
    by_line: dict[tuple[Place, str, int], list[int]] = {}
    for rank in ranks:
        calls = job.dumps[rank].calls
        last = calls[-1] if calls else None
        by_line.setdefault((last.place, last.name, last.number) if last else (NO_PLACE, "", 0), []).append(rank)
    for (place, name, _), of_line in list(by_line.items())[:_MOST_PLACES]:
        who = describe_ranks(of_line)
        if not name:
            yield Proposal(phrase("{ranks} recorded no call", ranks=who), phrase("Read the log of {ranks}", ranks=who))
            continue
        call = describe_call(job.dumps[of_line[0]].calls[-1], job)
        headline = phrase("the last call of {ranks} was {call}", ranks=who, call=call)
        todo = phrase("Look at what {ranks} runs after {where}", ranks=who, where=describe_place(place) or call)
        yield Proposal(at_place(headline, place), todo, line=place.line, function=place.function)


def _lost(job: Job, operation: Operation, lost: Sequence[int]) -> Found:
    sentence = counted(
        len(operation.open),
        "{ranks} waits in {call}, and {lost} left no dump",
        "{ranks} wait in {call}, and {lost} left no dump",
        ranks=describe_ranks(operation.open),
        call=describe_operation(operation, job),
        lost=describe_ranks(lost),
    )
    who = describe_ranks(lost)
    headline = phrase("what {ranks} did is not known", ranks=who)
    return _made("no dump", operation, lost, sentence), (
        Proposal(headline, phrase("Read the log of {ranks}: a process that ended leaves no dump", ranks=who)),
    )


def describe_mismatch(job: Job, operation: Operation, parts: Parts) -> str:
    """Which operation does not match, and what its ranks ask for."""
    said = chained("{a}, {b}", (phrase("{what} on {ranks}", what=what, ranks=describe_ranks(of)) for what, of in parts))
    call = describe_operation(operation, job)
    if operation.is_message:
        return phrase("messages do not match: {call} has {parts}", call=call, parts=said)
    if len({of_rank.name for of_rank in operation.calls.values()}) == 1:
        return phrase("collectives do not match: {call} has {parts}", call=call, parts=said)
    call = phrase("#{number} of {group}", number=operation.number, group=describe_group(operation.group))
    return phrase("collectives do not match: {call} is {parts}", call=call, parts=said)


def _different(job: Job, operation: Operation, parts: Parts) -> Found:
    *others, (_, most) = parts
    proposals = (
        _compare(
            phrase("{what} on {ranks}", what=what, ranks=describe_ranks(few)),
            operation.calls[few[0]].place, operation.calls[most[0]].place, most,
        )
        for what, few in others[:_MOST_PLACES]
    )  # fmt: skip
    sentence = describe_mismatch(job, operation, parts)
    return _made("mismatch", operation, parts[0][1], sentence), tuple(proposals)


def _compare(what: str, place: Place, other: Place, ranks: Sequence[int]) -> Proposal:
    """What is at one line, and the line of other ranks."""
    headline = at_place(what, place)
    todo = phrase("Compare it with {where} on {ranks}", where=describe_place(other), ranks=describe_ranks(ranks))
    if not other.file:
        todo = phrase("Compare what these ranks call before it")
    return Proposal(headline, todo, line=place.line, function=place.function)


def _sizes_of_ends(operation: Operation) -> Parts:
    """What a message has on its two ends, where that differs."""
    (sender, sent), (receiver, got) = sorted(operation.calls.items(), key=lambda end: end[1].name not in SENDS)
    if sent.inputs == got.outputs or not (sent.inputs and got.outputs):
        return []
    return [(size_label(sent), [sender]), (size_label(got), [receiver])]


def _inside(job: Job, operation: Operation) -> Found:
    """All ranks that are known to take part are in it."""
    if not operation.group.ranks:
        return _others_unknown(job, operation)
    started = [rank for rank in operation.open if operation.calls[rank].state == "started"]
    queued = [rank for rank in operation.open if rank not in started]
    call = describe_operation(operation, job)
    if started and queued:
        who, behind = describe_ranks(started), describe_ranks(queued)
        sentence = phrase("{started} began {call}, and {queued} did not", call=call, started=who, queued=behind)
        todo = phrase("Look at what the devices of {ranks} execute before it", ranks=behind)
        headline = phrase("it is queued behind other work on {ranks}", ranks=behind)
        return _made("queued", operation, queued, sentence), (Proposal(headline, todo),)
    sentence = phrase("no rank is missing in {call}, and it had not ended", call=call)
    todo = phrase("Check links and devices of these ranks: NCCL_DEBUG=INFO, dmesg")
    headline = phrase("all its ranks have called it: {ranks}", ranks=describe_ranks(operation.open))
    return _made("transfer", operation, (), sentence), (Proposal(headline, todo),)


def _others_unknown(job: Job, operation: Operation) -> Found:
    sentence = counted(
        len(operation.open),
        "{ranks} waits in {call}, and the dumps do not say for whom",
        "{ranks} wait in {call}, and the dumps do not say for whom",
        ranks=describe_ranks(operation.open),
        call=describe_operation(operation, job),
    )
    headline = phrase("other ranks may take part in it")
    return _made("no dump", operation, (), sentence), (Proposal(headline, phrase("Open the dumps of all ranks")),)


def _circle(job: Job, operations: Sequence[Operation]) -> Found:
    """Each waits for ranks that wait elsewhere."""
    loop = _loop(operations)
    shown, n_more = loop[:_MOST_PLACES], len(loop[_MOST_PLACES:])
    where = chained("{a}, {b}", (_who_is_where(job, operation) for operation in shown))
    if n_more:
        where = counted(n_more, "{where}, and {n} more call", "{where}, and {n} more calls", where=where)
    sentence = phrase("each waits for another, and none can continue: {where}", where=where)
    made = Standstill("circle", "", loop[0].number, "", _ranks_in(loop), (), sentence)
    followed = zip(shown, (*loop[1:], loop[0]), strict=False)
    lines = (
        _compare(_who_is_where(job, one), _place(one), _place(after), after.open)
        for one, after in followed
        if _place(one).file
    )
    return made, (_cause(loop), *lines)


def _loop(operations: Sequence[Operation]) -> list[Operation]:
    """Those that wait for each other, without those that wait behind them."""
    waits_in: dict[int, Operation] = {}
    for operation in sorted(operations, key=lambda one: min(one.calls[rank].created_ns for rank in one.open)):
        for rank in operation.open:
            waits_in.setdefault(rank, operation)
    path: dict[int, Operation] = {}
    operation = operations[0]
    while id(operation) not in path:
        path[id(operation)] = operation
        operation = waits_in[operation.absent[0]]
    return list(path.values())[list(path).index(id(operation)) :]


def _who_is_where(job: Job, operation: Operation) -> str:
    return phrase("{ranks} in {call}", ranks=describe_ranks(operation.open), call=describe_operation(operation, job))


def _place(operation: Operation) -> Place:
    return operation.calls[operation.open[0]].place


def _cause(loop: Sequence[Operation]) -> Proposal:
    """What is called in the wrong order: collectives of a loop are of different groups."""
    messages = [operation for operation in loop if operation.is_message]
    if not messages:
        todo = phrase("Have all ranks use their groups in the same order")
        return Proposal(phrase("groups are used in different orders"), todo)
    if len(messages) < len(loop):
        collectives = [operation for operation in loop if not operation.is_message]
        headline = phrase(
            "{waiting}, and {others}", waiting=_in_messages(messages), others=_in_collectives(collectives)
        )
        return Proposal(headline, phrase("Have all ranks call messages and collectives in the same order"))
    headline = phrase("messages are sent and received in different orders")
    if all(map(_is_sent, messages)):
        headline = phrase("each rank sends before it receives")
    elif not any(map(_is_sent, messages)):
        headline = phrase("each rank receives before it sends")
    return Proposal(headline, phrase("Reverse the order on one rank, or use batch_isend_irecv"))


def _is_sent(message: Operation) -> bool:
    return message.calls[message.open[0]].name in SENDS


def _in_messages(messages: Sequence[Operation]) -> str:
    ranks = _ranks_in(messages)
    who = describe_ranks(ranks)
    if all(map(_is_sent, messages)):
        return counted(len(ranks), "{ranks} waits to send a message", "{ranks} wait to send messages", ranks=who)
    return counted(len(ranks), "{ranks} waits for a message", "{ranks} wait for messages", ranks=who)


def _in_collectives(collectives: Sequence[Operation]) -> str:
    ranks = _ranks_in(collectives)
    who = describe_ranks(ranks)
    return counted(len(ranks), "{ranks} is in a collective", "{ranks} are in collectives", ranks=who)


def _ranks_in(operations: Sequence[Operation]) -> tuple[int, ...]:
    return tuple(sorted({rank for operation in operations for rank in operation.open}))
