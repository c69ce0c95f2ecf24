"""The result of `t.curve(...)`: predictions for kernels that are k times as fast, as a table and as a line."""

from __future__ import annotations

from collections.abc import Iterable

from perfmagic.analysis.replay.prediction import CurvePoint
from perfmagic.analysis.rows import Rows


class Curve(Rows[CurvePoint]):
    """A `CurvePoint` for each k, and in a notebook a line: flat where something else holds the run.

    recorded_ns: how long the run took.  what: whose kernels these are, in words.
    """

    __slots__ = ("recorded_ns", "what")

    def __init__(self, points: Iterable[CurvePoint], recorded_ns: int, what: str) -> None:
        super().__init__(points, CurvePoint)
        self.recorded_ns = recorded_ns
        self.what = what

    def svg(self) -> str:
        """The line over how much shorter the kernels become, with the interval of each prediction."""
        from perfmagic.view.timeline.curve import curve_svg

        return curve_svg(self, self.recorded_ns, self.what)

    def _repr_html_(self) -> str:
        from perfmagic.view.html import framed, image

        return framed(image(self.svg(), f"the run as {self.what} become faster")) + super()._repr_html_()
