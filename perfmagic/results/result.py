"""How every result shows itself: as text, as a picture, and where a front end runs scripts as a live view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from perfmagic.base.errors import OptionError

if TYPE_CHECKING:
    from perfmagic.results.briefs.form import Brief
    from perfmagic.view.timeline.writers import LiveView


class Result(ABC):
    """What a measurement gives back. A class that measures something new adds text, HTML and any live view.

    IPython shows a result by `_repr_mimebundle_`, whether the extension is loaded or not.
    """

    @abstractmethod
    def text(self) -> str:
        """All of it as plain text, as wide as the terminal: COLUMNS, or 100 columns where there is none."""

    @abstractmethod
    def html(self) -> str:
        """The picture with its words, as HTML that every notebook front end keeps: no script, no style sheet."""

    @abstractmethod
    def _brief(self) -> Brief:
        """What it says to a program; brief() makes that small."""

    def brief(self, *, max_bytes: int | None = None) -> dict[str, Any]:
        """A few facts for programs, ready for JSON: verdict, findings with stable ids, what to do and what it gains.

        max_bytes: of the JSON, 2,000 for a timeline and 8,000 for all others if left out; `omitted` counts what had no
        room. Always in English. docs/brief.schema.json describes it. Raises OptionError for fewer than 1,000 bytes.
        """
        from perfmagic.results.briefs.form import limit_bytes, within

        brief = self._brief()
        return within(brief, limit_bytes(brief.kind, max_bytes))

    def live(self) -> LiveView | None:
        """The live view, None where the picture is all there is."""
        return None

    def widget(self) -> Any:
        """The live view as a widget, for hosts in which one places widgets oneself: `mo.ui.anywidget(t.widget())`.

        Each call makes a new one, with the selection of all. Raises OptionError for a result without a live view.
        """
        live = self.live()
        if live is None:
            what = type(self).__name__
            message = f"a {what} has no live view"
            raise OptionError(message, hint="its picture is .html(), timelines and ranks have both")
        from perfmagic.widget.timeline import timeline_widget

        return timeline_widget(live)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": self.text(), "text/html": self.html(), **self.for_programs()}

    def for_programs(self) -> dict[str, Any]:
        """The brief as a representation of a cell's output, which front ends keep and do not draw; 2 kB stored."""
        from perfmagic.results.briefs.form import CELL_BYTES, MIME, within

        return {MIME: within(self._brief(), CELL_BYTES, in_cell=True)}
