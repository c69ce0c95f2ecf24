"""What the peak of a device's memory is made of, and what would lower it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from perfmagic.analysis.findings.answer import Conclusion, Proposal
from perfmagic.analysis.findings.catalogue import action, decides, headline
from perfmagic.analysis.memory.ledger import Ledger
from perfmagic.analysis.memory.reasons import Descriptions, Why
from perfmagic.analysis.memory.stack import Kind, kind_of
from perfmagic.analysis.memory.whatif import LEAST_SHARE, WhatIf
from perfmagic.base import units
from perfmagic.base.language import phrase
from perfmagic.trace.columns import NONE, Int64

MOST_ANSWERS = 3
UNUSED_SHARE = 0.05  # of the peak: a smaller variable that the cell does not use is no news
_CODE_CHARS = 24  # of the line that reached the peak, in the first line
_PARTS = 4  # temporaries of one step: a loop over parameters has fewer at a time
# what a change of the cell's code can lower
_REDUCIBLE = (Kind.GRADIENTS, Kind.HELD, Kind.GRAPH, Kind.KEPT, Kind.PASSING)


def conclude(ledger: Ledger, text: Descriptions, changes: Sequence[WhatIf]) -> Conclusion:
    """What the peak is made of, and at most three answers, those that lower it most first."""
    found = _Answers(ledger, text)
    remedies: dict[str, WhatIf] = {}
    for change in changes:
        remedies.setdefault(change.headline, change)  # of those for one fact the first lowers the peak most
    every = [found.changed(change) for change in remedies.values()]
    every += [*found.held_before(), *found.gradients_before(), *found.checkpoint(), *found.step()]
    worth = [answer for answer in every if _gain_bytes(answer) >= LEAST_SHARE * ledger.peak_bytes]
    first = sorted(worth, key=_gain_bytes, reverse=True)[:MOST_ANSWERS]
    return Conclusion(found.decides, tuple(_half_batch_instead(first)))


def _half_batch_instead(first: list[Proposal]) -> list[Proposal]:
    """The same answers; half batches that reach what another one does are instead of that, and behind it."""
    half = next((answer for answer in first if answer.action == action("half_batch")), None)
    others = [answer for answer in first if answer is not half]
    alike = [n for n, other in enumerate(others, 1) if half is not None and _peak(other) == _peak(half)]
    if half is None or not alike:
        return first
    return [*others[: alike[-1]], replace(half, action=action("half_batch_instead")), *others[alike[-1] :]]


def _peak(answer: Proposal) -> str:
    return units.size(answer.after_bytes or 0)


def _gain_bytes(answer: Proposal) -> int:
    return (answer.before_bytes or 0) - (answer.after_bytes or 0)


def _describe_reason(kind: Kind, *, of_cell: bool) -> str:
    """What a part of the peak is, behind "is".  of_cell: the record is a cell's."""
    return {
        Kind.PARAMETERS: phrase("parameters and buffers"),
        Kind.OPTIMIZER: phrase("optimizer state"),
        Kind.BEFORE: _before(of_cell=of_cell),
        Kind.GRADIENTS: phrase("gradients"),
        Kind.HELD: phrase("held by variables"),
        Kind.GRAPH: phrase("kept by autograd graphs"),
        Kind.KEPT: phrase("kept for backward"),
        Kind.BACKWARD: phrase("used by backward"),
        Kind.PASSING: phrase("temporary"),
    }[kind]


def _before(*, of_cell: bool) -> str:
    return phrase("from before the cell") if of_cell else phrase("from before the record")


class _Answers:
    def __init__(self, ledger: Ledger, text: Descriptions) -> None:
        self._ledger, self._text = ledger, text
        self._why = text.why
        self._of_kind: dict[Kind, int] = {}
        for row in np.flatnonzero(ledger.at_peak).tolist():
            kind = kind_of(self._why[row], before=bool(ledger.before[row]))
            self._of_kind[kind] = self._of_kind.get(kind, 0) + int(ledger.blocks.size_bytes[row])

    @property
    def decides(self) -> str:
        """The peak, its line, its largest part, and where no code can lower that, the largest part that one can."""
        most = units.size(self._ledger.peak_bytes)
        parts = sorted(self._of_kind.items(), key=lambda item: -item[1])
        (kind, size), *others = parts or [(Kind.BEFORE, 0)]
        said = {"size": most, "part": units.size(size), "what": self._words(kind)}
        if self._ledger.peak_row == NONE and kind == Kind.BEFORE:
            return decides("peak", place="", **said)
        if self._ledger.peak_row == NONE:
            return decides("peak_before", before=_before(of_cell=self._ledger.trace.cell is not None), **said)
        can = next(((other, n) for other, n in others if other in _REDUCIBLE), None)
        place = self._peak_place()
        if kind in _REDUCIBLE or can is None or can[1] < LEAST_SHARE * self._ledger.peak_bytes:
            return decides("peak", place=place, **said)
        return decides("peak_and", place=place, part2=units.size(can[1]), what2=self._words(can[0]), **said)

    def _words(self, kind: Kind) -> str:
        return _describe_reason(kind, of_cell=self._ledger.trace.cell is not None)

    def _peak_place(self) -> str:
        path = int(self._ledger.path[self._ledger.peak_row])
        line, function, code = self._text.line(path), self._text.function(path), self._text.code(path).strip()
        if not line:
            return ""
        if function:
            return phrase(" on line {line} of {function}", line=line, function=function)
        shown = f" `{code}`" if code and len(code) <= _CODE_CHARS else ""
        return phrase(" on line {line}{code}", line=line, code=shown)

    def changed(self, change: WhatIf) -> Proposal:
        """A change of the cell that was replayed or estimated."""
        said = change.headline, change.action, change.peak_bytes
        return self._proposal(*said, line=change.line, exact=not change.about)

    def held_before(self) -> Iterator[Proposal]:
        """A variable from before the cell that neither the cell nor a function it calls names."""
        ledger = self._ledger
        cell = ledger.trace.cell
        if cell is None:
            return
        called = [text for function in ledger.paths.functions for _, text in function.texts]
        used = set(re.findall(r"\w+", "\n".join([cell.source, *called])))
        by_name: dict[str, list[int]] = {}
        for row in np.flatnonzero(ledger.before & ledger.at_peak).tolist():
            reason = self._why[row]
            name = reason.holder.split("[", maxsplit=1)[0]
            if reason.why in (Why.HELD, Why.GRAPH) and name.isidentifier() and name not in (*used, "Out"):
                by_name.setdefault(name, []).append(row)
        for name, rows in by_name.items():
            size_bytes = int(ledger.blocks.size_bytes[rows].sum())
            if size_bytes < UNUSED_SHARE * ledger.peak_bytes:
                continue
            said = headline("held_before", name=name, size=units.size(size_bytes))
            yield self._without(said, action("delete_before", name=name), rows, exact=True)

    def gradients_before(self) -> Iterator[Proposal]:
        """Gradients of an earlier step, in a cell that has no backward pass and no step."""
        ledger = self._ledger
        rows = [r for r in np.flatnonzero(ledger.before & ledger.at_end).tolist() if self._why[r].why is Why.GRADIENT]
        codes = [self._text.code(int(path)) for path in np.unique(ledger.path)]
        if not rows or (ledger.blocks.node != NONE).any() or any(".step(" in code for code in codes):
            return
        size = units.size(int(ledger.blocks.size_bytes[rows].sum()))
        yield self._without(headline("gradients_before", size=size), action("zero_grad_after"), rows, exact=True)

    def checkpoint(self) -> Iterator[Proposal]:
        """Activations of the forward pass, where they are the largest part that code can lower."""
        kept = self._of_kind.get(Kind.KEPT, 0)
        if not kept or kept < max(self._of_kind.get(kind, 0) for kind in _REDUCIBLE):
            return
        rows = [row for row in np.flatnonzero(self._ledger.at_peak).tolist() if self._why[row].why is Why.KEPT]
        by_function: dict[str, int] = {}
        for row in rows:
            function = self._text.function(int(self._ledger.path[row]))
            by_function[function] = by_function.get(function, 0) + int(self._ledger.blocks.size_bytes[row])
        most = max(by_function, key=lambda function: by_function[function])
        said = headline("kept_for_backward", size=units.size(kept))
        if most:
            said = headline("kept_in_function", size=units.size(kept), function=most)
        yield self._without(said, action("checkpoint"), rows, exact=False)

    def step(self) -> Iterator[Proposal]:
        """Temporaries of a step that computes all parameters at once."""
        ledger = self._ledger
        if ledger.peak_row == NONE or ".step(" not in self._text.code(int(ledger.path[ledger.peak_row])):
            return
        path = int(ledger.path[ledger.peak_row])
        passing = (Why.TEMPORARY, Why.RETURNED, Why.UNTIL)
        here = np.flatnonzero(ledger.at_peak & ~ledger.before & (ledger.path == path)).tolist()
        rows = [row for row in here if self._why[row].why in passing]
        if len(rows) < _PARTS:
            return
        size = units.size(int(ledger.blocks.size_bytes[rows].sum()))
        yield self._without(headline("step_temporaries", size=size), action("no_foreach"), rows, exact=False)

    def _without(self, fact: str, do: str, rows: Sequence[int], *, exact: bool) -> Proposal:
        """An answer as if some blocks had not been there; not exact: it may keep a part of them."""
        size: Int64 = self._ledger.blocks.size_bytes.copy()
        size[rows] = 0
        return self._proposal(fact, do, self._ledger.replayed({}, size), exact=exact, at_most=not exact)

    def _proposal(
        self, fact: str, do: str, after_bytes: int, *, line: int = 0, exact: bool = False, at_most: bool = False
    ) -> Proposal:
        before = self._ledger.peak_bytes
        return Proposal(fact, do, line, before_bytes=before, after_bytes=after_bytes, exact=exact, at_most=at_most)
