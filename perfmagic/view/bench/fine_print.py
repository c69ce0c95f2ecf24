"""How a result was measured: one line below it, and the rest on demand."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic.view.html import paragraphs, short
from perfmagic.view.svg.metrics import columns, cut_to_columns
from perfmagic.view.text import prose_width

BETWEEN = " · "
STYLE = "font-size:11px;margin:2px 0 4px 0"


def one_line(parts: Sequence[str]) -> str:
    """The parts in one line of a terminal: what does not fit goes, from the last but one backwards.

    The last part, which names the device, stays: nobody may take a simulated device for a real one.
    """
    kept, width = list(parts), prose_width()
    while len(kept) > 2 and columns(BETWEEN.join(kept)) > width:
        del kept[-2]
    return cut_to_columns(BETWEEN.join(kept), width)


def unfolding(line: str, details: Sequence[str], below: Sequence[str]) -> str:
    """HTML: the line, which unfolds into details, and what stands below it in any case.

    Hosts that do not know <details> show all of it.
    """
    if not details:
        return paragraphs([line, *below])
    inside = "<br>".join(short(one) for one in details)
    summary = f'<summary style="cursor:pointer">{short(line)}</summary>'
    return (
        f'<details style="{STYLE}">{summary}<div style="margin-left:14px">{inside}</div></details>{paragraphs(below)}'
    )
