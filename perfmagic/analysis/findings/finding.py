"""What a finding is: a cause, an amount, a place, what it costs. Each is worded in the file named after its rule."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from perfmagic.analysis.timeline.host_time import FrameTime
from perfmagic.numerics.intervals import EMPTY, Intervals


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing about a trace.

    rule: the stable name of what found it. The file beside this one that has that name words it; exposed.py words
    exposed_communication and exposed_copy.
    cost_ns: time that could be won; 0 where nothing was lost, None where cost is not the point.  cause, detail: the
    sentence, in two parts; the first is set in bold and the second begins with what joins it (a space, a colon).
    lines: cell lines the sentence names.  start_ns, end_ns: what to show.
    advice: what to do, in a sentence of its own, only where that is certain.
    where: the time of the device that the finding is about, as disjoint intervals: cost_ns is at most their sum.
    Findings that stand beside each other share no instant, so that their costs can be added.
    gain_ns: the least and the most that the change it asks for would gain, predicted by replaying the record with that
    change; None where nothing is predicted.  won_ns: the expected one between them.  at_most: that is a bound: the
    change removes what none can remove better.  change: it in words.  mended: what it would make of the run, a
    sentence.
    frames: the functions in which Python spent that time, the longest first; only where stacks were recorded.
    depth: 0, or for a part of a finding one more than that has; the parts follow it at once.
    """

    shown: ClassVar[tuple[str, ...]] = ("cost_ns", "sentence")  # in a table of findings

    rule: str
    cost_ns: int | None
    cause: str
    detail: str
    lines: tuple[int, ...]
    start_ns: int
    end_ns: int
    device: int
    advice: str = ""
    depth: int = 0
    frames: tuple[FrameTime, ...] = ()
    gain_ns: tuple[int, int] | None = None
    won_ns: int | None = None
    at_most: bool = False
    change: str = ""
    mended: str = ""
    where: Intervals = field(default_factory=lambda: EMPTY, repr=False, compare=False)

    @property
    def is_wrong(self) -> bool:
        """Whether it says that a result is wrong: it comes first, and in red."""
        return self.rule == "race"

    @property
    def rest(self) -> str:
        """What follows the cause: the detail, then the advice and what it would gain as sentences of their own."""
        if self.rule == "together":
            return f": {self.mended}"
        return self.detail + "".join(f". {more}" for more in (self.advice, self.mended) if more)

    @property
    def sentence(self) -> str:
        return self.cause + self.rest

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON, the whole sentence included."""
        data = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "where"}
        return data | {
            "lines": list(self.lines),
            "gain_ns": None if self.gain_ns is None else list(self.gain_ns),
            "frames": [asdict(frame) for frame in self.frames],
            "sentence": self.sentence,
        }
