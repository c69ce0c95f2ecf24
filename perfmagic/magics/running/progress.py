"""The progress of a measurement, shown while it runs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from perfmagic.api.show import in_notebook
from perfmagic.base.display import display_mode
from perfmagic.view.html import framed, paragraphs

AFTER_S = 1.0  # a shorter wait needs no progress
EVERY_S = 0.5


class Progress:
    """One display with its own id, from the first second on; the result replaces it.

    display_id: of that display, empty while there is none.  Outside a notebook, where quiet, and where the display mode
    is "static", nothing is shown.
    """

    def __init__(self, shell: Any, title: str, *, quiet: bool = False) -> None:
        self.display_id = ""
        self.stage = ""
        self._title = title
        # a pipeline has no viewer, and nbval does not know displays that change
        visible = in_notebook(shell) and not quiet and display_mode() != "static"
        self._publisher = shell.display_pub if visible else None  # kept: muted() replaces the shell's
        self._next_s = time.monotonic() + AFTER_S

    def __call__(self, so_far: Callable[[], str]) -> None:
        """Show the progress, at most every EVERY_S.  so_far: describes it; called only where it is shown."""
        if self._publisher is None or time.monotonic() < self._next_s:
            return
        text = " · ".join(part for part in (self._title, self.stage, so_far()) if part)
        first, self.display_id = not self.display_id, self.display_id or secrets.token_hex(8)
        self._publisher.publish(
            data={"text/plain": text, "text/html": framed(paragraphs([text]))},
            metadata={},
            transient={"display_id": self.display_id},
            update=not first,
        )
        self._next_s = time.monotonic() + EVERY_S
