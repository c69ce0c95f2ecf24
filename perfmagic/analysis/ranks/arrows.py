"""Which ops of two ranks belong together, for files that can join them: sends and receives, the last to come."""

from __future__ import annotations

from collections.abc import Iterator

from perfmagic.analysis.ranks.summary import Ranks
from perfmagic.trace.formats.chrome_ranks import Arrow


def arrows(ranks: Ranks) -> Iterator[Arrow]:
    """From each send to its receive, and from the rank that came last to a collective to each that waited for it."""
    rows = {rank: one.comm["row"] for rank, one in ranks.summaries.items()}
    for pair in ranks.passed:
        both = (rows[pair.source][pair.sent_places], rows[pair.target][pair.got_places])
        for sent, got in zip(*(column.tolist() for column in both), strict=True):
            yield Arrow((pair.source, sent), (pair.target, got), "message")
    for group in ranks.matching.groups:
        of = [rows[rank][places] for rank, places in zip(group.ranks, group.places, strict=True)]
        waited = (group.waiting_ns > group.errs_ns) & group.decided
        for i, last in enumerate(group.last.tolist()):
            source = (group.ranks[last], int(of[last][i]))
            for j, rank in enumerate(group.ranks):
                if waited[j, i]:
                    yield Arrow(source, (rank, int(of[j][i])), group.kinds[i])
