"""The result of `t.flame(...)`: where Python was during a part of a timeline, as a flame graph."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.timeline.flame import Flame, collapsed
from perfmagic.base.errors import OptionError
from perfmagic.base.files import write_text
from perfmagic.results.result import Result

if TYPE_CHECKING:
    import pandas as pd

TEXT_LINES = 14
SAVED_AS = (".svg", ".html", ".json", ".folded", ".txt")


@dataclass(frozen=True)
class FlameResult(Result):
    """Where Python was during some time: each path of calls once, as wide as it took long. data: the numbers.

    >>> flame = perfmagic.open_trace("step.json.gz").flame()
    >>> flame.data.paths[0].name
    'main thread'
    """

    data: Flame

    def svg(self) -> str:
        """The picture alone, 1000 px wide; every box has its whole name and its times as a tooltip."""
        from perfmagic.view.timeline.flame import flame_svg

        return flame_svg(self.data)

    def text(self, *, most_lines: int = TEXT_LINES) -> str:
        """The sentence, and the longest paths as a tree of at most so many lines."""
        from perfmagic.view.timeline.flame_text import flame_text

        return flame_text(self.data, most_lines)

    def html(self) -> str:
        """The sentence and the picture; at most 80 kB. Tooltips are in svg() and in the page that save() writes."""
        from perfmagic.view.timeline.flame import flame_html

        return flame_html(self.data)

    def folded(self) -> str:
        """The lines "thread;outer;inner 1234" that flamegraph.pl and speedscope read: self time in µs.

        A line a path that was innermost; the sum over any path and those inside it is right to 1 µs.
        """
        return collapsed(self.data.paths)

    def to_dict(self) -> dict[str, Any]:
        """The sentence and every path, ready for JSON; times in ns."""
        return self.data.to_dict()

    def to_frame(self) -> pd.DataFrame:
        """A row for each path. Needs pandas."""
        return self.data.paths.to_frame()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it by its ending and give the path: .svg, .html (a page), .json, .folded or .txt for other tools.

        Raises OptionError for another ending.
        """
        ending = Path(path).suffix.lower()
        if ending not in SAVED_AS:
            raise OptionError(f"{path}: a flame graph is saved as {', '.join(SAVED_AS)}")
        return write_text(path, self._written(ending))

    def _written(self, ending: str) -> str:
        if ending == ".svg":
            return self.svg()
        if ending == ".json":
            return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)
        if ending != ".html":
            return self.folded()
        from perfmagic.view.page import page

        return page("perfmagic flame graph", [self.svg()])

    def __repr__(self) -> str:
        return f"FlameResult: {self.data.sentence}"
