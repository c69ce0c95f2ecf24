"""Which send of one rank is which receive of another: by the pair of ranks and the order. No clock is trusted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.rank_summary import RankSummary
from perfmagic.trace.columns import Int64


@dataclass(frozen=True, eq=False)
class Passed:
    """The messages from one rank to another, in order; columns of shape (n,).

    sent_places, got_places: in the communication of source and target.  sent_ns, sent_end_ns: of the sends, by the
    source's own clock.  asked_ns, arrived_ns: of the receives, by the target's.
    """

    source: int
    target: int
    sent_places: Int64
    got_places: Int64
    sent_ns: Int64
    sent_end_ns: Int64
    asked_ns: Int64
    arrived_ns: Int64

    def __len__(self) -> int:
        return len(self.sent_ns)


def passed(ranks: Mapping[int, RankSummary]) -> tuple[Passed, ...]:
    """The messages between several ranks, by source and target.

    Messages of a pair keep their order, so the n-th send is the n-th receive. A pair of which the two ranks recorded
    another number is left out: some of its messages were before the record of one of them.
    """
    sends: dict[tuple[int, int], Int64] = {}
    receives: dict[tuple[int, int], Int64] = {}
    for rank, one in sorted(ranks.items()):
        kind = one.comm["kind"]
        by_end: dict[tuple[bool, tuple[int, int]], list[int]] = defaultdict(list)
        for i, known in enumerate(one.kinds):
            if known.message and known.message[1][0 if known.message[0] else 1] == rank:
                by_end[known.message].append(i)
        for (is_send, pair), mine in by_end.items():
            (sends if is_send else receives)[pair] = np.flatnonzero(np.isin(kind, mine))
    result = []
    for pair, sent in sorted(sends.items()):
        got = receives.get(pair)
        if got is not None and len(sent) == len(got):
            source, target = (ranks[rank].comm for rank in pair)
            times = (source["start"][sent], source["end"][sent], target["start"][got], target["end"][got])
            result.append(Passed(*pair, sent, got, *times))
    return tuple(result)
