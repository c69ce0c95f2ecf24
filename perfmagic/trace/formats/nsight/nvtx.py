"""NVTX in an export. A range is said by its text or a registered string, its domain, its category and its payload."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmagic.trace.columns import NONE, HostKind, Int64
from perfmagic.trace.formats.nsight.database import MOST_CHARACTERS, Columns, Database, text_of
from perfmagic.trace.formats.nsight.device import Names
from perfmagic.trace.formats.nsight.host import ANY_THREAD

NVTX = "NVTX_EVENTS"
_CATEGORY, _MARK, _PUSH_POP, _START_END, _DOMAIN = 33, 34, 59, 60, 75  # ENUM_NSYS_EVENT_TYPE
_NUMBERS = {
    "start": 0,
    "end": NONE,
    "globalTid": 0,
    "eventType": _PUSH_POP,
    "domainId": 0,
    "category": 0,
    "textId": NONE,
}
_PAYLOADS = ("uint64Value", "int64Value", "uint32Value", "int32Value", "doubleValue", "floatValue")
_SAYS = ("pid", "domainId", "category", "text", "textId", "payload")  # rows with the same of these have one name
# what torch.autograd.profiler.emit_nvtx() writes: "aten::mul, seq = 7, op_id = 12, sizes = [[2, 3]]"
_OPERATOR_KEYS = ("op_id", "seq", "sizes")
_RANGE = ("start_ns", "end_ns", "kind", "name", "thread")
_OPEN = np.iinfo(np.int64).max  # the end of a range that never ended


def ranges_of(database: Database, names: Names) -> tuple[Columns, Int64]:
    """NVTX ranges and marks as columns of HostOps, and the process of each row. The end of an open range is NONE.

    Ranges that need not nest, those of start and end, lie on lanes of their own: threads with negative numbers.
    """
    if not {"start", "globalTid"} <= database.tables.get(NVTX, set()):
        return {name: np.zeros(0, np.int64) for name in _RANGE}, np.zeros(0, np.int64)
    found, texts = _nvtx(database)
    registered = database.strings(found["textId"])

    def said(row: int) -> str:
        text = texts[found["text"][row]]
        return registered.get(int(found["textId"][row]), "") if text is None else text

    def known(kind: int, *of: str) -> dict[tuple[int, ...], str]:
        rows = np.flatnonzero(found["eventType"] == kind).tolist()
        return {tuple(int(found[name][row]) for name in of): said(row) for row in rows}

    domains, categories = known(_DOMAIN, *_SAYS[:2]), known(_CATEGORY, *_SAYS[:3])
    shown = np.flatnonzero(np.isin(found["eventType"], (_MARK, _PUSH_POP, _START_END)))
    is_mark = found["eventType"] == _MARK
    end = np.where(is_mark, found["start"], np.where(found["end"] == NONE, _OPEN, found["end"]))
    shown = shown[np.lexsort((-end[shown], found["start"][shown]))]
    _, first, alike = np.unique(_alike(found, shown), return_index=True, return_inverse=True)
    name_of = []
    for row in shown[first].tolist():
        place = tuple(int(found[name][row]) for name in _SAYS[:3])
        words = _name(said(row), domains.get(place[:2]), categories.get(place), texts[found["payload"][row]])
        name_of.append(names.row(words))
    columns = {
        "start_ns": found["start"][shown],
        "end_ns": np.where(is_mark, found["start"], found["end"])[shown],
        "kind": np.where(found["operator"][shown] > 0, HostKind.OP, HostKind.ANNOTATION),
        "name": np.array(name_of, np.int64)[alike],
        "thread": _threads(found["globalTid"][shown], found["start"][shown], end[shown], found["eventType"][shown]),
    }
    return columns, found["pid"][shown]


def _nvtx(database: Database) -> tuple[Columns, list[str | None]]:
    """The rows of NVTX, texts and payloads as their rows of a list, and that list, which begins with None."""
    have = database.tables[NVTX]
    picked = [f"ifnull({name}, {none})" if name in have else str(none) for name, none in _NUMBERS.items()]
    payloads = [f"substr(jsonText, 1, {MOST_CHARACTERS})"] if "jsonText" in have else []
    payloads += [f"nullif({name}, 0)" for name in _PAYLOADS if name in have]
    picked += _text() if "text" in have else ["0", "null"]
    picked.append(f"coalesce({', '.join([*payloads, 'null', 'null'])})")
    book: dict[Any, int] = {None: 0}
    names = (*_NUMBERS, "operator", "text", "payload")
    parts = [np.zeros((len(names), 0), np.int64)]
    for rows in database.in_parts(f"select {', '.join(picked)} from {NVTX}"):
        columns = list(zip(*rows, strict=True))
        coded = [[book.setdefault(value, len(book)) for value in column] for column in columns[-2:]]
        parts.append(database.numbers(NVTX, [*columns[:-2], *coded]))
    found = dict(zip(names, np.concatenate(parts, 1), strict=True))
    found["pid"] = found["globalTid"] & ~ANY_THREAD
    return found, [text if text is None else text_of(text) for text in book]


def _text() -> list[str]:
    """Whether a range is an operator, and its name: numbers that follow would make each name another."""
    operator = " or ".join(f"instr(text, ', {key} = ')" for key in _OPERATOR_KEYS)
    name = f"case when {operator} then instr(text, ', ') - 1 else {MOST_CHARACTERS} end"
    return [f"ifnull({operator}, 0)", f"substr(text, 1, {name})"]


def _alike(found: Columns, rows: Int64) -> Int64:
    """A number for each row, the same where the rows say the same."""
    code = np.zeros(len(rows), np.int64)
    for name in _SAYS:
        known, at = np.unique(found[name][rows], return_inverse=True)
        if len(known) > 1:
            _, code = np.unique(code * len(known) + at, return_inverse=True)
    return code


def _name(words: str, domain: str | None, category: str | None, payload: str | None) -> str:
    text = f"{domain}: {words}" if domain else words
    text = f"{text} [{category}]" if category else text
    return text if payload is None else f"{text} ({payload})"


def _threads(tid: Int64, start: Int64, end: Int64, kind: Int64) -> Int64:
    """The thread of each range where it nests, else the first free lane of its process. Ranges come by their starts."""
    found: list[int] = (tid & ANY_THREAD).tolist()
    ends_of: dict[int, list[int]] = {}  # of the ranges around, for each thread
    lanes: dict[int, list[int]] = {}  # until when each is taken, for each process
    columns = (column.tolist() for column in (tid, start, end, kind))
    for row, (of, begins, ends, what) in enumerate(zip(*columns, strict=True)):
        if what != _START_END:
            around = ends_of.setdefault(of, [])
            while around and around[-1] <= begins:
                around.pop()
            if not around or ends <= around[-1]:
                around.append(ends)
                continue
        taken = lanes.setdefault(of & ~ANY_THREAD, [])
        lane = next((number for number, until in enumerate(taken) if until <= begins), len(taken))
        taken[lane : lane + 1] = [ends]
        found[row] = -1 - lane
    return np.array(found, np.int64)
