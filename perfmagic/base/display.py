"""How results are shown: which representations go into a notebook's output."""

from __future__ import annotations

import os

from perfmagic.base.errors import OptionError

# auto: the static picture, and the live view where a front end can show it.  widget: both, always.  static: only the
# picture.  html: the live view as a page inside the output, for front ends without widgets
MODES = ("auto", "widget", "static", "html")
FACES = {
    "auto": "a live widget, the picture where none is seen; `%perfmagic display html` for hosts that have no widgets",
    "widget": "a live widget with the picture behind it, always",
    "static": "the picture alone",
    "html": "the live view as a page in a frame, the picture where frames are dropped",
}
TEXT = "text: a terminal shows no pictures"
VARIABLE = "PERFMAGIC_DISPLAY"  # for pipelines: read where nothing was set in the session

_chosen: list[str] = []  # in the session
_configured = ["auto"]  # by a configuration file


def display_mode() -> str:
    """The mode in force. Raises OptionError where the environment names one that does not exist."""
    return _chosen[0] if _chosen else checked(os.environ.get(VARIABLE, "") or _configured[0], VARIABLE)


def choose(mode: str) -> None:
    """Set the mode for this process."""
    _chosen[:] = [checked(mode, "display")]


def configure(mode: str) -> None:
    """Set the mode that is in force where neither the session nor the environment names one."""
    _configured[:] = [checked(mode, "display")]


def checked(mode: str, where: str) -> str:
    """A mode that exists."""
    if mode not in MODES:
        raise OptionError(f"{where}: no display called {mode!r}", hint=f"one of {', '.join(MODES)}")
    return mode
