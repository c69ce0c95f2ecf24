"""The critical path as every face shows it: one bar, and the same in words."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic import units
from perfmagic.analysis.replay.path_shares import PathShare, path_shares
from perfmagic.trace.model import Trace
from perfmagic.view.timeline.lanes import Share

TITLE = "critical path"
WORDS = 4  # kinds that a line of text names
# the colour of each kind; what is not here is neither Python's nor a device's: "rule"
_TOKENS = {
    "Python": "host1",
    "launches and calls": "launch",
    "matrix kernels": "matrix",
    "other kernels": "comp",
    "communication": "comm",
    "HtoD copies": "htod",
    "DtoH copies": "dtoh",
    "DtoD copies": "dtod",
    "PtoP copies": "dtod",
    "memsets": "memset",
    "unexplained": "wait",
}


def critical_path_shares(trace: Trace, comm_names: str | None = None) -> tuple[Share, ...]:
    """The kinds of the path by length, with their colours; empty where the record does not say."""
    return as_shares(path_shares(trace, comm_names))


def as_shares(path: Sequence[PathShare]) -> tuple[Share, ...]:
    """Parts of a path with their colours."""
    return tuple(Share(share.name, share.ns, _TOKENS.get(share.name, "rule")) for share in path)


def path_words(shares: Sequence[Share]) -> str:
    """The path in a line: "critical path: Python 57 %, other kernels 40 %"; "" without one."""
    run_ns = sum(share.ns for share in shares)
    if not run_ns:
        return ""
    named = [f"{share.name} {units.percent(share.ns / run_ns)}" for share in shares[:WORDS]]
    return f"{TITLE}: {', '.join(named)}"
