"""The roofline of a timeline: its numbers, with their faces."""

from __future__ import annotations

from dataclasses import dataclass

from perfmagic.analysis.timeline.roofline import RooflineData
from perfmagic.results.faces import Result


@dataclass(frozen=True)
class RooflineResult(Result):
    """Where the operators of a device lie below what it can do at most. data: the numbers."""

    data: RooflineData

    def svg(self) -> str:
        """The picture alone."""
        from perfmagic.view.timeline.picture.roofline import roofline_svg

        return roofline_svg(self.data)

    def text(self) -> str:
        """A line for each of the longest operators: what it achieved, of which peak, for how many operations a byte."""
        from perfmagic.view.timeline.roofline import roofline_text

        return roofline_text(self.data)

    def html(self) -> str:
        """The picture with its words."""
        from perfmagic.view.timeline.roofline import roofline_html

        return roofline_html(self.data)
