"""The lines of a timeline: rows, shown as the source with what each line cost beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.line_totals import LineStat
from perfmagic.errors import OptionError

if TYPE_CHECKING:
    from perfmagic.view.timeline.lines.doc import LinesDoc


class Lines(Rows[LineStat]):
    """Each line of the cell, then of the functions that it called, as `LineStat`.

    In a notebook it is the code with a picture; printed, the code with columns. `.in_function("Net.forward")` has the
    rows of one.
    """

    __slots__ = ("_doc",)

    def __init__(self, rows: Iterable[LineStat], doc: LinesDoc | None) -> None:
        super().__init__(rows, LineStat)
        self._doc = doc

    def in_function(self, name: str) -> Rows[LineStat]:
        """The lines of a function by its qualified name, "" for the cell. Raises OptionError where it did not run."""
        found = [row for row in self if row.function == name]
        if not found:
            known = ", ".join(dict.fromkeys(row.function for row in self if row.function)) or "none was followed"
            raise OptionError(f"no function {name!r} ran on a line of this record", hint=f"functions: {known}")
        return Rows(found, LineStat)

    def __repr__(self) -> str:
        if self._doc is None:
            return super().__repr__()
        from perfmagic.view.timeline.lines.text import lines_text

        return "\n".join(lines_text(self._doc)).lstrip("\n")

    def _repr_html_(self) -> str:
        if self._doc is None:
            return super()._repr_html_()
        from perfmagic.view.html import framed, image
        from perfmagic.view.timeline.lines.picture import alt_text, lines_svg

        return framed(image(lines_svg(self._doc), alt_text(self._doc)))
