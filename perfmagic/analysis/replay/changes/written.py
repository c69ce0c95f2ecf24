"""Changes as code: what perfmagic.changes has to be called with, so that a program can ask for them."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic.analysis.replay.changes.change import COPIES, Change, OnTime
from perfmagic.analysis.replay.changes.copies import Overlapped, Pin
from perfmagic.analysis.replay.changes.host import NoItem, Prefetch, WithoutPython
from perfmagic.analysis.replay.changes.kernels import Fused, OneGraph


def written(changes: Sequence[Change], lines: Sequence[int]) -> str:
    """Some changes as arguments of what_if(): "no_item(line=4), pin()"; "" where one of them has no function.

    lines: of the cell, where the changes are. What Python did on one line in some time is written as all of the line.
    """
    each = dict.fromkeys(_call(change, lines) for change in changes)
    return "" if "" in each else ", ".join(each)


def _call(change: Change, lines: Sequence[int]) -> str:
    line = getattr(change, "line", None) or (lines[0] if len(lines) == 1 else None)
    on_line = f"line={line}" if line else ""
    if isinstance(change, WithoutPython):
        return f"no_python({on_line})" if line else ""
    if isinstance(change, Overlapped):
        return "overlap_copies()" if change.classes == COPIES else "overlap_communication()"
    for kind, function in _OF_LINE.items():
        if isinstance(change, kind):
            return f"{function}({on_line})"
    return next((f"{function}()" for kind, function in _OF_ALL.items() if isinstance(change, kind)), "")


# the lines of a finding are where its own part is: of a whole run's copies or kernels it names the first few alone
_OF_LINE: dict[type[Change], str] = {NoItem: "no_item"}
_OF_ALL: dict[type[Change], str] = {
    Pin: "pin", Fused: "fused", OneGraph: "one_graph", Prefetch: "prefetch", OnTime: "on_time",
}  # fmt: skip
