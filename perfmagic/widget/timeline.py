"""The live timeline in a notebook: traits that carry the data once, and a few small ones for what is seen.
A cell that runs again closes the views that its last run opened.

Messages may arrive on another thread than the one that runs cells: handlers touch the lock-guarded ViewState only.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Any

import anywidget
import ipywidgets
import traitlets

from perfmagic.view.page import drawing_script, script
from perfmagic.view.timeline.doc import Seen, ViewState, Window
from perfmagic.view.timeline.live_data import Wire
from perfmagic.view.timeline.writers import LiveView


class TimelineWidget(anywidget.AnyWidget):
    """One live view of a timeline, complete in itself: some hosts have no way from one widget to another.

    header, payload: the data, sent once.  asked_ns: the window Python wants shown, [] for none.  view_ns, selected_ns:
    what the view shows, [] for none; all in ns since the header's origin.  marked: {"name": …} or {"line": …}.
    """

    header = traitlets.Unicode().tag(sync=True)
    payload = traitlets.Bytes().tag(sync=True)
    asked_ns = traitlets.List(traitlets.Float()).tag(sync=True)
    view_ns = traitlets.List(traitlets.Float()).tag(sync=True)
    selected_ns = traitlets.List(traitlets.Float()).tag(sync=True)
    marked = traitlets.Dict().tag(sync=True)

    def __init__(self, wire: Wire, state: ViewState, **more: Any) -> None:
        self._origin_ns = int(wire.header["origin_ns"])
        self._state = state
        self._stop: Callable[[], None] = lambda: None
        self._esm = self._script_of(wire)
        super().__init__(header=wire.header_json, payload=wire.payload, **self._traits_of(state.seen), **more)
        self._stop = state.listen(self._follow)
        self.observe(self._report, names=["view_ns", "selected_ns"])

    @staticmethod
    def _script_of(wire: Wire) -> str:
        return drawing_script(more=wire.needs_more)

    def close(self) -> None:
        """End the view and its connection to the browser."""
        self._stop()
        layout = self.layout
        super().close()
        layout.close()  # a model of its own, which ipywidgets would keep for ever

    def _traits_of(self, seen: Seen) -> dict[str, Any]:
        asked = [] if seen.asked is None else [float(t - self._origin_ns) for t in seen.asked]
        marked = {"line": seen.line} if seen.line else {"name": seen.name} if seen.name else {}
        return {"asked_ns": asked, "marked": marked}

    def _follow(self, seen: Seen) -> None:
        with self.hold_sync():
            for name, value in self._traits_of(seen).items():
                setattr(self, name, value)

    def _report(self, _change: Any) -> None:
        self._state.report(self._window(self.view_ns), self._window(self.selected_ns))

    def _window(self, offsets: list[float]) -> Window | None:
        if len(offsets) != 2:
            return None
        return self._origin_ns + round(offsets[0]), self._origin_ns + round(offsets[1])


class Module(ipywidgets.Widget):  # type: ignore[misc]  # has no types
    """A script that draws, as a model without a view: a notebook stores it once, not with each timeline.

    packed: its zlib data as base64, since JupyterLab loses the bytes of such a model when it saves the notebook.
    """

    packed = traitlets.Unicode().tag(sync=True)


class CellTimeline(TimelineWidget):
    """The same where outputs of one notebook share models.  module, more: where its script is, and what follows it."""

    module = traitlets.Instance(Module).tag(sync=True, **ipywidgets.widget_serialization)
    more = traitlets.Instance(Module, allow_none=True).tag(sync=True, **ipywidgets.widget_serialization)

    def __init__(self, wire: Wire, state: ViewState) -> None:
        super().__init__(wire, state, module=_module("timeline"), more=_module("more") if wire.needs_more else None)

    @staticmethod
    def _script_of(_wire: Wire) -> str:
        return script("loader")


_modules: dict[str, Module] = {}


def _module(name: str) -> Module:
    """The one of this kernel; a new one where a cell closed all widgets."""
    if name not in _modules or _modules[name].comm is None:
        _modules[name] = Module(packed=base64.b64encode(zlib.compress(script(name).encode(), 9)).decode())
    return _modules[name]


def timeline_widget(live: LiveView) -> TimelineWidget:
    """The widget of a live view, to be placed by hand."""
    return TimelineWidget(live.wire(), live.state)


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
    made = CellTimeline(live.wire(), live.state)
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
