"""Where Python was, as it goes to a browser: paths of calls, and of each call its path.

Operators are sent once, with their lanes; their path is a further column of these. Frames and followed lines, which
their lanes show in part only, have a table of their own.
"""

from __future__ import annotations

import json
from typing import Any

from perfmagic.analysis.timeline.flame.call_paths import THREAD
from perfmagic.analysis.timeline.flame.every_call import EveryCall, every_call
from perfmagic.base import units
from perfmagic.base.language import translate_term
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.flame_kinds import KEY, TONES
from perfmagic.view.timeline.live_columns import ColumnWriter, cut

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
