"""Writes tests/data/wire: what Python sends and what it means, read by pytest and by the front end's tests.

python -m tests.view.timeline.wire_vectors
"""

from pathlib import Path
from typing import Any

import numpy as np

from perfmagic.analysis.findings.answers import find_answers
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.timeline.flame.call_paths import call_paths, recorded_threads
from perfmagic.base import units
from perfmagic.base.numerics.intervals import Intervals, clip, total_ns
from perfmagic.trace.model import Trace
from perfmagic.view.timeline.doc import TimelineDoc, timeline_doc
from perfmagic.view.timeline.flame import KEY
from perfmagic.view.timeline.lines.doc import lines_doc
from perfmagic.view.timeline.live_columns import cut
from perfmagic.view.timeline.live_data import timeline_wire
from perfmagic.view.timeline.trace_lanes import frame_lanes
from tests.json_rows import json_rows
from tests.trace.recorded import recorded
from tests.view.timeline.build import HOSTILE, noisy, queue_of
from tests.view.timeline.lines.build import with_backward

FOLDER = Path(__file__).resolve().parents[2] / "data" / "wire"
KINDS, FIRST_PATHS = dict(KEY), 3
AMOUNTS = (0, 1, 7.4, 999.4, 999.6, 1000, 9996, 12_345, 99_950, 999_499, 999_500, 1_190_000, 84_512_345, 1.5e9, 7.2e10)
FRACTIONS = (0.0, 0.004, 0.01, 0.123, 0.5, 0.994, 0.996, 0.9999, 1.0)


def cases() -> dict[str, Trace]:
    """Traces of every kind: a cell in a queue, two devices full of noise, two recorded ones, and lines of functions."""
    return {
        "queue": queue_of(name=HOSTILE),
        "noise": noisy(300, 3),
        "gp100": recorded("gp100_gpu_user_annotation"),
        "mi300": recorded("mi300_sglang_hipgraph"),
        "lines": with_backward(),
    }


def expected(doc: TimelineDoc, trace: Trace) -> dict[str, Any]:
    """What the reader must find: columns in part, totals in full, times since the window's start."""
    return {
        "streams": [
            {
                "start_sum": int((lane.start_ns - doc.start_ns).sum()),
                "end_sum": int((lane.end_ns - doc.start_ns).sum()),
                "launch_sum": int((np.minimum(lane.launch_ns, lane.start_ns) - doc.start_ns).sum()),
                "class_counts": np.bincount(lane.op_class, minlength=8).tolist(),
                "lines": sorted(set(lane.line.tolist())),
                "orphans": int(lane.orphan.sum()),
                "queue_max": lane.queue_max,
                "first_name": doc.names[lane.name[0]].encode("utf-8", "replace").decode(),
            }
            for lane in (lane for group in doc.groups for lane in group.streams)
        ],
        "staves": [
            [{"name": s.name, "active_ns": s.active_ns, "exposed_ns": s.exposed_ns} for s in group.staves]
            for group in doc.groups
        ],
        "host_rows": [len(lane) for lane in doc.threads],
        "frames": [
            {"rows": len(lane), "ns": int((lane.end_ns - lane.start_ns).sum())}
            for lane in frame_lanes(trace, doc.start_ns, doc.end_ns).lanes
        ],
        "lines": _lines(doc, trace),
        "flames": _flames(doc, trace),
        "launches": 0 if doc.launches is None else doc.launches.n_launches,
        "blocked_ns": 0
        if doc.launches is None
        else int((doc.launches.blocked_end_ns - doc.launches.blocked_start_ns).sum()),
    }


def _lines(doc: TimelineDoc, trace: Trace) -> list[dict[str, Any]]:
    """Each line with the whole length of what its strip shows, clipped to the time drawn."""
    lines = lines_doc(trace)

    def total(when: Intervals) -> int:
        return total_ns(np.clip(when, doc.start_ns, doc.end_ns))

    return [
        {"line": row.line, "code": row.code.encode("utf-8", "replace").decode()}
        | {name: total(getattr(row, name)) for name in ("python", "waiting", "queued", "executing", "backward")}
        for block in (lines.blocks if lines else ())
        for row in block.rows
    ]


def _flames(doc: TimelineDoc, trace: Trace) -> list[dict[str, Any]]:
    """The paths of calls of all threads in some windows: the first ones, and sums over all that their order changes.

    A path: [name, the words of its kind, depth, calls, total ns, self ns]. sums: of numbers times their place.
    """
    flames = []
    for window in (np.array([[0, 7], [2, 3], [5, 6]]) * doc.span_ns // 7).tolist():
        where = clip(np.array([window]) + doc.start_ns, trace.meta.start_ns, trace.meta.end_ns)
        paths = call_paths(trace, recorded_threads(trace), where) if len(where) else ()
        numbers = np.array([(path.depth, path.n_calls, path.total_ns, path.self_ns) for path in paths]).reshape(-1, 4)
        names = [[cut(path.name), KINDS.get(path.kind, "")] for path in paths]
        first = [[*name, *row] for name, row in zip(names, numbers.tolist(), strict=True)][:FIRST_PATHS]
        sums = (np.arange(1, len(numbers) + 1) @ numbers).tolist()
        flames.append({"window": window, "n_paths": len(paths), "sums": sums, "first": first})
    return flames


def amounts() -> dict[str, Any]:
    """Numbers and how they are written."""
    return {
        "duration": [[v, units.duration(v)] for v in AMOUNTS],
        "size": [[v, units.size(v)] for v in AMOUNTS],
        "count": [[v, units.count(v)] for v in (0, 1, 999, 1330, 1_234_567)],
        "percent": [[v, units.percent(v)] for v in FRACTIONS],
        "duration_like": [
            [ns, step, units.duration_like(ns, step)]
            for ns, step in ((0, 1e6), (1_240_000, 100_000), (84_512_345, 1e6), (5e3, 250), (7.25e9, 1e7))
        ],
    }


def write(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, trace in cases().items():
        doc = timeline_doc(trace, findings(trace), find_answers(trace))
        wire = timeline_wire(doc, trace)
        (folder / f"{name}.header.json").write_text(wire.header_json, encoding="utf-8")
        (folder / f"{name}.payload.zlib").write_bytes(wire.payload)
        (folder / f"{name}.expected.json").write_text(json_rows(expected(doc, trace)), encoding="utf-8")
    (folder / "amounts.json").write_text(json_rows(amounts()), encoding="utf-8")


if __name__ == "__main__":
    write()
