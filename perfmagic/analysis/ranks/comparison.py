"""Ranks compared: two ranks of one job, and the ranks of two jobs."""

from __future__ import annotations

from collections import defaultdict

from perfmagic.analysis.ranks.jobs import difference
from perfmagic.analysis.ranks.meetings import Meeting
from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.base import units
from perfmagic.base.language import chained, phrase, sentences
from perfmagic.trace.model import Trace

ONE_FRAC = 0.9  # of the waiting: then one collective tells the story, and how many others there are does not


def describe_waiting(
    first: Trace, second: Trace, names: tuple[str, str], comm_names: str | None = None
) -> tuple[str, ...]:
    """Of two ranks of one job how long each waits inside collectives for the other, in sentences; none else.

    names: what sentences call the two. Other ranks may come later still: of more than two the waiting is longer.
    """
    if difference(first, second):
        return ()
    ranks = ranks_of((first, second), comm_names)
    if ranks is None or not ranks.matching.n:
        return ()
    called = {first.meta.rank: names[0], second.meta.rank: names[1]}
    late, early = max(((i, 1 - i) for i in (0, 1)), key=lambda pair: ranks.waits.waits_ns[pair])
    waited_ns, back_ns = int(ranks.waits.waits_ns[late, early]), int(ranks.waits.waits_ns[early, late])
    if waited_ns < ranks.notable_ns:
        return ()
    a, b = called[ranks.ranks[late]], called[ranks.ranks[early]]
    waits_by_time = _waits_by_time_ns(ranks, early)
    most, most_ns = max(enumerate(waits_by_time), key=lambda wait: wait[1])
    if most_ns >= ONE_FRAC * waited_ns:
        waits = phrase(
            "{early} waits {time} inside collectives for {late}, {most} ({share}) of it in one, {which} of the "
            "{collectives}",
            early=b,
            time=units.duration(waited_ns),
            late=a,
            most=units.duration(most_ns),
            share=units.percent(most_ns / waited_ns),
            which=phrase("number {n}", n=units.count(most + 1)) if most else phrase("the first"),
            collectives=ranks.n_collectives,
        )
        back: str = phrase("{late} waits {time} for {early}", late=a, time=units.duration(back_ns), early=b)
    else:
        back = ""
        waits = phrase(
            "{late} comes later than {early} to {n} of the {collectives}, and {early} waits {time} inside them, "
            "{late} {back} inside the others",
            late=a,
            early=b,
            n=units.count(sum(ns > 0 for ns in waits_by_time)),
            collectives=ranks.n_collectives,
            time=units.duration(waited_ns),
            back=units.duration(back_ns),
        )
    counts = phrase("It counts as communication, but nothing is transferred in it")
    return (phrase("{a} and {b} are ranks of one job: {facts}", a=a, b=b, facts=sentences(waits, back, counts)),)


def _waits_by_time_ns(ranks: Ranks, i: int) -> list[int]:
    """How long a rank waited in each collective, by when it came to it."""
    rank = ranks.ranks[i]
    waits: list[tuple[int, int]] = []
    for group in ranks.matching.groups:
        row = group.ranks.index(rank)
        waits += zip(group.start_ns[row].tolist(), group.waits.waiting_ns[row].tolist(), strict=True)
    return [waited_ns for _, waited_ns in sorted(waits)]


def describe_changes(first: Ranks, second: Ranks, names: tuple[str, str]) -> tuple[str, ...]:
    """The collective at which waiting changed most, and how well the clocks of both agree, in sentences.

    names: what sentences call the two. A change that the clocks may be wrong by is none.
    """
    said = []
    pairs, both = _matched(first, second), dict(zip("ab", names, strict=True))
    # the wait of a collective is the longest of its ranks, and both may be wrong
    sure = [row for row in pairs if abs(row[2].waited_ns - row[1].waited_ns) > row[1].bound_ns + row[2].bound_ns]
    if sure:
        number, a, b = max(sure, key=lambda row: abs(row[2].waited_ns - row[1].waited_ns))
        waits = phrase(
            "waiting changed most at {kind} number {n}, by {diff}: {a_time} in {a}, {b_time} in {b}",
            kind=a.kind,
            n=units.count(number + 1),
            diff=units.signed(b.waited_ns - a.waited_ns),
            a_time=units.duration(a.waited_ns),
            b_time=units.duration(b.waited_ns),
            **both,
        )
        known = [
            phrase("rank {rank} in {name}", rank=met.last, name=name)
            for name, met in zip(names, (a, b), strict=True)
            if met.last is not None
        ]
        last = phrase("last to arrive: {ranks}", ranks=chained("{a}, {b}", known)) if known else ""
        said.append(chained("{a}; {b}", (waits, last)))
    clocks = [ranks.alignment.words for ranks in (first, second)]
    if clocks[0] != clocks[1]:
        said.append(phrase("clocks of {a}: {first}; of {b}: {second}", first=clocks[0], second=clocks[1], **both))
    elif pairs:
        said.append(phrase("clocks of both: {clocks}", clocks=clocks[0]))
    return tuple(said)


def _matched(first: Ranks, second: Ranks) -> list[tuple[int, Meeting, Meeting]]:
    """Each collective of the first with that of the second, by kind, ranks and order, and its number among those.

    Where one has more of a kind than the other nothing says which is which.
    """
    of_both = [_by_kind(ranks) for ranks in (first, second)]
    return [
        (number, a, b)
        for key, of_first in of_both[0].items()
        if len(of_first) == len(of_both[1].get(key, ()))
        for number, (a, b) in enumerate(zip(of_first, of_both[1][key], strict=True))
    ]


def _by_kind(ranks: Ranks) -> dict[tuple[str, tuple[int, ...]], list[Meeting]]:
    """A group's name is not the same in another job; its ranks are."""
    by_kind: dict[tuple[str, tuple[int, ...]], list[Meeting]] = defaultdict(list)
    for meeting in ranks.meetings:
        by_kind[meeting.kind, meeting.ranks].append(meeting)
    return by_kind
