"""The roofline of a timeline: its numbers, as a result that can be shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmagic.analysis.timeline.device_operators import RooflineData
from perfmagic.results.result import Result

if TYPE_CHECKING:
    from perfmagic.results.briefs.form import Brief


@dataclass(frozen=True)
class RooflineResult(Result):
    """Where the operators of a device lie below what it can do at most. data: the numbers."""

    data: RooflineData

    def svg(self) -> str:
        """The picture alone."""
        from perfmagic.view.timeline.roofline import roofline_svg

        return roofline_svg(self.data)

    def text(self) -> str:
        """A line for each of the longest operators: what it achieved, of which peak, for how many operations a byte."""
        from perfmagic.view.timeline.roofline import roofline_text

        return roofline_text(self.data)

    def html(self) -> str:
        """The picture with its words."""
        from perfmagic.view.timeline.roofline import roofline_html

        return roofline_html(self.data)

    def _brief(self) -> Brief:
        from perfmagic.results.briefs.runs import roofline_brief

        return roofline_brief(self.data, self.text())
