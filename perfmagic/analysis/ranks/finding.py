"""One thing worth knowing about several ranks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class RankFinding:
    """One thing worth knowing about several ranks.

    rule: the stable name of what found it.  cost_ns: time of a rank that could be won, None where that is not the
    point.  cause, detail: the sentence, in two parts.  ranks: that the sentence is about.  advice: what to do, in a
    sentence of its own.  window_ns: what to show of it, on the common axis; None for the ranks that it names.
    """

    shown: ClassVar[tuple[str, ...]] = ("cost_ns", "sentence")  # in a table of findings

    rule: str
    cost_ns: int | None
    cause: str
    detail: str
    ranks: tuple[int, ...]
    advice: str = ""
    window_ns: tuple[int, int] | None = field(default=None, compare=False)

    @property
    def sentence(self) -> str:
        return self.cause + self.detail + (f". {self.advice}" if self.advice else "")

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON, the whole sentence included."""
        data = asdict(self)
        del data["window_ns"]
        return {**data, "ranks": list(self.ranks), "sentence": self.sentence}
