"""A directive that opens a trace file and puts its live timeline into the page: nothing is recorded, nothing fetched.

```{timeline} ../tests/data/traces/v100_4streams_nccl_step.json.gz
```
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import perfmagic

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_directive("timeline", Timeline)
    return {"parallel_read_safe": True}


class Timeline(SphinxDirective):
    """The live timeline of the trace file that it names, by its path from the page."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """The frame, whose page brings its own script and is allowed nothing else."""
        _, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(path)
        live = perfmagic.open_trace(Path(path)).live()
        return [nodes.raw("", live.frame_html(), format="html")]
