"""What every renderer of a memory result shows."""

from __future__ import annotations

from dataclasses import dataclass

from perfmagic.analysis.findings.answer import Conclusion
from perfmagic.analysis.memory.peak import Growth, HeldBytes
from perfmagic.analysis.memory.stack import Stack
from perfmagic.analysis.memory.whatif import WhatIf
from perfmagic.base import units
from perfmagic.base.language import counted, say, translate_term, translated
from perfmagic.base.tables import Table
from perfmagic.trace.rows import Rows

MOST_ROWS = 14


@dataclass(frozen=True)
class MemoryDoc:
    """What the memory of a device says, and its numbers.

    start_bytes, end_bytes: allocated at the start and at the end.  peak_after_ns: from the start to the peak.
    reserved_bytes: the most that the allocator took from the device, 0 where it does not say.  n_rounds: how often the
    cell ran, 0 where rounds were not distinguished.
    """

    device: str
    failed: str
    conclusion: Conclusion
    start_bytes: int
    peak_after_ns: int
    peak_bytes: int
    end_bytes: int
    at_peak: Rows[HeldBytes]
    what_if: Rows[WhatIf]
    growth: Rows[Growth]
    n_rounds: int
    notes: tuple[str, ...]
    stack: Stack
    reserved_bytes: int

    @property
    def sentence(self) -> str:
        """The peak, where it was reached, and its largest part, in the language in force."""
        return translated(self.conclusion.decides)

    @property
    def about(self) -> str:
        """The device, how its memory went, and what each round leaves."""
        start, end = units.size(self.start_bytes), units.size(self.end_bytes)
        held = say("{start} at the start, {end} at the end", start=start, end=end)
        grown = sum(row.bytes_per_round for row in self.growth)
        more = [say("grows by {size} a round", size=units.size(grown))] if grown else []
        return " · ".join([translated(self.device), held, *more])

    @property
    def peak_table(self) -> Table:
        """Place and code, bytes, blocks and reason of each row; the rest in one, then the sum."""
        rows = [
            (_placed_code(row), units.size(row.size_bytes), units.count(row.n_blocks), translate_term(row.reason))
            for row in self.at_peak[:MOST_ROWS]
        ]
        rest = self.at_peak[MOST_ROWS:]
        if len(rest):
            size, n = sum(row.size_bytes for row in rest), sum(row.n_blocks for row in rest)
            more = translated(counted(len(rest), "{n} more row", "{n} more rows"))
            rows.append((more, units.size(size), units.count(n), ".at_peak()"))
        n_blocks = sum(row.n_blocks for row in self.at_peak)
        rows.append((say("the peak"), units.size(self.peak_bytes), units.count(n_blocks), ""))
        return Table("at the peak", ("", "bytes", "blocks", "why"), rows)

    @property
    def change_table(self) -> Table:
        """The change with its cause, the peak it would have, how much less that is."""
        rows = [
            (translated(row.change), f"{about(row)}{units.size(row.peak_bytes)}", units.size(row.saved_bytes))
            for row in self.what_if
        ]
        return Table("what would lower the peak", ("", "peak", "less"), rows)

    def below(self) -> list[str]:
        """Sentences below the tables."""
        growth = [translated(row.sentence) for row in self.growth]
        if self.n_rounds and not growth:
            nothing = counted(self.n_rounds, "nothing grows over {n} round", "nothing grows over {n} rounds")
            growth = [translated(nothing)]
        after = units.duration(self.peak_after_ns)
        return [*growth, say("the peak is reached after {time}", time=after), *translated(self.notes)]


def place(row: HeldBytes) -> str:
    """The line that allocated it: line 9 of Net.forward."""
    if row.function:
        return say("line {line} of {function}", line=row.line, function=row.function)
    return say("line {line}", line=row.line)


def about(row: WhatIf) -> str:
    """What stands before a number that is an estimate."""
    return say("about ") if row.about else ""


def _placed_code(row: HeldBytes) -> str:
    if not row.line:
        return translate_term(row.reason.partition(":")[0] if row.reason.startswith("before") else "no line of yours")
    return f"{place(row)}  {row.code}"
