"""A timeline as it goes to a browser: one JSON header and one bytes payload, sent once.

The header has what is small: totals, findings, the list of lanes. The payload has the columns (perfmagic.view.
wire_columns) and the names. Times count from the header's `origin_ns` in whole nanoseconds.
SCHEMA changes whenever an older reader would draw something else than what is meant.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmagic.analysis.memory.ledger import Ledger, ledger
from perfmagic.analysis.memory.peak import HeldBytes, held
from perfmagic.analysis.memory.reasons import Descriptions, reasons
from perfmagic.analysis.memory.stack import KINDS, Kind, bytes_by_layer, stack
from perfmagic.analysis.timeline.flame.call_paths import THREAD, EveryCall, every_call
from perfmagic.base import units
from perfmagic.base.language import phrase, say, translate_term, translated
from perfmagic.trace.columns import NONE, Int32, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass
from perfmagic.view.svg.palette import TOKENS, columns_of
from perfmagic.view.timeline.answers import summary_of, summary_wire, words_wire
from perfmagic.view.timeline.doc import TimelineDoc, alt_text, describe_shape
from perfmagic.view.timeline.flame import KEY, TONES
from perfmagic.view.timeline.lanes import DeviceGroup, HostOpsLane, Share, StreamLane
from perfmagic.view.timeline.lines.live_data import LinesWire, lines_wire
from perfmagic.view.timeline.live_columns import ColumnWriter, cut
from perfmagic.view.timeline.trace_lanes import FrameLanes, describe_origin, frame_lane_of, frame_lanes

# The stack of memory as it goes to a browser: layers by reason and by line of the cell, and the rows at the peak.

MOST_COLUMNS, MOST_ROWS, MOST_LINES = 1200, 40, 8
LINE_TOKENS = ("mem_parameters", "mem_kept", "mem_held", "mem_optimizer", "mem_graph", "mem_gradients", "mem_backward")


def memory_wire(out: ColumnWriter, trace: Trace) -> dict[str, Any] | None:
    """Writes the stack of the device with the highest peak; None where blocks were not recorded."""
    devices = np.unique(trace.blocks.device).tolist()
    ledgers = [of for device in devices if (of := ledger(trace, device)) is not None]
    if not ledgers:
        return None
    of = max(ledgers, key=lambda of: of.peak_bytes)
    words = Descriptions(of, reasons(of))
    made = stack(of, words.why)
    first, shown = columns_of(made.size_bytes.sum(axis=0), MOST_COLUMNS)
    kinds = [i for i, most in enumerate(made.size_bytes.max(axis=1).tolist()) if most]
    for number, row in enumerate(kinds):
        out.delta("memory_reasons", str(number), made.size_bytes[row][shown])
    names, by_line = _by_line(of)
    for number, size in enumerate(by_line):
        out.delta("memory_by_line", str(number), size[shown])
    rows = held(of, words, of.at_peak)
    rest = rows[MOST_ROWS:]
    return {
        "peak_bytes": of.peak_bytes,
        "peak_column": int(np.searchsorted(first, made.peak_step, side="right")) - 1,
        "reasons": [[translate_term(KINDS[row].value), TOKENS[KINDS[row]]] for row in kinds],
        "lines": [[cut(translate_term(name)), _token(name, i)] for i, name in enumerate(names)],
        "rows": [
            [
                kinds.index(KINDS.index(Kind(row.kind))),
                cut(_place(row)),
                cut(row.code.strip()),
                cut(translate_term(row.reason)),
                row.n_blocks,
                row.size_bytes,
            ]
            for row in rows[:MOST_ROWS]
        ],
        "more": [len(rest), sum(row.size_bytes for row in rest)],
    }


def _place(row: HeldBytes) -> str:
    if row.function:
        return say("line {line} of {function}", line=row.line, function=row.function)
    return say("line {line}", line=row.line) if row.line else ""


def _by_line(of: Ledger) -> tuple[list[str], Int64]:
    """The lines of the cell that held most, the others as one, and what was there before below all."""
    root = of.visits.path[of.visits.root[of.visit]]
    lines = np.where(of.before, -1, of.paths.line[root])
    known = sorted(
        set(lines.tolist()) - {-1}, key=lambda line: -int(of.blocks.size_bytes[(lines == line) & of.at_peak].sum())
    )
    named = sorted(line for line in known[:MOST_LINES] if line)
    layer = {-1: 0, **{line: place for place, line in enumerate(named, 1)}}
    number = np.array([layer.get(line, len(named) + 1) for line in lines.tolist()])
    names = [Kind.BEFORE.value, *(phrase("line {line}", line=line) for line in named), phrase("other lines")]
    size = bytes_by_layer(of, number, len(names))
    some = [i for i in range(len(names)) if size[i].any()]
    return [names[i] for i in some], size[some]


def _token(name: str, number: int) -> str:
    if name == Kind.BEFORE.value:
        return TOKENS[Kind.BEFORE]
    return TOKENS[Kind.PASSING] if name == "other lines" else LINE_TOKENS[number % len(LINE_TOKENS)]


SCHEMA = 6
NO_CLASS = -1  # of a name that is not a device op's
CLASSES = len(OpClass) + 1
MOST_PATH_PARTS = 20_000  # some 100 kB; of a longer path the browser gets the sums alone


@dataclass(frozen=True)
class Wire:
    """What a browser gets.  n_slices: rows that can be pointed at."""

    header: dict[str, Any]
    payload: bytes
    n_slices: int

    @property
    def needs_more(self) -> bool:
        """Whether more.js draws a part of it."""
        return any(self.header.get(key) for key in ("ranks", "memory_lanes", "memory_stack"))

    @property
    def header_json(self) -> str:
        return json.dumps(self.header, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class NameTable:
    """Pairs of a name and a class, each once, numbered in the order in which they were met."""

    def __init__(self, names: tuple[str, ...], shown: tuple[str, ...]) -> None:
        self._names = names
        self._shown = shown
        self._numbers: dict[tuple[int, int], int] = {}

    def numbers(self, name: Int32, op_class: Int64) -> Int64:
        """The number of each pair; shape of name."""
        key = name.astype(np.int64) * CLASSES + (op_class - NO_CLASS)
        used = np.flatnonzero(np.bincount(key)) if len(key) else key
        number = np.zeros(int(used[-1]) + 1 if len(used) else 0, np.int64)
        for k in used.tolist():
            pair = (k // CLASSES, k % CLASSES + NO_CLASS)
            number[k] = self._numbers.setdefault(pair, len(self._numbers))
        numbers: Int64 = number[key]
        return numbers

    def table(self) -> bytes:
        """JSON rows [short name, full name or 0 where it is the same, class]."""
        rows: list[list[Any]] = []
        for name, op_class in self._numbers:
            full = cut(self._names[name])
            short = cut(self._shown[name])
            rows.append([short, 0 if full == short else full, op_class])
        return _json(rows)


def _json(rows: list[list[Any]]) -> bytes:
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def timeline_wire(doc: TimelineDoc, trace: Trace) -> Wire:
    """The header and the payload of a timeline.  trace: the one the document was made from."""
    frames = frame_lanes(trace, doc.start_ns, doc.end_ns)
    out, names = ColumnWriter(), NameTable(trace.names, _shown(doc, frames))
    header = _header(doc)
    header["trust"] += [cut(frames.note)] if frames.note else []
    header["thread_lanes"] = [_thread(out, names, lane, f"host{i}", doc.start_ns) for i, lane in enumerate(doc.threads)]
    if (flame := flame_wire(out, trace, doc)) is not None:
        header["flame"] = flame
    header["frame_lanes"] = _frames(out, names, frames, doc)
    for finding, said in zip(doc.findings, header["findings"], strict=True):
        if (lane := frame_lane_of(finding, frames)) is not None:
            said["frame_lane"] = lane
    header["cell_lane"] = _cell(out, doc)
    header["launch_lane"] = _launches(out, names, doc, trace)
    calls = np.zeros(0, np.int64) if doc.launches is None else doc.launches.call
    origins = describe_origin(trace)
    streams = [
        _stream(out, names, lane, i, trace, calls, origins.of_op, doc.start_ns) for i, lane in enumerate(_streams(doc))
    ]
    header["stream_lanes"] = streams
    _path(out, doc, trace)
    header["lines"] = _lines(out, doc, trace)
    out.text("origins", _json([[cut(word) for word in words] for words in origins.rows]))
    header["memory_lanes"] = _memory(out, doc)
    if (stack := memory_wire(out, trace)) is not None:
        header["memory_stack"] = stack
    out.text("names", names.table())
    header["shapes"] = [list(describe_shape(shape)) for shape in trace.shapes] if streams else []
    header["columns"] = out.layout
    n_slices = sum(s["ops"] for s in streams) + sum(len(t) for t in (*doc.threads, *frames.lanes))
    n_slices += out.rows("frames")
    n_slices += 0 if doc.launches is None else doc.launches.n_launches + len(doc.launches.blocked_start_ns)
    return Wire(header, out.payload(), n_slices)


def _header(doc: TimelineDoc) -> dict[str, Any]:
    head = doc.header
    return {
        "schema": SCHEMA,
        "origin_ns": doc.start_ns,
        "span_ns": doc.span_ns,
        "device_label": cut(head.device_label),
        "n_ops": head.n_ops,
        "busy_of": translate_term(head.busy_of),
        "simulated": head.simulated,
        **{key: True for key in ("predicted", "rough", "at_least") if getattr(head, key)},
        **summary_wire(summary_of(doc)),
        "device_groups": [_group(g) for g in doc.groups],
        "flags": [{"at": flag.at_ns - doc.start_ns, "text": translate_term(flag.text)} for flag in doc.flags],
        "trust": [cut(translated(s)) for s in doc.trust],
        "returned": None if doc.returned_ns is None else doc.returned_ns - doc.start_ns,
        "from_cell": doc.origin == "cell",
        "alt": cut(alt_text(doc)),
        "path": shares_wire(doc.path),
        **words_wire(),
    }


def _group(group: DeviceGroup) -> dict[str, Any]:
    return {
        "device": group.device,
        "label": cut(group.label),
        "short_label": translate_term(group.short_label),
        "n_ops": group.n_ops,
        "busy_frac": group.busy_frac,
        "extent_ns": group.extent_ns,
        "queue_max": group.queue_max,
        "n_streams": len(group.streams),
        "staves": [stave.name for stave in group.staves],
        "shares": shares_wire(group.shares),
        "n_folded": group.n_folded,
        "folded_ops": group.folded_ops,
    }


def shares_wire(shares: Sequence[Share]) -> list[dict[str, Any]]:
    """The parts of a bar, with their colours; times in ns."""
    return [
        {"name": translate_term(share.name), "ns": share.ns, "token": share.token, "second": share.second}
        for share in shares
    ]


def _streams(doc: TimelineDoc) -> list[StreamLane]:
    return [lane for group in doc.groups for lane in group.streams]


def _stream(
    out: ColumnWriter,
    names: NameTable,
    lane: StreamLane,
    number: int,
    trace: Trace,
    calls: Int64,
    origins: Int64,
    origin_ns: int,
) -> dict[str, Any]:
    """One stream's ops. Their launch is a row of the launch lane; where that has none, the time it counts from."""
    table = f"stream{number}"
    launch = _rows_of(calls, trace.ops.launch[lane.row])
    unlinked = launch == NONE
    out.spans(table, lane.start_ns, lane.end_ns, origin_ns)
    out.plain(table, "name", names.numbers(lane.name, lane.op_class.astype(np.int64)))
    out.delta(table, "launch", launch)
    out.delta(table, "wait", np.where(unlinked, lane.start_ns - lane.launch_ns, 0))
    out.delta(table, "line", lane.line)
    out.delta(table, "inner_line", lane.inner_line)
    out.delta(table, "orphan", lane.orphan)
    out.plain(table, "sub_lane", lane.packing.sub_lane)
    out.plain(table, "split", lane.packing.split - 1)
    out.signed(table, "bytes", trace.ops.size_bytes[lane.row])
    out.plain(table, "shape", trace.ops.shape[lane.row] - NONE)
    out.plain(table, "origin", origins[lane.row] - NONE)
    return {
        "device": lane.device,
        "stream": lane.stream,
        "ops": len(lane),
        "queue_max": lane.queue_max,
        "queue_mean": lane.queue_mean,
        "busy_frac": lane.busy_frac,
        "depth": lane.packing.depth,
    }


def _path(out: ColumnWriter, doc: TimelineDoc, trace: Trace) -> None:
    """The critical path in time: of each part its kind, and the stream that it is on, 0 for the host."""
    path = doc.path_lane
    if path is None or len(path) > MOST_PATH_PARTS:
        return
    number = np.full(len(trace.ops) + 1, NONE, np.int64)  # the last one stands for no op
    for i, lane in enumerate(_streams(doc)):
        number[lane.row] = i
    out.spans("path", path.start_ns, path.end_ns, doc.start_ns)
    out.plain("path", "share", path.share)
    out.plain("path", "stream", number[path.op] - NONE)


def _lines(out: ColumnWriter, doc: TimelineDoc, trace: Trace) -> dict[str, Any] | None:
    """The lines, and for each op of each stream the lines that it and its forward operator lie on."""
    if trace.paths is None and not len(trace.marks) and not trace.ops.line.any():
        return None
    lines: LinesWire | None = lines_wire(out, trace, doc.start_ns, doc.end_ns)
    if lines is None:
        return None
    for number, lane in enumerate(_streams(doc)):
        out.delta(f"stream{number}", "chain", lines.chain[lane.row])
        out.delta(f"stream{number}", "forward", lines.forward[lane.row])
    return lines.header


def _rows_of(calls: Int64, wanted: Int64) -> Int64:
    """Where each wanted call stands among the calls of the lane, which rise; NONE where it does not."""
    if not len(calls):
        return np.full(len(wanted), NONE, np.int64)
    at = np.minimum(np.searchsorted(calls, wanted), len(calls) - 1)
    return np.where(calls[at] == wanted, at, NONE)


def _places(wanted: Int64, values: Int64) -> Int64:
    """Where each value stands among few wanted ones, NONE where it is none of them."""
    places = np.full(len(values), NONE, np.int64)
    for place, value in enumerate(wanted.tolist()):
        places[values == value] = place
    return places


def _thread(out: ColumnWriter, names: NameTable, lane: HostOpsLane, table: str, origin_ns: int) -> dict[str, Any]:
    order = lane.in_order()
    out.spans(table, lane.start_ns[order], lane.end_ns[order], origin_ns)
    out.plain(table, "name", names.numbers(lane.name[order], np.full(len(lane), NO_CLASS, np.int64)))
    return {"label": lane.label, "levels": np.bincount(lane.level, minlength=lane.depth).tolist()}


def _shown(doc: TimelineDoc, frames: FrameLanes) -> tuple[str, ...]:
    """Every name as it is read in a lane, those of frames with their line and without their folders."""
    shown = list(doc.names)
    for name, words in frames.words.items():
        shown[name] = words
    return tuple(shown)


def _frames(out: ColumnWriter, names: NameTable, frames: FrameLanes, doc: TimelineDoc) -> list[dict[str, Any]]:
    """The lanes of frames, each with the number of the lane of operators that it belongs under, NONE where none is."""
    threads = [lane.thread for lane in doc.threads]
    return [
        _thread(out, names, lane, f"frames{i}", doc.start_ns)
        | {"under": threads.index(lane.thread) if lane.thread in threads else NONE}
        for i, lane in enumerate(frames.lanes)
    ]


def _cell(out: ColumnWriter, doc: TimelineDoc) -> dict[str, Any] | None:
    if doc.cell is None or not len(doc.cell):
        return None
    out.spans("cell", doc.cell.start_ns, doc.cell.end_ns, doc.start_ns)
    out.delta("cell", "line", doc.cell.line)
    return {"texts": {str(line): cut(text) for line, text in doc.cell.texts.items()}}


def _launches(out: ColumnWriter, names: NameTable, doc: TimelineDoc, trace: Trace) -> dict[str, Any] | None:
    lane = doc.launches
    if lane is None:
        return None
    calls = trace.calls
    threads = np.array([thread.thread for thread in doc.threads], np.int64)
    out.spans("launch", lane.start_ns, lane.end_ns, doc.start_ns)
    out.plain("launch", "name", names.numbers(calls.name[lane.call], np.full(len(lane.call), NO_CLASS, np.int64)))
    out.delta("launch", "line", calls.line[lane.call])
    out.delta("launch", "thread", _places(threads, calls.thread[lane.call]))
    words = {word: i for i, word in enumerate(dict.fromkeys(lane.words))}
    out.spans("blocked", lane.blocked_start_ns, lane.blocked_end_ns, doc.start_ns)
    out.delta("blocked", "line", lane.blocked_line)
    out.plain("blocked", "words", [words[word] for word in lane.words])
    out.plain("blocked", "beside_work", lane.beside_work)
    return {"words": [cut(word) for word in words]}


def _memory(out: ColumnWriter, doc: TimelineDoc) -> list[dict[str, Any]]:
    """Allocated bytes over time, one lane a device that has a record of them, with the most that was reserved."""
    lanes: list[dict[str, Any]] = []
    for group in doc.groups:
        if group.memory is None:
            continue
        table = f"memory{len(lanes)}"
        out.delta(table, "at", group.memory.at_ns - doc.start_ns)
        out.plain(table, "bytes", group.memory.allocated_bytes)
        lanes.append({"device": group.device, "reserved_max": group.memory.reserved_max_bytes})
    return lanes


# Where Python was, as it goes to a browser: paths of calls, and of each call its path.

MOST_FRAMES = 30_000  # some 100 kB


def flame_wire(out: ColumnWriter, trace: Trace, doc: TimelineDoc) -> dict[str, Any] | None:
    """Writes paths and calls into the payload, and says what else a browser needs; None where nothing was recorded."""
    calls = every_call(trace, MOST_FRAMES)
    if not len(calls.parent):
        return None
    out.delta("paths", "parent", calls.parent - NONE)
    out.plain("paths", "label", calls.label)
    for number, lane in enumerate(doc.threads):
        rows = lane.row[lane.in_order()]
        out.delta(f"host{number}", "path", calls.path[rows] - NONE)
        out.plain(f"host{number}", "early", calls.early_ns[rows])
    out.spans("frames", calls.start_ns, calls.end_ns, doc.start_ns)
    out.delta("frames", "path", calls.frame_path - NONE)
    kinds = [kind for kind in (THREAD, *dict(KEY)) if any(kind == known for _, known in calls.labels)]
    rows_of_labels = [[cut(name), kinds.index(kind)] for name, kind in calls.labels]
    out.text("labels", json.dumps(rows_of_labels, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
    return {
        "start": trace.meta.start_ns - doc.start_ns,
        "end": trace.meta.end_ns - doc.start_ns,
        "kinds": [[TONES[kind], translate_term(dict(KEY).get(kind, ""))] for kind in kinds],
        "note": _note(calls),
    }


def _note(calls: EveryCall) -> str:
    if not calls.left_out_ns:
        return ""
    return f"calls of {units.duration(calls.left_out_ns)} or less are left out, and their time is their caller's"
