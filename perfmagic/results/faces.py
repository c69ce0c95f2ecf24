"""How every result shows itself: as text, as a picture, and where a front end runs scripts as a live view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
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


class Result(ABC):
    """What a measurement gives back. A class that measures something new adds its two faces, and its live view if any.

    IPython shows a result by `_repr_mimebundle_`, whether the extension is loaded or not.
    """

    @abstractmethod
    def text(self) -> str:
        """All of it as plain text, as wide as the terminal: COLUMNS, or 100 columns where there is none."""

    @abstractmethod
    def html(self) -> str:
        """The picture with its words, as HTML that every notebook front end keeps: no script, no style sheet."""

    def live(self) -> LiveView | None:
        """The live view, None where the picture is all there is."""
        return None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}
