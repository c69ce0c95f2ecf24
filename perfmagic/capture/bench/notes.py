"""What a benchmark notes about itself: how it was taken, and how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from perfmagic.capture.bench.spec import Work
from perfmagic.samples import Condition, Plain


class Notes:
    """The conditions of one benchmark, each of them once; perfmagic.analysis.bench words them."""

    def __init__(self) -> None:
        self.conditions: list[Condition] = []

    def note(self, kind: str, **values: Plain) -> None:
        """Note a condition."""
        found = Condition(kind, values)
        if found not in self.conditions:
            self.conditions.append(found)


@dataclass
class Outcome:
    """When a benchmark began, with which others, and how it ended.

    round_id: of the benchmarks that it is interleaved with, empty where there are none.  work: of one call.
    failed: the exception or interrupt that ended it early, in words.  complete: whether everything was measured.
    """

    taken_unix_ns: int = 0
    round_id: str = ""
    work: Work = field(default_factory=Work)
    failed: str = ""
    complete: bool = False

    def begin(self, round_id: str) -> None:
        """The benchmark begins now."""
        self.taken_unix_ns, self.round_id = time.time_ns(), round_id

    def fail(self, error: BaseException, within: str = "") -> None:
        """An exception of the body, or an interrupt, ended it.  within: the body's name where there are several."""
        words = str(error).strip().splitlines()
        what = "interrupted" if isinstance(error, KeyboardInterrupt) else ": ".join([type(error).__name__, *words[:1]])
        self.failed = f"{what} (in {within})" if within else what
