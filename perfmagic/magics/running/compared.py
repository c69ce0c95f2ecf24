"""What the words of %compare stand for: results, functions, files; and what to call them."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

from perfmagic.errors import OptionError
from perfmagic.files import file_path
from perfmagic.results import BenchResult, RanksResult, RanksSweep, SweepResult, TimelineResult, WhatIfResult
from perfmagic.saved import load
from perfmagic.trace_comparisons import NAMES, is_trace_path

RECORDED = (TimelineResult, RanksResult, RanksSweep)


def names_of(words: list[str], given: list[Any]) -> list[str]:
    """What to call timelines: a variable's name; of a file, which has a long one, a letter."""
    both = enumerate(zip(words, given, strict=True))
    return [NAMES[i % 2] if isinstance(one, Path) else word for i, (word, one) in both]


def named(shell: Any, word: str) -> Any:
    """A result or function of the notebook, a result saved as JSON, or the path of a trace or folder."""
    if word in shell.user_ns or hasattr(builtins, word):
        found = shell.user_ns[word] if word in shell.user_ns else getattr(builtins, word)
        if isinstance(found, (BenchResult, SweepResult)):
            return found.named(word)
        if callable(found) or isinstance(found, (*RECORDED, WhatIfResult)):
            return found
        raise OptionError(
            f"%compare: {word} is of type {type(found).__name__}",
            hint="name results of %%bench, %%timeline or %%ranks with -o NAME, or functions",
        )
    path = file_path(word)
    if is_trace_path(path):
        return path
    if path.is_file():
        return load(word)
    raise OptionError(f"%compare: there is no variable and no file {word}", hint="%%bench -o NAME binds a result")
