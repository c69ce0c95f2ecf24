"""An operation between ranks as records of real devices name it, and what of it passes a rank's link."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """One kind of operation.

    kind: as record_param_comms names it ("allreduce").  title: the device op's name, as torch titles NCCL's.
    host: the operator torch runs on the host.  rooted: some ranks could leave before others have come.
    """

    kind: str
    title: str
    host: str
    factor: str = "once"
    rooted: bool = False

    @property
    def words(self) -> str:
        """As people call it."""
        return {"_all_gather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor"}.get(
            self.title, self.title
        )

    @property
    def family(self) -> str:
        """Operations of one family meet, whatever the call."""
        return "all_gather" if self.title == "_all_gather_base" else self.title

    def link_bytes(self, size_bytes: int, ranks: int) -> float:
        """How many bytes pass one rank's link. size_bytes: of the whole buffer. Source: NCCL tests, PERFORMANCE.md."""
        share = (ranks - 1) / ranks
        return size_bytes * {"once": min(1.0, share * ranks), "share": share, "twice": 2 * share}[self.factor]


ALL_REDUCE = Operation("allreduce", "all_reduce", "c10d::allreduce_", "twice")
ALL_REDUCE_COALESCED = Operation("allreduce_coalesced", "all_reduce", "c10d::allreduce_coalesced_", "twice")
BROADCAST = Operation("broadcast", "broadcast", "c10d::broadcast_", rooted=True)
REDUCE = Operation("reduce", "reduce", "c10d::reduce_", rooted=True)
ALL_GATHER = Operation("allgather", "all_gather", "c10d::allgather_", "share")
ALL_GATHER_BASE = Operation("_allgather_base", "_all_gather_base", "c10d::_allgather_base_", "share")
REDUCE_SCATTER = Operation("reduce_scatter", "reduce_scatter", "c10d::reduce_scatter_", "share")
REDUCE_SCATTER_BASE = Operation("_reduce_scatter_base", "_reduce_scatter_base", "c10d::_reduce_scatter_base_", "share")
ALL_TO_ALL = Operation("all_to_all", "all_to_all", "c10d::alltoall_", "share")
ALL_TO_ALL_BASE = Operation("all_to_all", "all_to_all", "c10d::alltoall_base_", "share")
GATHER = Operation("gather", "gather", "c10d::gather_", "share", rooted=True)
SCATTER = Operation("scatter", "scatter", "c10d::scatter_", "share", rooted=True)
BARRIER = Operation("barrier", "barrier", "c10d::barrier")
SEND = Operation("send", "send", "c10d::send")
RECV = Operation("recv", "recv", "c10d::recv_")
RECV_ANY = Operation("recv", "recv", "c10d::recv_any_source_")
