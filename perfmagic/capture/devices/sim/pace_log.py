"""At which paces ops were launched, where code changes the pace while somebody records."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from perfmagic.capture.devices.sim.clock import now_ns

_MOST = 256  # changes that are kept: a recording with more says what it began with and ended with


class PaceLog:
    """When the pace was changed (unix ns), and what it was before, in words."""

    def __init__(self) -> None:
        self._changes: deque[tuple[int, str]] = deque(maxlen=_MOST)

    def changed(self, before: str) -> None:
        """The pace is another one from now on."""
        self._changes.append((now_ns(), before))

    def used(self, launched_ns: npt.NDArray[np.int64], now: str) -> list[str]:
        """The paces in effect when something was launched, one after the other; the present one where nothing was.

        launched_ns: rising or not.  now: the present pace, in words.
        """
        changes = list(self._changes)
        words = [before for _, before in changes] + [now]
        at = np.searchsorted(np.array([ns for ns, _ in changes], np.int64), launched_ns, side="right")
        found = [words[i] for i in np.unique(at).tolist()] or [now]
        return [one for i, one in enumerate(found) if not i or one != found[i - 1]]


def in_turn(paces: Sequence[str]) -> str:
    """Paces one after the other: "paced: matmul ≥ 3 ms; then matmul ≥ 1 ms"; of more than two the first and last."""
    named = [one or "unpaced" for one in paces]
    if len(named) == 1:
        return paces[0]
    between = f", after {len(named) - 2} others" if len(named) > 2 else ""
    return f"{named[0]}; then {named[-1].removeprefix('paced: ')}{between}"
