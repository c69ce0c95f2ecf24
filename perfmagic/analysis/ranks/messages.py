"""Which send of one rank is which receive of another: by the pair of ranks and the order. No clock is trusted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.matching import communication_ops
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import Collective, Trace

# torch records "nccl:send 0->1" on rank 0 and "nccl:recv 1<-0" on rank 1
_MESSAGE = re.compile(r"^i?(send|recv)\w*\s+(\d+)\s*(->|<-)\s*(\d+)", re.IGNORECASE)
# what the reader makes of Kineto's Dst Rank and Src Rank, and of gloo's messages between two ranks
_PEER = re.compile(r"^(send|recv) (?:to|from) (\d+)$")


@dataclass(frozen=True, eq=False)
class Passed:
    """The messages from one rank to another, in order; columns of shape (n,).

    sent_rows, got_rows: of their ops in the trace.ops of source and target.  sent_ns, sent_end_ns: of the sends, by the
    source's own clock.  asked_ns, arrived_ns: of the receives, by the target's.
    """

    source: int
    target: int
    sent_rows: Int64
    got_rows: Int64
    sent_ns: Int64
    sent_end_ns: Int64
    asked_ns: Int64
    arrived_ns: Int64

    def __len__(self) -> int:
        return len(self.sent_ns)


def passed(traces: Mapping[int, Trace], comm_names: str | None = None) -> tuple[Passed, ...]:
    """The messages between several ranks, by source and target.

    traces: by rank.  comm_names: as in perfmagic.trace.names.op_classes. Messages of a pair keep their order, so the
    n-th send is the n-th receive. A pair of which the two ranks recorded another number is left out: some of its
    messages were before the record of one of them.
    """
    sends: dict[tuple[int, int], list[int]] = defaultdict(list)
    receives: dict[tuple[int, int], list[int]] = defaultdict(list)
    for rank, trace in sorted(traces.items()):
        for row, asked in communication_ops(trace, comm_names):
            known = trace.collectives[trace.ops.collective[row]] if trace.ops.collective[row] != NONE else None
            found = _ends_with_peer(known, rank) or _ends_of(known, asked, trace.names[trace.ops.name[row]])
            if found is not None:
                is_send, pair = found
                if pair[0 if is_send else 1] == rank:
                    (sends if is_send else receives)[pair].append(row)
    result = []
    for pair, sent in sorted(sends.items()):
        got = receives.get(pair, [])
        if len(sent) == len(got):
            result.append(_passed(pair, traces, np.array(sent, np.int64), np.array(got, np.int64)))
    return tuple(result)


def _passed(pair: tuple[int, int], traces: Mapping[int, Trace], sent: Int64, got: Int64) -> Passed:
    source, target = (traces[rank].ops for rank in pair)
    times = (source.start_ns[sent], source.end_ns[sent], target.start_ns[got], target.end_ns[got])
    return Passed(*pair, sent, got, *times)


def _ends_with_peer(known: Collective | None, rank: int) -> tuple[bool, tuple[int, int]] | None:
    """The same as _ends_of, of an op of a rank whose record names the other rank of the whole job."""
    found = _PEER.match(known.name) if known else None
    if not found:
        return None
    is_send, peer = found[1] == "send", int(found[2])
    return is_send, (rank, peer) if is_send else (peer, rank)


def _ends_of(known: Collective | None, *names: str) -> tuple[bool, tuple[int, int]] | None:
    """Whether an op sends, and from which rank to which; None where it is no message.

    names: what the host asked for, and the op's own, as the simulated device has it.
    """
    found = next(filter(None, map(_MESSAGE.match, (known.name if known else "", *names))), None)
    if not found:
        return None
    first, second = int(found[2]), int(found[4])
    source, target = (first, second) if found[3] == "->" else (second, first)
    if known and known.ranks and len(known.ranks) == known.group_size:  # numbers are those within the group
        if max(source, target) >= len(known.ranks):
            return None
        source, target = known.ranks[source], known.ranks[target]
    return found[1].lower() == "send", (source, target)
