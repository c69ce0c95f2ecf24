"""A graph as plain text."""

from __future__ import annotations

from perfmagic import units
from perfmagic.view.graph.doc import EXECUTED, HEAD, PLANNED, GraphDoc
from perfmagic.view.text import table, wrapped


def graph_text(doc: GraphDoc) -> str:
    """The sentence, the lanes, both schedules in numbers, what could have begun earlier, the longest chain."""
    lines = wrapped(f"{doc.device} · {doc.sentence}" if doc.device else doc.sentence)
    if doc.failed:
        lines += wrapped(f"The code failed: {doc.failed}")
    lines += ["", *table(HEAD, doc.lane_rows()), ""]
    graph = doc.graph
    lines += wrapped(f"{EXECUTED}: {units.duration(graph.elapsed_ns)}", indent=2)
    lines += wrapped(f"{PLANNED}: {units.duration(graph.possible_ns)}", indent=2)
    return "\n".join([*lines, *(line for one in doc.below() for line in wrapped(one, indent=2))])
