"""Several ranks as they go to a browser: the timeline's own wire format, with rows of ranks and a part for each rank.

The header has every key of a timeline's header, so that one reader reads both; `ranks` names the rows, whose columns
stand in the payload's first `overview_bytes`. Behind them follow the payloads of the ranks' own timelines, on the
common axis: a part is unpacked when its row is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from perfmagic.base.language import translate_term, translated
from perfmagic.view.ranks.doc import RankRow, RanksDoc, met_columns, whole_key
from perfmagic.view.ranks.summary import ranks_summary
from perfmagic.view.timeline.answers import summary_wire, words_wire
from perfmagic.view.timeline.live_columns import ColumnWriter, cut
from perfmagic.view.timeline.live_data import MOST_PATH_PARTS, SCHEMA, Wire, shares_wire

MOST_BOXES = 2_000  # of a rank: their labels take 10 kB
MOST_BYTES = 32_000_000  # of all parts; ranks beyond it have a row, and a file of their own to open


def ranks_wire(doc: RanksDoc, parts: Mapping[int, Wire]) -> Wire:
    """The header and the payload of several ranks.  parts: by rank its timeline, see `on_axis`."""
    out = ColumnWriter()
    for i, row in enumerate(doc.rows):
        for name, spans in row.bands.items():
            out.spans(f"rank{i}_{name}", spans[:, 0], spans[:, 1], 0)
        boxes = np.array([(box.start_ns, box.end_ns) for box in row.boxes[:MOST_BOXES]], np.int64).reshape(-1, 2)
        out.spans(f"rank{i}_boxes", boxes[:, 0], boxes[:, 1], 0)
    kinds = met_columns(out, doc.met)
    _path(out, doc)
    overview = out.payload()
    payloads, at, placed = [overview], len(overview), []
    for row in doc.rows:
        wire = parts.get(row.rank)
        fits = wire is not None and at + len(wire.payload) <= MOST_BYTES
        placed.append({"at": at, "bytes": len(wire.payload), "header": _part(wire)} if wire and fits else None)
        if wire and fits:
            payloads.append(wire.payload)
            at += len(wire.payload)
    header = _header(doc) | {
        "ranks": [_rank(row, part) for row, part in zip(doc.rows, placed, strict=True)],
        "overview_bytes": len(overview),
        "kinds": kinds,
        "columns": out.layout,
    }
    n_slices = sum(wire.n_slices for wire in parts.values())
    return Wire(header, b"".join(payloads), n_slices)


def _part(wire: Wire) -> dict[str, Any]:
    """A part's header; the words stand in that of all ranks."""
    return {key: value for key, value in wire.header.items() if key != "words"}


def _path(out: ColumnWriter, doc: RanksDoc) -> None:
    """The critical path in time: of each part its kind, and the row that it is on, counted from 1."""
    path = doc.path_lane
    if path is None or len(path) > MOST_PATH_PARTS:
        return
    out.spans("path", path.start_ns, path.end_ns, 0)
    out.plain("path", "share", path.share)
    out.plain("path", "stream", path.row + 1)


def _header(doc: RanksDoc) -> dict[str, Any]:
    """The keys of a timeline's header; lanes and devices are those of the parts."""
    return {
        "schema": SCHEMA,
        "origin_ns": 0,
        "span_ns": doc.span_ns,
        "device_label": cut(doc.about),
        "n_ops": 0,
        "busy_of": "",
        "simulated": False,
        **summary_wire(ranks_summary(doc)),
        "device_groups": [],
        "path": shares_wire(doc.path),
        "flags": [],
        "trust": [cut(doc.clocks)],
        "view": [doc.opening.start_ns, doc.opening.end_ns],
        "shown": cut(translated(doc.opening.words)),
        "mark": _mark(doc),
        "key": [[token, translate_term(words)] for token, words in whole_key(doc)],
        "staged": any(row.boxes for row in doc.rows),
        "returned": None,
        "from_cell": False,
        "alt": cut(doc.alt),
        "thread_lanes": [],
        "frame_lanes": [],
        "cell_lane": None,
        "launch_lane": None,
        "stream_lanes": [],
        "memory_lanes": [],
        "lines": None,
        "shapes": [],
        **words_wire(),
    }


def _mark(doc: RanksDoc) -> list[Any] | None:
    """The work that others wait for: its row, start, end and line."""
    mark = doc.opening.mark
    rows = [i for i, row in enumerate(doc.rows) if mark and row.rank == mark.rank]
    return [rows[0], mark.start_ns, mark.end_ns, translated(mark.words)] if mark and rows else None


def _rank(row: RankRow, part: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "rank": row.rank,
        "label": row.label,
        "title": cut(row.title),
        "words": list(row.words),
        "start_ns": row.start_ns,
        "end_ns": row.end_ns,
        "part": part,
        "boxes": " ".join(box.label for box in row.boxes[:MOST_BOXES]),
    }


def window_on_axis(doc: RanksDoc, row: RankRow) -> tuple[int, int]:
    """The whole axis by a rank's own clock: the window its timeline is drawn in."""
    return -row.stat.offset_ns, doc.span_ns - row.stat.offset_ns
