"""Which ops of two ranks belong together, for files that can join them: sends and receives, the last to come."""

from __future__ import annotations

from collections.abc import Iterator

from perfmagic.analysis.ranks.summary import Ranks
from perfmagic.trace.formats.chrome_ranks import Arrow


def arrows(ranks: Ranks) -> Iterator[Arrow]:
    """From each send to its receive, and from the rank that came last to a collective to each that waited for it."""
    for pair in ranks.passed:
        for sent, got in zip(pair.sent_rows.tolist(), pair.got_rows.tolist(), strict=True):
            yield Arrow((pair.source, sent), (pair.target, got), "message")
    for group in ranks.matching.groups:
        waited = (group.waiting_ns > group.errs_ns) & group.decided
        for i, last in enumerate(group.last.tolist()):
            source = (group.ranks[last], int(group.rows[last, i]))
            for j, rank in enumerate(group.ranks):
                if waited[j, i]:
                    yield Arrow(source, (rank, int(group.rows[j, i])), group.kinds[i])
