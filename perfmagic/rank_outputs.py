"""What ranks print, display and give back, in the notebook or on the terminal, with the rank before it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from perfmagic.capture.ranks.place import span_words
from perfmagic.capture.ranks.session import CellEnd, Outputs
from perfmagic.show import in_notebook, publish, remember, running_shell, show

if TYPE_CHECKING:
    from perfmagic.results import RanksResult


def outputs() -> Outputs:
    """Where what ranks say goes."""
    return Outputs(line=_line, display=_display, tell=_tell)


def show_values(end: CellEnd) -> None:
    """The values of the cell's last expression; equal ones once."""
    same: dict[str, list[int]] = {}
    for rank, bundle in sorted(end.values.items()):
        same.setdefault(str(bundle.get("text/plain", "")), []).append(rank)
    for who in same.values():
        _faces(f"[{span_words(who)}] ", end.values[who[0]])


def show_result(result: RanksResult) -> None:
    """Display the ranks on one axis; of ranks that had nothing executed a line that says so."""
    if result.nothing:
        remember(result)
        print(f"perfmagic: {result.nothing}")
    else:
        show(result)


def _line(rank: int, stream: str, text: str) -> None:
    print(f"[{rank}] {text}", file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _display(rank: int, bundle: dict[str, Any]) -> None:
    _faces(f"[{rank}] ", bundle)


def _faces(label: str, bundle: dict[str, Any]) -> None:
    """A value or a display of some ranks; a text stands behind its label, a picture below it."""
    shell = running_shell()
    if set(bundle) == {"text/plain"} or shell is None or not in_notebook(shell):
        text = bundle.get("text/plain", "")
        print(label + text.replace("\n", "\n" + " " * len(label)), flush=True)
        return
    print(label.rstrip(), flush=True)
    publish(shell, bundle)
