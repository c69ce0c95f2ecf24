"""One thing worth knowing about several ranks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class RankFinding:
    """One thing worth knowing about several ranks.

    rule: the stable name of what found it.  cost_ns: time of a rank that could be won, None where that is not the
    point.  cause, detail: the sentence, in two parts.  ranks: that the sentence is about.  advice: what to do, in a
    sentence of its own.
    """

    shown: ClassVar[tuple[str, ...]] = ("cost_ns", "sentence")  # in a table of findings

    rule: str
    cost_ns: int | None
    cause: str
    detail: str
    ranks: tuple[int, ...]
    advice: str = ""

    @property
    def sentence(self) -> str:
        return self.cause + self.detail + (f". {self.advice}" if self.advice else "")

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON, the whole sentence included."""
        return {**asdict(self), "ranks": list(self.ranks), "sentence": self.sentence}
