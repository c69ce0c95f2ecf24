"""What every live view offers, to widgets, to frames and to pages."""

from __future__ import annotations

from typing import Protocol

from perfmagic.view.timeline.viewstate import ViewState
from perfmagic.view.timeline.wire import Wire


class LiveView(Protocol):
    """A view that runs in the browser, and what replaces it where it cannot run.

    state: what Python and the open views share.  empty: the picture shows all there is, so nothing needs a closer look.
    """

    @property
    def state(self) -> ViewState: ...

    @property
    def empty(self) -> bool: ...

    def wire(self) -> Wire:
        """The data, sent once."""

    def picture_html(self) -> str:
        """The picture that stays in the notebook when the kernel has gone; the live view hides it."""

    def frame_html(self) -> str:
        """The live view as a page in a frame, for front ends that run scripts and have no widgets."""
