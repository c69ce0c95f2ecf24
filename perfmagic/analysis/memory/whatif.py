"""What would have lowered the peak: the same allocations, with other ends.

A change that only frees memory earlier is replayed exactly: each block keeps its place in the sequence and its size,
some are freed sooner. A change that makes other allocations (half a batch) is estimated and says so.
A name frees a block at its next assignment: the end of the next visit of its line in the same call, else the return of
its function. A function's result goes to what its caller calls next.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from perfmagic.analysis.findings.answer import Conclusion, Proposal
from perfmagic.analysis.findings.catalogue import action, decides, headline
from perfmagic.analysis.memory.ledger import AT_THE_START, Ledger
from perfmagic.analysis.memory.reasons import Descriptions, Why
from perfmagic.analysis.memory.stack import Kind, kind_of
from perfmagic.analysis.memory.visits import FOREVER, NOT_VISITED
from perfmagic.base import units
from perfmagic.base.language import counted, phrase
from perfmagic.trace.columns import NONE, BlockRole, Int64
from perfmagic.trace.rows import Rows

LEAST_SHARE = 0.01  # of the peak: a smaller gain is not worth a change
_GRAIN = 512  # allocators round sizes up to it
_OF_MODEL = (Why.PARAMETER, Why.BUFFER, Why.GRADIENT, Why.OPTIMIZER, Why.GATHERED)


@dataclass(frozen=True)
class WhatIf:
    """A change of the cell and the peak it would have had.

    change: in words or code.  line: of the cell, 0 for all of it.  peak_bytes: with the change.  saved_bytes: less than
    now.  about: whether it is an estimate; the others are replayed exactly.  headline, action: what was found and what
    to do, as in answers.
    """

    change: str
    line: int
    peak_bytes: int
    saved_bytes: int
    about: bool
    headline: str
    action: str

    shown: ClassVar[tuple[str, ...]] = ("change", "line", "peak_bytes", "saved_bytes", "about", "headline")


def what_if(ledger: Ledger, text: Descriptions) -> Rows[WhatIf]:
    """Changes that would have lowered the peak by 1 % or more, the largest gain first."""
    replay = _Replay(ledger, text)
    every = (replay.no_grad(), replay.detach(), replay.deleted(), replay.gradients(), replay.half_batch())
    rows = [row for changes in every for row in changes if row.saved_bytes >= LEAST_SHARE * ledger.peak_bytes]
    note = phrase("each alone; another allocation may then be the peak") if len(rows) > 1 else ""
    return Rows(sorted(rows, key=lambda row: -row.saved_bytes), WhatIf, note)


class _Replay:
    def __init__(self, ledger: Ledger, text: Descriptions) -> None:
        self._ledger, self._text = ledger, text
        self._visits, self._why = ledger.visits, text.why

    def no_grad(self) -> Iterator[WhatIf]:
        """Around a cell that keeps graphs and has no backward pass."""
        # what outlives its function may be a result that is still used: an estimate
        kept = self._rows(Why.GRAPH)
        rows = kept or self._rows(Why.OUTLIVED)
        if not rows or (self._ledger.blocks.node != NONE).any():
            return
        lines = [line for row in rows if (line := self._root_line(row))]
        if not lines:
            return
        ends = {row: self._ledger.order_at(self._freed_ns(row)) for row in rows}
        span = f"{min(lines)}–{max(lines)}" if min(lines) != max(lines) else lines[0]
        where = counted(len(set(lines)), "line {lines}", "lines {lines}", lines=span)
        change = phrase("with torch.no_grad(): around {lines}", lines=where)
        size = units.size(int(self._ledger.blocks.size_bytes[rows][self._ledger.at_peak[rows]].sum()))
        answer = headline("graph_without_backward", size=size), action("no_grad", lines=where)
        yield replace(self._change(change, min(lines), ends, answer), about=not kept)

    def detach(self) -> Iterator[WhatIf]:
        """Of what a container collects."""
        holders = {self._why[row].holder for row in self._rows(Why.GRAPH)}
        for container in sorted({name.split("[", maxsplit=1)[0] for name in holders if "[" in name}):
            rows = [row for row in self._rows(Why.GRAPH) if self._why[row].holder.startswith(f"{container}[")]
            tensors = self._tensors_in(container) or [max(rows, key=lambda row: int(self._ledger.order[row]))]
            line, code = self._line_with(container, tensors[0])
            roots = [int(self._visits.root[self._ledger.visit[row]]) for row in tensors]
            ends = {row: self._ledger.order_at(self._next_round_ns(row, roots)) for row in rows}
            name = _appended(container, code)
            change = phrase("put .detach() results into `{name}`", name=container)
            change = phrase("{code}", code=f"{container}.append({name}.detach())") if name else change
            fact = headline("graph_of_rounds", name=container)
            do = action("store_detached", name=f"{name}.detach()" if name else ".detach()", container=container)
            yield self._change(change, line, ends, (fact, do))
            if name:
                ends = {row: self._ledger.order_at(self._round_end_ns(self._root(row))) for row in (*rows, *tensors)}
                answer = fact, action("store_item", name=name, container=container)
                change = phrase("{a} and {b}", a=f"{container}.append({name}.item())", b=f"del {name}")
                yield self._change(change, line, ends, answer)

    def deleted(self) -> Iterator[WhatIf]:
        """Results of an iteration that live until the next one assigns the name again."""
        ledger = self._ledger
        whys = (Why.UNTIL, Why.HELD)
        at_peak = {
            self._root_line(row)
            for row in np.flatnonzero(ledger.at_peak & ~ledger.before).tolist()
            if self._why[row].why in whys and self._round_end_ns(self._root(row)) < ledger.peak_ns
        }
        for line in sorted(at_peak - {0}):
            rows = [row for why in whys for row in self._rows(why) if self._root_line(row) == line]
            name = _assigned(self._code(rows[0]))
            if name and all(self._why[row].holder in ("", name) for row in rows):
                ends = {row: ledger.order_at(self._round_end_ns(self._root(row))) for row in rows}
                answer = headline("round_outlived", name=name, line=line), action("delete_in_round", name=name)
                yield self._change(phrase("del {name} at the end of the iteration", name=name), line, ends, answer)

    def gradients(self) -> Iterator[WhatIf]:
        """Gradients that outlive the next forward pass, as zero_grad() comes after it."""
        ledger = self._ledger
        freed_by = self._visits.root[ledger.free_visit]
        ends: dict[int, float] = {}
        line = 0
        for row in self._rows(Why.GRADIENT, before=True):
            path = int(self._visits.path[freed_by[row]])
            if freed_by[row] == NOT_VISITED or "zero_grad" not in self._text.code(path):
                continue
            line = self._text.line(path)
            root = self._root(row)
            end_ns = self._round_end_ns(root) if root else 0
            ends[row] = AT_THE_START if ledger.before[row] else ledger.order_at(end_ns)
        if ends:
            answer = headline("late_zero_grad", line=line), action("zero_grad_first")
            yield self._change(phrase("zero_grad() before the forward pass"), line, ends, answer)

    def half_batch(self) -> Iterator[WhatIf]:
        """Gradients accumulated over two half batches: what is not of the model halves."""
        ledger = self._ledger
        if not (ledger.blocks.node != NONE).any():
            return
        of_model = np.array([why.why in _OF_MODEL for why in self._why])
        sizes = set(ledger.blocks.size_bytes[of_model].tolist())
        fixed = of_model | ledger.before | np.isin(ledger.blocks.size_bytes, list(sizes))
        halves = -(-ledger.blocks.size_bytes // (2 * _GRAIN)) * _GRAIN
        size: Int64 = np.where(fixed, ledger.blocks.size_bytes, halves)
        gradients = np.array([why.why is Why.GRADIENT for why in self._why]) & ~ledger.before
        # the second half begins with all gradients of the first
        most = ledger.replayed({}, np.where(gradients, ledger.blocks.size_bytes, 0))
        peak = ledger.replayed({}, np.where(gradients, 0, size)) + most
        change = phrase("gradients accumulated over two half batches")
        grows = units.size(int(ledger.blocks.size_bytes[ledger.at_peak & ~fixed].sum()))
        fact = headline("grows_with_batch", size=grows)
        if most >= LEAST_SHARE * ledger.peak_bytes:  # which is why less than half of that is gained
            fact = headline("grows_but_gradients", size=grows, stays=units.size(most))
        yield WhatIf(change, 0, peak, ledger.peak_bytes - peak, True, fact, action("half_batch"))

    def _change(self, change: str, line: int, ends: dict[int, float], answer: tuple[str, str]) -> WhatIf:
        """The change, replayed.  answer: headline and action."""
        peak = self._ledger.replayed(ends)
        return WhatIf(change, line, peak, self._ledger.peak_bytes - peak, False, *answer)

    def _rows(self, why: Why, *, before: bool = False) -> list[int]:
        wanted = [row for row, reason in enumerate(self._why) if reason.why is why]
        return [row for row in wanted if before or not self._ledger.before[row]]

    def _root(self, row: int) -> int:
        return int(self._visits.root[self._ledger.visit[row]])

    def _root_line(self, row: int) -> int:
        return self._text.line(int(self._visits.path[self._root(row)]))

    def _code(self, row: int) -> str:
        return self._text.code(int(self._visits.path[self._root(row)]))

    @cached_property
    def _last_of_call(self) -> dict[tuple[int, int], int]:
        """The last block of each call."""
        by_order = sorted(self._last_row.items(), key=lambda item: int(self._ledger.order[item[1]]))
        return {self._call(visit): row for visit, row in by_order}

    @cached_property
    def _last_row(self) -> dict[int, int]:
        """The last block of each visit, callees included: what a name is bound to, or a function returns."""
        ledger, caller = self._ledger, self._visits.caller.tolist()
        made = np.flatnonzero(~ledger.before & (ledger.blocks.node == NONE) & (ledger.visit != NOT_VISITED))
        by = made[np.argsort(ledger.order[made], kind="stable")]
        last: dict[int, int] = {}
        for row, visit in zip(by.tolist(), ledger.visit[by].tolist(), strict=True):
            while visit != NOT_VISITED:
                last[visit] = row
                visit = caller[visit]  # noqa: PLW2901 - and in all that called it
        return last

    def _freed_ns(self, row: int) -> int:
        """When a block would have been freed, had only names held it."""
        visits = self._visits
        visit = int(self._ledger.visit[row])
        if self._last_row.get(visit) != row:
            return int(visits.end_ns[visit])  # a part of an expression; FOREVER where no line of the user's made it
        while (caller := int(visits.caller[visit])) != NOT_VISITED and self._last_row[caller] == row:
            visit = caller  # what a function allocates last it returns
        again = visits.next_of_line(visit)
        ends = self._returned_ns(visit)
        if self._last_of_call[self._call(visit)] == row:
            ends = self._passed_on_ns(visit)
        return min(ends, int(visits.end_ns[again])) if again != NOT_VISITED else ends

    def _returned_ns(self, visit: int) -> int:
        return int(self._visits.call_end_ns[visit]) if self._visits.caller[visit] != NOT_VISITED else FOREVER

    def _call(self, visit: int) -> tuple[int, int]:
        """What the visits of one call of a function have in common."""
        return int(self._visits.caller[visit]), int(self._visits.call_end_ns[visit])

    def _passed_on_ns(self, visit: int) -> int:
        """When the caller frees a result: as its next call returns, like nn.Sequential, else at the end of its line."""
        visits = self._visits
        caller = int(visits.caller[visit])
        if caller == NOT_VISITED:
            return FOREVER
        after = np.flatnonzero((visits.caller == caller) & (visits.begin_ns >= visits.call_end_ns[visit]))
        if not len(after):
            return int(visits.end_ns[caller])
        return int(visits.call_end_ns[after[np.argmin(visits.begin_ns[after])]])

    def _tensors_in(self, container: str) -> list[int]:
        """The blocks of the tensors themselves that a container holds, by allocation."""
        table, names = self._ledger.blocks, self._ledger.trace.names
        held = np.flatnonzero((table.role == BlockRole.HELD) & ~self._ledger.before).tolist()
        return [row for row in held if names[table.holder[row]].startswith(f"{container}[")]

    def _line_with(self, container: str, tensor: int) -> tuple[int, str]:
        """The line of the cell that fills a container; where none names it, the one that makes what it holds."""
        seen = {self._text.line(int(path)): int(path) for path in np.unique(self._visits.path[self._visits.root])}
        for line, path in sorted(seen.items()):
            if f"{container}.append(" in self._text.code(path):
                return line, self._text.code(path)
        return self._root_line(tensor), self._code(tensor)

    def _next_round_ns(self, row: int, roots: Sequence[int]) -> int:
        """When the name that holds a round's result has the next round's: the end of the second of those visits."""
        begin = int(self._visits.begin_ns[self._root(row)])
        later = sorted({int(self._visits.end_ns[r]) for r in roots if int(self._visits.begin_ns[r]) >= begin})
        return later[1] if len(later) > 1 else FOREVER

    def _round_end_ns(self, root: int) -> int:
        """When the cell goes back to that line or one above it; FOREVER where it does not."""
        begin, line, path = self._visits.begin_ns, self._ledger.paths.line, self._visits.path
        back = np.flatnonzero(
            (self._visits.caller == NOT_VISITED)
            & (begin > begin[root])
            & (line[path] <= line[path[root]])
            & (path != NOT_VISITED)
        )
        return int(begin[back].min()) if len(back) else FOREVER


def _appended(container: str, code: str) -> str:
    """The name that a line puts into a container, "" where it puts anything else."""
    match = re.search(rf"\b{re.escape(container)}\.append\(\s*(\w+)\s*\)", code)
    return match[1] if match else ""


def _assigned(code: str) -> str:
    """The one name that a statement assigns, "" for anything else."""
    try:
        body: Iterable[ast.stmt] = ast.parse(code.strip()).body
    except SyntaxError:
        return ""
    match list(body):
        case [ast.Assign(targets=[ast.Name(id=name)])]:
            return name
    return ""


# What the peak of a device's memory is made of, and what would lower it.

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
