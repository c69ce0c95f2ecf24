"""Putting a result into a notebook's output, and remembering the last one."""

from __future__ import annotations

import sys
from typing import Any

from perfmagic.analysis.bench import BenchResult
from perfmagic.results import TimelineResult, bench_mimebundle

Result = TimelineResult | BenchResult

_last: Result | None = None
_shown: list[object] = []  # the result drawn last and the number of the cell that drew it


def last() -> Result | None:
    """The result of the last measured cell or block, None before the first."""
    return _last


def remember(result: Result) -> None:
    """Make a result the one perfmagic.last() gives."""
    global _last
    _last = result


def show(result: Result) -> None:
    """Display a result where IPython runs; in a plain script nothing is printed, the caller has the object."""
    remember(result)
    shell = running_shell()
    if shell is None:
        return
    publish(shell, _whole_face(result))
    _shown[:] = [result, shell.execution_count]


def show_once(result: Result) -> None:
    """Display a result that is the value of a cell, unless that very cell has just drawn it."""
    shell = running_shell()
    if shell is not None and not (_shown and _shown[0] is result and _shown[1] == shell.execution_count):
        publish(shell, _whole_face(result))


def _whole_face(result: Result) -> dict[str, str]:
    return bench_mimebundle(result) if isinstance(result, BenchResult) else result._repr_mimebundle_()


def publish(shell: Any, bundle: dict[str, str]) -> None:
    """Send one output with several faces; a terminal has only the text."""
    if getattr(shell, "kernel", None) is None and type(shell.display_pub).__name__ == "DisplayPublisher":
        print(bundle["text/plain"])
    else:
        shell.display_pub.publish(data=bundle, metadata={})


def running_shell() -> Any | None:
    """The running IPython shell, None outside IPython; never imports it."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
