"""Remarks about a record: what was repaired, what is missing, as data and as a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Remark:
    """One remark about a record.

    kind: its stable name.  words: the sentence.  numbers: those of the sentence, by names that say the unit.
    """

    kind: str
    words: str
    numbers: Mapping[str, int] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"kind": self.kind, "numbers": dict(self.numbers), "words": self.words}


def remark_of(saved: Mapping[str, Any]) -> Remark:
    """The remark that to_dict() gave. Raises KeyError, TypeError or ValueError for anything else."""
    return Remark(str(saved["kind"]), str(saved["words"]), {str(k): int(v) for k, v in dict(saved["numbers"]).items()})
