"""Which live views are open, by the cell that opened them: running a cell again closes what its last run made."""

from __future__ import annotations

from typing import Any

from perfmagic.view.timeline.writers import LiveView
from perfmagic.widget.timeline import TimelineWidget, timeline_widget

MOST_OPEN = 64  # cells whose views stay connected; the oldest give way, and their static picture comes back

_open: dict[str, tuple[int, list[TimelineWidget]]] = {}


def live_view(live: LiveView, cell: str, run: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A live view as one output, its data and its metadata.  cell: names the cell that runs.  run: its execution count.

    A hosted front end may say in the metadata where its manager of widgets is.
    """
    last_run, views = _open.pop(cell, (run, []))
    if last_run != run:
        close(views)
        views = []
    made = timeline_widget(live)
    _open[cell] = (run, [*views, made])
    while len(_open) > MOST_OPEN:
        close(_open.pop(next(iter(_open)))[1])
    data, metadata = made._repr_mimebundle_() or ({}, {})
    # without a text, consoles, logs and LaTeX show nothing below the result's own words, which came before
    return {mime: content for mime, content in data.items() if mime != "text/plain"}, metadata


def close(views: list[TimelineWidget]) -> None:
    """End views."""
    for view in views:
        view.close()
