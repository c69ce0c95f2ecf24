"""What C++ prints in ranks: a warning that several of them give is shown once, and one that says nothing not at all."""

from __future__ import annotations

import re
from collections.abc import Callable

from perfmagic.capture.ranks.place import span_words

# "[rank0]:[W1123 02:00:00.123456789 reducer.cpp:1234] Warning: words (function …)": c10's logging
_WARNING = re.compile(r"^(?:\[rank\d+\]:\s*)?\[W[\d .:]*\s(\S+:\d+)\]\s*(.*)$")
_SHOWN = 80  # characters of a warning that is named again
# DDP's C++ code says so of every device it does not know, once a process
_NO_NEWS = ("Time stats are currently only collected for CPU and CUDA",)


class Warned:
    """The lines of a session; end() ends a cell, and after it each warning is a new one.

    say: (rank, stream, line), as a Peer calls it; called for what is to be shown now.
    """

    def __init__(self, say: Callable[[int, str, str], None]) -> None:
        self._say = say
        self._seen: dict[tuple[str, str], list[int]] = {}

    def __call__(self, rank: int, stream: str, line: str) -> None:
        """Show a line, unless another rank gave the same warning; time and process do not make it another one."""
        if any(words in line for words in _NO_NEWS):
            return
        found = _WARNING.match(line)
        if found is None:
            self._say(rank, stream, line)
            return
        ranks = self._seen.setdefault((found[1], found[2]), [])
        if not ranks:
            self._say(rank, stream, line)
        if rank not in ranks:
            ranks.append(rank)

    def end(self, tell: Callable[[str], None]) -> None:
        """Say who else gave the warnings that were shown."""
        for (where, words), (first, *others) in self._seen.items():
            if others:
                shown = words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"
                tell(f"[{span_words(sorted(others))}] the same as rank {first}, {where}: {shown}")
        self._seen.clear()
