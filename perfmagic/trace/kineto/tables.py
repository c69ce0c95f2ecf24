"""Events to the columns of a trace, chunk by chunk: what is decoded of a chunk is gone before the next."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import numpy as np

from perfmagic.trace.columns import Int64
from perfmagic.trace.kineto import gathered
from perfmagic.trace.kineto.decode import Begin, Chunk, End, Event, Other, Span
from perfmagic.trace.kineto.dialects import CATEGORIES, in_kineto_words
from perfmagic.trace.kineto.event_columns import HOST_KINDS, OP_KINDS, EventColumns, column, time_columns
from perfmagic.trace.model import Collective, LaunchShape

_TABLE_OF = {
    **dict.fromkeys(OP_KINDS, gathered.OPS),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), gathered.CALLS),
    **dict.fromkeys(HOST_KINDS, gathered.HOST_OPS),
    "python_function": gathered.FRAMES,
    "cuda_sync": gathered.WAITS,
}
_OVERHEAD = "overhead"
_WAIT_NAME = "Stream Wait Event"
_HOST_WAIT_NAMES = ("Stream Sync", "Event Sync", "Context Sync")


class Tables:
    """Takes chunks of events with `add`; perfmagic.trace.kineto.gathered makes of them the columns of a trace.

    A file's chunks may be spread over several: `take_over` brings them together, with the same result.
    """

    def __init__(self) -> None:
        self.gathered = gathered.Gathered()
        self._categories = gathered.Codes()
        make = self._make = EventColumns(self.gathered, self._categories)
        self._makers: dict[int, Callable[[list[Span], Int64, Chunk], gathered.Columns]] = {
            gathered.OPS: make.ops,
            gathered.CALLS: make.calls,
            gathered.HOST_OPS: make.host_ops,
            gathered.WAITS: make.waits,
            gathered.HOST_WAITS: make.host_waits,
            gathered.FRAMES: make.frames,
        }

    @property
    def names(self) -> list[str]:
        return list(self.gathered.books[gathered.NAMES])

    @property
    def shapes(self) -> list[LaunchShape]:
        """How kernels were laid out, by the numbers in `shape` of ops."""
        return [LaunchShape(*key) for key in self.gathered.books[gathered.SHAPES]]

    @property
    def input_shapes(self) -> list[str]:
        """Shapes of operators' inputs as JSON, by the numbers in `shape` of host_ops."""
        return self._texts(gathered.INPUTS)

    @property
    def input_dtypes(self) -> list[str]:
        """Types of operators' inputs as JSON, by the numbers in `dtype` of host_ops; empty where there are none."""
        return self._texts(gathered.DTYPES)

    @property
    def input_values(self) -> list[str]:
        """Plain inputs of convolutions and attention as JSON, by the numbers in `value` of host_ops; () without any."""
        return self._texts(gathered.VALUES)

    def _texts(self, book: int) -> list[str]:
        return [json.dumps(msgspec.json.decode(text)) if text else "" for text in self.gathered.books[book]]

    @property
    def collectives(self) -> list[Collective]:
        return [Collective(*key) for key in self.gathered.books[gathered.COLLECTIVES]]

    @property
    def empty(self) -> bool:
        """Whether neither a device nor a host record came."""
        return not any(
            part.rows(table)
            for part in self.gathered.parts
            for table in (gathered.OPS, gathered.CALLS, gathered.HOST_OPS, gathered.FRAMES)
        )

    def add(self, chunk: Chunk, number: int = 0) -> None:
        """Take the events of one chunk. number: its place in the file, where others take chunks, too; it must rise."""
        events = chunk.events
        if not events:
            return
        category, table = self._classified(events)
        if self.empty:
            self._count_kinds(category)
        others = [code for name, code in self._categories.items() if name in CATEGORIES]
        if others and (rows := np.flatnonzero(np.isin(category, others)).tolist()):
            in_kineto_words(events, rows)
            category, table = self._classified(events)
        times_us = (cast("Span", events[row]).dur for row in self._make.rows_of(_OVERHEAD, category))
        took_us = [time_us for time_us in times_us if 0 <= time_us * 1000 < gathered.DAY_NS]  # false for NaN
        self.gathered.overheads += len(took_us)
        self.gathered.overhead_us += sum(took_us)
        part = gathered.Part(number)
        for code in gathered.SPAN_TABLES:
            matching = np.flatnonzero(table == code)
            if len(matching):
                rows = matching.tolist()
                spans = cast("list[Span]", [events[row] for row in rows])
                columns = self._makers[code](spans, category[matching], chunk)
                part.columns[code] = gathered.slim(columns | time_columns(spans, rows, chunk))
        self._make.counters(events, category, chunk, part)
        if not {*map(type, events)}.isdisjoint((Begin, End)):
            _note_pairs(chunk, table, part)
        part.known = tuple(map(len, self.gathered.books))
        self.gathered.parts.append(part)

    def take_over(self, others: Sequence[gathered.Gathered]) -> None:
        """Add the chunks that other tables took. Nothing can be added after that."""
        self.gathered = gathered.together([self.gathered, *others])

    def _count_kinds(self, category: Int64) -> None:
        for kind, n in zip(self._categories, np.bincount(category).tolist(), strict=False):
            if n:
                self.gathered.seen[kind.words if isinstance(kind, Other) else kind or "other"] += n

    def _classified(self, events: list[Event]) -> tuple[Int64, Any]:
        """Of each event the number of its category, and which table its span goes to, 0 for none."""
        categories = self._categories
        category = column([categories[event.cat] for event in events], "q")
        table = np.array([_TABLE_OF.get(name, 0) for name in categories], np.int8)[category]
        for row in np.flatnonzero(table == gathered.WAITS).tolist():
            name = cast("Span", events[row]).name
            if name != _WAIT_NAME:
                table[row] = gathered.HOST_WAITS if name in _HOST_WAIT_NAMES else 0
        return category, table


def _note_pairs(chunk: Chunk, table: Any, part: gathered.Part) -> None:
    events = chunk.events
    rows = [row for row, event in enumerate(events) if isinstance(event, (Begin, End))]
    row_in_table = np.zeros(len(events), np.int64)
    for code in gathered.SPAN_TABLES:
        selected = table == code
        row_in_table[selected] = np.arange(int(selected.sum()))
    times = time_columns([events[row] for row in rows], rows, chunk)
    for row, start_ns in zip(rows, times["start_ns"].tolist(), strict=True):
        event = cast("Begin | End", events[row])
        pair = gathered.PairEnd(start_ns, (event.pid, event.tid), begins=isinstance(event, Begin))
        part.pairs.append((pair, int(table[row]), int(row_in_table[row])))
