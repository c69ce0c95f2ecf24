"""Putting a result into a notebook's output, and remembering the last one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from perfmagic.base.display import display_mode
from perfmagic.base.terminal import for_terminal
from perfmagic.results.result import Result

if TYPE_CHECKING:
    from perfmagic.view.timeline.writers import LiveView

_last: Result | None = None
_shown: list[object] = []  # the result drawn last, or kept quiet, and the number of the cell that did it


def last() -> Result | None:
    """The result of the last measured cell or block, None before the first."""
    return _last


def remember(result: Result) -> None:
    """Make a result the one that perfmagic.last() returns."""
    global _last
    _last = result


def show(result: Result, *, replaces: str = "") -> None:
    """Display a result where IPython runs; a plain script prints nothing, its caller has the object.

    replaces: the id of a display that the first output replaces.
    """
    remember(result)
    shell = running_shell()
    if shell is None:
        return
    _publish(shell, result, replaces)
    _shown[:] = [result, shell.execution_count]


def keep_quiet(result: Result) -> None:
    """Remember a result that its own cell must not show, not even as the cell's value."""
    remember(result)
    shell = running_shell()
    if shell is not None:
        _shown[:] = [result, shell.execution_count]


def show_once(result: Result) -> None:
    """Display a result that is the value of a cell, unless that same cell has just drawn or silenced it."""
    shell = running_shell()
    if shell is None:
        return
    if not (_shown and _shown[0] is result and _shown[1] == shell.execution_count):
        _publish(shell, result)
    elif in_terminal(shell):
        print(repr(result))  # IPython has printed `Out[3]: ` already, and a value belongs behind it


def _publish(shell: Any, result: Result, replaces: str = "") -> None:
    """Publish the representations that the display mode chooses; the live one only where a front end shows outputs."""
    mode = display_mode()
    live = result.live() if in_notebook(shell) and mode != "static" else None
    if live is None or (mode == "auto" and (live.empty or _unattended(shell))):
        publish(shell, result._repr_mimebundle_(), replaces)
    elif mode == "html":
        bundle = {"text/plain": result.text(), "text/html": live.frame_html()}
        publish(shell, bundle | result.for_programs(), replaces)
    else:
        # the picture first: it stays when the kernel has ended, and the live view hides it until then
        bundle = {"text/plain": result.text(), "text/html": live.picture_html()}
        publish(shell, bundle | result.for_programs(), replaces)
        data, metadata = _live_bundle(shell, live)
        publish(shell, data, metadata=metadata)


def _live_bundle(shell: Any, live: LiveView) -> tuple[dict[str, Any], dict[str, Any]]:
    from perfmagic.widget.timeline import live_view

    run = shell.execution_count
    # two cells may have the same text: where the host does not say which cell runs, each run counts as a cell
    return live_view(live, _cell_id(_request(shell)) or f"run {run}", run)


def cell_of(shell: Any) -> str:
    """A name for the running cell: the notebook's own id, else its text."""
    request = _request(shell)
    return _cell_id(request) or str(request.get("content", {}).get("code", ""))


def _request(shell: Any) -> dict[str, Any]:
    """What the front end sent to have the cell run; empty where none did."""
    try:
        return dict(shell.get_parent())
    except (AttributeError, LookupError):
        return {}


def _unattended(shell: Any) -> bool:
    """Whether a program runs the notebook and no person can use a live view.

    nbclient, and so papermill, nbconvert and myst-nb, says that its cells get no input. So does Voila, whose pages are
    used all the same; it names itself in the kernel's environment.
    """
    gets_input = _request(shell).get("content", {}).get("allow_stdin", True)
    return not gets_input and "VOILA_PREHEAT" not in os.environ


def _cell_id(request: dict[str, Any]) -> str:
    """The notebook's own id of the cell; empty where the host sends none, as Notebook 6."""
    return str(request.get("metadata", {}).get("cellId") or "")


def in_notebook(shell: Any) -> bool:
    """Whether outputs go to a front end: a kernel runs, or a test stands in for one."""
    return getattr(shell, "kernel", None) is not None


def publish(shell: Any, bundle: dict[str, Any], replaces: str = "", *, metadata: dict[str, Any] | None = None) -> None:
    """Send one output in several representations; a terminal prints the text.

    replaces: the id of a display it replaces.  metadata: what a front end should know of the output.
    """
    metadata = metadata or {}
    if in_terminal(shell):
        print(for_terminal(bundle["text/plain"], sys.stdout))
    elif replaces:
        shell.display_pub.publish(data=bundle, metadata=metadata, transient={"display_id": replaces}, update=True)
    else:
        shell.display_pub.publish(data=bundle, metadata=metadata)


def in_terminal(shell: Any) -> bool:
    """Whether outputs are printed: no kernel runs, and nothing captures them."""
    return not in_notebook(shell) and type(shell.display_pub).__name__ == "DisplayPublisher"


def running_shell() -> Any | None:
    """The running IPython shell, None outside IPython; never imports it."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
