"""What is said of several ranks: one thing worth knowing, and the row of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from perfmagic.base.language import chained, phrase
from perfmagic.trace.columns import NO_LINE
from perfmagic.trace.json_form import JsonForm


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
