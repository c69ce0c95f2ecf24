"""Memory as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic.view.memory.doc import CHANGE_HEAD, HEAD, MemoryDoc
from perfmagic.view.svg.metrics import cut_to_columns
from perfmagic.view.text import table, wrapped

_REASON = 42  # columns


def memory_text(doc: MemoryDoc) -> str:
    """The sentence, the table at the peak, what would lower it, what rounds leave."""
    lines = wrapped(f"{doc.device} · {doc.sentence}")
    if doc.failed:
        lines += wrapped(f"The code failed: {doc.failed}")
    rows = [(place, size, n, cut_to_columns(why, _REASON)) for place, size, n, why in doc.peak_rows()]
    lines += ["", "at the peak", *table(HEAD, rows, shorten=_cut)]
    if doc.change_rows():
        lines += ["", "what would lower the peak", *table(CHANGE_HEAD, doc.change_rows(), shorten=_cut)]
        lines += [f"  {doc.what_if.note}"] if doc.what_if.note else []
    return "\n".join([*lines, "", *(line for one in doc.below() for line in wrapped(one, indent=2))])


def _cut(names: Sequence[str], room: int) -> list[str]:
    return [cut_to_columns(name, room) for name in names]
