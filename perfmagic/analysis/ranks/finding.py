"""What is said of several ranks: one thing worth knowing, and the rows of ranks, collectives and pipeline stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from perfmagic.base.language import chained, phrase
from perfmagic.trace.columns import NO_LINE
from perfmagic.trace.json_form import JsonForm

CAUSES = frozenset(("straggler", "slow_link", "pipeline", "uneven_all_to_all"))  # rules whose costs add up


@dataclass(frozen=True)
class RankFinding(JsonForm):
    """One thing that several ranks say together.

    rule: the stable name of what found it.
    cost_ns: time of a rank that could be won; None where cost is not the point.
    cause: the first part of the sentence.
    detail: the second part of the sentence.
    ranks: the ranks that the sentence is about.
    advice: what to do.
    headline: the fact in a few words; empty where it is no answer.
    action: what to do in a few words; empty where the records do not say. Answers with one action are one.
    line: of the cell, which explains it; 0 for none.
    window_ns: what to show of it, on the common axis; None for the ranks that it names.
    sentence: the whole sentence.
    """

    shown: ClassVar[tuple[str, ...]] = ("cost_ns", "sentence")  # in a table of findings
    left_out = ("window_ns",)
    computed = ("sentence",)

    rule: str
    cost_ns: int | None
    cause: str
    detail: str
    ranks: tuple[int, ...]
    advice: str = ""
    headline: str = ""
    action: str = ""
    line: int = NO_LINE
    window_ns: tuple[int, int] | None = field(default=None, compare=False)

    @property
    def sentence(self) -> str:
        advice = phrase(". {sentence}", sentence=self.advice) if self.advice else ""
        return chained("{a}{b}", (self.cause, self.detail, advice))


@dataclass(frozen=True)
class RankStat:
    """One rank of a job, on its busiest device.

    rank: its number in the job.
    device: the number of its device.
    offset_ns: where the instant 0 of its trace lies on the common axis.
    began_after_ns: from the beginning of the first step, or without steps of the first record, of the rank that
    began first to that of this rank; of no meaning where nothing tells how the clocks fit together.
    extent_ns: from its first op to its last.
    busy_ns: when at least one op executed.
    compute_ns: when it computed.
    communication_ns: when it communicated.
    copy_ns: when it copied.
    idle_ns: what of the extent no op executed in.
    exposed_communication_ns: communication that did not overlap with compute, in ns: the sum of the next three.
    exposed_waiting_ns: exposed, in a collective before the last rank came.
    exposed_transfer_ns: exposed, in a collective once all ranks were there.
    exposed_unmatched_ns: exposed, of which the other ranks recorded nothing that matches.
    waiting_ns: in matched collectives before the last rank came, and in messages before the other end did, also where
    it overlaps with compute.
    transfer_ns: in matched collectives once all ranks were there, also where it overlaps with compute; where
    one collective waits while another moves data, that is transfer.
    waiting_bound_ns: how far the waiting may be wrong, over all collectives.
    n_matched: its matched collectives.
    n_last: those of them to which it came last.
    bus_bytes_per_s: what had to pass its links in matched collectives whose size is known, in bytes per second of
    transfer; None without any.
    compute_frac: the share of the extent in which it computed.

    Source: docs/words.md, "transfer".
    """

    shown = (
        "rank", "extent_ns", "compute_ns", "exposed_communication_ns", "exposed_waiting_ns", "exposed_transfer_ns",
        "copy_ns", "idle_ns", "n_last", "bus_bytes_per_s",
    )  # fmt: skip

    rank: int
    device: int
    offset_ns: int
    began_after_ns: int
    extent_ns: int
    busy_ns: int
    compute_ns: int
    communication_ns: int
    copy_ns: int
    idle_ns: int
    exposed_communication_ns: int
    exposed_waiting_ns: int
    exposed_transfer_ns: int
    exposed_unmatched_ns: int
    waiting_ns: int
    transfer_ns: int
    waiting_bound_ns: int
    n_matched: int
    n_last: int
    bus_bytes_per_s: float | None

    @property
    def compute_frac(self) -> float:
        """The share of the extent in which it computed: a rank that waits for others is busy, too."""
        return self.compute_ns / self.extent_ns if self.extent_ns else 0.0


@dataclass(frozen=True)
class CollectiveOfRanks:
    """The matched collectives of one kind and size, or the messages of two ranks, after the start-up.

    group: the process group; of messages both ranks.
    kind: of the collective, with its type. A kind of all_to_all is one row, whatever its sizes.
    ranks: that take part, rising.
    n: how many.
    size_bytes: of the whole buffer of the rank that moves most, the mean of all, in bytes; None where not known.
    transfer_ns: summed, each from when its last rank came to when the first rank was through, in ns.
    bus_bytes_per_s: what passed a rank's links by transfer_ns, in bytes per second.
    link: the links of the GPUs of one host, by their data sheets; empty where not known.
    peak_bytes_per_s: their peak, in bytes per second; None where not known.
    overlap_frac: the share of its time, waiting included, that ran beside compute, of all ranks together; None where no
    rank computed.
    rank_bytes: of each of ranks, summed, in bytes; None where not known.
    imbalance: of all_to_all, the bytes of the rank that moves most by the mean of its ranks; else None.
    peak_frac: the bus bandwidth as a share of the peak of the links; None where one is not known.

    Source of the factors: NCCL tests, PERFORMANCE.md.
    """

    shown = ("group", "kind", "n", "size_bytes", "transfer_ns", "bus_bytes_per_s", "peak_frac", "overlap_frac")

    group: str
    kind: str
    ranks: tuple[int, ...]
    n: int
    size_bytes: float | None
    transfer_ns: int
    bus_bytes_per_s: float | None
    link: str
    peak_bytes_per_s: float | None
    overlap_frac: float | None
    rank_bytes: tuple[int, ...] | None
    imbalance: float | None

    @property
    def peak_frac(self) -> float | None:
        """The bus bandwidth as a share of the peak of the links."""
        if self.bus_bytes_per_s is None or self.peak_bytes_per_s is None:
            return None
        return self.bus_bytes_per_s / self.peak_bytes_per_s


@dataclass(frozen=True)
class PipelineStage:
    """One stage of a pipeline of ranks.

    pipeline: the number of its pipeline in the job, from 0.
    schedule: what its ranks follow; empty for one that is not known.
    stage: its number, from 0.
    rank: the rank that runs it.
    n_steps: how often the schedule ran.
    n_micro_batches: of a step.
    forward_ns: its own work for the forward pass of a micro-batch, the median, in ns.
    backward_ns: the same of the backward pass.
    idle_ns: when its rank did nothing of its own while the pipeline ran, in ns.
    bubble_frac: the same as a share.
    minimum_frac: the share that the schedule needs with equal stages; None where that is not known.
    gain_ns: what the job would take less with this stage as fast as the others in the median, in ns; None where it does
    not set the pace.

    Source: Huang et al., GPipe, arXiv 1811.06965, section 2.3.
    """

    shown = ("stage", "rank", "n_micro_batches", "forward_ns", "backward_ns", "bubble_frac", "minimum_frac", "gain_ns")

    pipeline: int
    schedule: str
    stage: int
    rank: int
    n_steps: int
    n_micro_batches: int
    forward_ns: int
    backward_ns: int
    idle_ns: int
    bubble_frac: float
    minimum_frac: float | None
    gain_ns: int | None
