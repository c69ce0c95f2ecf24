"""One thing worth knowing about several ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from perfmagic.base.language import chained, phrase
from perfmagic.trace.columns import NO_LINE
from perfmagic.trace.json_form import JsonForm


@dataclass(frozen=True)
class RankFinding(JsonForm):
    """One thing that several ranks say together.

    rule: the stable name of what found it.
    cost_ns: time of a rank that could be won; None where cost is not the point.
    cause: the first part of the sentence.
    detail: the second part of the sentence.
    ranks: the ranks that the sentence is about.
    advice: what to do.
    headline: the fact in a few words; empty where it is no answer.
    action: what to do in a few words; empty where the records do not say. Answers with one action are one.
    line: of the cell, which explains it; 0 for none.
    window_ns: what to show of it, on the common axis; None for the ranks that it names.
    sentence: the whole sentence.
    """

    shown: ClassVar[tuple[str, ...]] = ("cost_ns", "sentence")  # in a table of findings
    left_out = ("window_ns",)
    computed = ("sentence",)

    rule: str
    cost_ns: int | None
    cause: str
    detail: str
    ranks: tuple[int, ...]
    advice: str = ""
    headline: str = ""
    action: str = ""
    line: int = NO_LINE
    window_ns: tuple[int, int] | None = field(default=None, compare=False)

    @property
    def sentence(self) -> str:
        advice = phrase(". {sentence}", sentence=self.advice) if self.advice else ""
        return chained("{a}{b}", (self.cause, self.detail, advice))
