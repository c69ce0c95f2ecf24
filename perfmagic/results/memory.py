"""The result of %%memory: what held the most memory of a device, by line and by reason, and what would lower it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.findings.answer import Conclusion
from perfmagic.analysis.memory.ledger import Ledger, ledger
from perfmagic.analysis.memory.peak import Growth, HeldBytes, MemoryBlock, blocks, growth, held
from perfmagic.analysis.memory.reasons import Descriptions, reasons
from perfmagic.analysis.memory.stack import Stack, stack
from perfmagic.analysis.memory.whatif import WhatIf, what_if
from perfmagic.analysis.timeline.activity import RESERVED
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.base.language import chained, phrase, translated
from perfmagic.results.result import Result
from perfmagic.trace.columns import HOST_DEVICE, NONE
from perfmagic.trace.model import Trace
from perfmagic.trace.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

    from perfmagic.results.briefs.form import Brief
    from perfmagic.view.memory.doc import MemoryDoc

NOTHING = phrase("no block of memory was recorded")


@dataclass(frozen=True, eq=False)
class MemoryResult(Result):
    """The memory of one device while a cell ran.

    trace: with blocks.  device: its index, HOST_DEVICE for the host; if left out the one with the highest peak, and the
    host only where there is no other.  rounds_ns: when each round of the cell began and the last one ended, in ns of
    the trace; of one round there are none.
    What it holds raises TraceError where blocks were not recorded, OptionError for a device without any.
    """

    trace: Trace
    device: int | None = None
    rounds_ns: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no block was recorded: text() and html() say so, all else raises TraceError."""
        return not len(self.trace.blocks)

    @cached_property
    def ledger(self) -> Ledger:
        """The blocks of the device in order."""
        if self.is_empty:
            raise TraceError(NOTHING, hint="record with --memory, or with torch.profiler.profile(profile_memory=True)")
        known = sorted(set(self.trace.blocks.device.tolist()))
        asked = known if self.device is None else [self.device]
        ledgers = [held for device in asked if (held := ledger(self.trace, device)) is not None]
        if not ledgers:
            which = ", ".join(map(str, known))
            raise OptionError(f"device {self.device} allocated nothing here", hint=f"devices with blocks: {which}")
        return max(ledgers, key=lambda held: (held.device != HOST_DEVICE, held.peak_bytes))

    @cached_property
    def _words(self) -> Descriptions:
        return Descriptions(self.ledger, reasons(self.ledger))

    @property
    def peak_bytes(self) -> int:
        """The most that was allocated at once; on the simulated device what its allocator itself counted."""
        return self.ledger.peak_bytes

    @property
    def start_bytes(self) -> int:
        """What was allocated when the cell began."""
        return self.ledger.start_bytes

    @cached_property
    def _at_peak(self) -> Rows[HeldBytes]:
        return held(self.ledger, self._words, self.ledger.at_peak)

    def at_peak(self) -> Rows[HeldBytes]:
        """What was alive when the most was allocated, by line and reason (bytes); the rows add up to the peak."""
        return self._at_peak

    def after(self) -> Rows[HeldBytes]:
        """What is alive at the end of the cell, by line and reason (bytes)."""
        return held(self.ledger, self._words, self.ledger.at_end)

    def blocks(self) -> Rows[MemoryBlock]:
        """Every block: its size (bytes), the line that allocated it, why it was alive, when it came and went (ns)."""
        return blocks(self.ledger, self._words).labelled(self.trace.predicted_label)

    @cached_property
    def _what_if(self) -> Rows[WhatIf]:
        return what_if(self.ledger, self._words)

    def what_if(self) -> Rows[WhatIf]:
        """Changes that would have lowered the peak (bytes): replayed with the same blocks, or estimated ("about")."""
        return self._what_if

    def growth(self) -> Rows[Growth]:
        """What each round of `%%memory -n 3` leaves behind, by line (bytes per round)."""
        return growth(self.ledger, self._words, self.rounds_ns)

    @cached_property
    def conclusion(self) -> Conclusion:
        """What the peak is made of, and what would lower it, in English."""
        from perfmagic.analysis.memory.whatif import conclude

        return conclude(self.ledger, self._words, self._what_if)

    @property
    def sentence(self) -> str:
        """The peak, where it was reached, and its largest part."""
        return translated(self.conclusion.decides)

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON; sizes in bytes, times in ns. Without blocks only a note that says so."""
        if self.is_empty:
            return {"note": self._nothing()}
        return {
            "device": self.trace.device_info(self.ledger.device).of_memory,
            "conclusion": self.conclusion.to_dict(),
            "peak_bytes": self.peak_bytes,
            "start_bytes": self.start_bytes,
            "peak_ns": self.ledger.peak_ns,
            "at_peak": self.at_peak().to_dict(),
            "after": self.after().to_dict(),
            "what_if": self.what_if().to_dict(),
            "growth": self.growth().to_dict(),
        }

    def to_frame(self) -> pd.DataFrame:
        """One row per block, as blocks(). Needs pandas."""
        return self.blocks().to_frame()

    def text(self, *, details: bool = False) -> str:
        """The peak and what would lower it.  details: what was alive then, by line, and what rounds leave behind."""
        from perfmagic.view.memory.picture import memory_text

        return translated(self._nothing()) if self.is_empty else memory_text(self._doc(), details=details)

    def markdown(self) -> str:
        """The peak, what would lower it, and what was alive then, as GitHub's Markdown."""
        from perfmagic.view.memory.picture import memory_markdown

        return f"{translated(self._nothing())}\n" if self.is_empty else memory_markdown(self._doc())

    def html(self) -> str:
        """The peak and what would lower it, the picture, and the tables, which open with a click."""
        from perfmagic.view.memory.picture import memory_html, nothing_html

        return nothing_html(translated(self._nothing())) if self.is_empty else memory_html(self._doc())

    def _nothing(self) -> str:
        return chained("{a}. {b}", (phrase("Memory: {nothing}", nothing=NOTHING), self._failed()))

    def _failed(self) -> str:
        failed = self.trace.meta.failed
        return phrase("The code failed: {failed}", failed=failed) if failed else ""

    @property
    def _reserved_bytes(self) -> int:
        """The most that the allocator took from the device, 0 where it does not say."""
        counters = self.trace.counters
        name = self.trace.names.index(RESERVED) if RESERVED in self.trace.names else NONE
        selected = (counters.device == self.ledger.device) & (counters.series == name)
        return int(counters.value[selected].max(initial=0))

    def svg(self) -> str:
        """The picture: memory stacked by reason, what was there at the peak, and what would lower it."""
        from perfmagic.view.memory.picture import memory_svg

        if self.is_empty:
            raise TraceError(NOTHING)
        return memory_svg(self._doc())

    @cached_property
    def _stack(self) -> Stack:
        return stack(self.ledger, self._words.why)

    def _doc(self) -> MemoryDoc:
        from perfmagic.view.memory.doc import MemoryDoc

        return MemoryDoc(
            device=self.trace.device_info(self.ledger.device).of_memory,
            failed=self.trace.meta.failed,
            conclusion=self.conclusion,
            start_bytes=self.start_bytes,
            peak_after_ns=self.ledger.peak_ns - self.trace.meta.start_ns,
            peak_bytes=self.peak_bytes,
            end_bytes=int(self.ledger.blocks.size_bytes[self.ledger.at_end].sum()),
            at_peak=self.at_peak(),
            what_if=self.what_if(),
            growth=self.growth(),
            n_rounds=max(0, len(self.rounds_ns) - 1),
            notes=tuple(remark.words for remark in self.trace.meta.notes),
            stack=self._stack,
            reserved_bytes=self._reserved_bytes,
        )

    def _brief(self) -> Brief:
        from perfmagic.results.briefs.runs import memory_brief

        if self.is_empty:
            return memory_brief(self.trace, "", Conclusion(self._nothing()))
        label = self.trace.device_info(self.ledger.device).of_memory
        return memory_brief(self.trace, label, self.conclusion, self.peak_bytes, self.at_peak())

    def __repr__(self) -> str:
        if self.is_empty:
            return self._nothing()
        said = chained("{a}. {b}", (self.sentence, self._failed()))
        return f"Memory of {self.trace.device_info(self.ledger.device).of_memory}: {said}"
