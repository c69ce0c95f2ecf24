"""Patterns for nbval: every measured number perfmagic prints, so that notebooks can be compared, not only run.

They match what perfmagic.base.units writes, and nothing else: a number with its unit, a percentage, a count of samples.
"""

from __future__ import annotations

import re

from perfmagic.analysis.bench.quantity import UNCLEAR
from perfmagic.analysis.verdict import KINDS

_SPACE = "[\\u00a0 ]"

_QUANTITY = r"(?:done|returns|span|queued)\b"

_RULES = (
    # measured results first: findings, warnings and the verdict depend on what else the host does, so a
    # notebook compares the words that do not: the device, and what its own cells ask of the result
    ("html", r"<div (?:dir=|class=|style=)[\s\S]*</div>", "HTML"),
    ("sweep", r"^\S[\s\S]*\n\d[\d ,to]* samples each · [\s\S]*", "SWEEP"),
    ("ranks", r"^\d[^\n]*\n(?: +[^\n]*\n)*? +(\d+ ranks?) (?:of \d+ )?· [\s\S]*", r"RANKS \1"),
    ("scaling", r"^(Weak|Strong) scaling from (\d+) to (\d+) ranks?\b[\s\S]*", r"SCALING \1 \2 \3"),
    ("graph", r"^[^\n\d]+ decides?: [\s\S]*?\s·\s+(\d[\d,]*)\s+operators?\s+·[\s\S]*", r"GRAPH of \1 operators"),
    ("predicted", r"^([^:]*): (?:about|at\s+best)\s[\s\S]*\sinstead\s+of\s[\s\S]*", r"PREDICTED \1"),
    (
        "timeline",
        r"^\d[\s\S]*?\n +((?:\d+ )?simulated devices?|(?:\d+ devices )?predicted for|no device)\b[\s\S]*",
        r"TIMELINE \1",
    ),
    ("bench", r"^Python is back after [\s\S]*", "BENCH"),
    ("syncbench", rf"^(?:{'|'.join((*KINDS, UNCLEAR))})\b[\s\S]*", "SYNCBENCH"),
    ("faster", rf"^(\S.*?) is \d[\d.,]* times as fast as (.*?): {_QUANTITY} [\s\S]*", r"COMPARED \1 faster than \2"),
    ("slower", rf"^(\S.*?) is slower than (.*?): {_QUANTITY} [\s\S]*", r"COMPARED \1 slower than \2"),
    ("same", rf"^(\S.*?) is as fast as (.*?): {_QUANTITY} [\s\S]*", r"COMPARED \1 the same as \2"),
    (
        "unclear",
        rf"^unclear whether (.*?) is faster than (.*?): {_QUANTITY} [\s\S]*",
        r"COMPARED \1 unclear against \2",
    ),
    ("shorter", rf"^(?:one step of )?(\S.*?) is \d[\d.,]*{_SPACE}\S+ (shorter|longer) than [\s\S]*", r"COMPARED \1 \2"),
    ("not_compared", r"^No verdict: [\s\S]*", "COMPARED without a verdict"),
    ("duration", rf"-?\d[\d,]*(?:\.\d+)?{_SPACE}(?:ns|µs|ms|s)\b", "DURATION"),
    ("bandwidth", rf"\d[\d,]*(?:\.\d+)?{_SPACE}[TGMk]?B/s", "BANDWIDTH"),
    ("size", rf"\d[\d,]*(?:\.\d+)?{_SPACE}[TGMk]?B\b", "SIZE"),
    ("percent", rf"[<>]?\d+(?:\.\d+)?{_SPACE}%", "PERCENT"),
)


# What a virtual clock alone gave: all its figures are the same on each run. A result beside a measurement is not meant.
_PREDICTED = (
    r"! [Aa]\s+model\s+of\s[^!]*\snothing\s+was\s+measured",
    r"predicted,\s+not\s+recorded:\s+the\s+cell\s+ran\s+once",
    r"\(predicted\)\s+against\s+about\s[^\n]*\(predicted\)",
    r"\A(?:predicted\s+for\s[^\n]*:|\S[^\n]*\sis\s+predicted\s+to\s+be\s+[\d.]+\s×\s+as\s+fast\s)",
    r"samples\s+are\s+equal\s+on\s+a\s+virtual\s+clock",
)


def sanitize_file(*, virtual: bool = False) -> str:
    """The text of an nbval sanitize file (an ini file of regex and replace).

    virtual: for notebooks on a virtual clock, whose numbers are the same on every run: pictures alone are left out. In
    others that holds for texts that a GPU's model alone gave: a rule takes them whole, adds its word, and changes none.
    """
    if virtual:
        return _written(*_RULES[0])
    kept = rf"(\A(?=[\s\S]*(?:{'|'.join(_PREDICTED)}))[\s\S]+)"
    rules = ((name, f"{kept}|{regex}", _with_kept(word)) for name, regex, word in _RULES[1:])
    return _written(*_RULES[0]) + "".join(map(_written, *zip(*rules, strict=True)))


def _with_kept(word: str) -> str:
    """A replacement whose groups stand behind that of a text that is kept."""
    return r"\1" + re.sub(r"\\(\d)", lambda group: rf"\{int(group[1]) + 1}", word)


def _written(name: str, regex: str, word: str) -> str:
    return f"[{name}]\nregex: {regex}\nreplace: {word}\n\n"
