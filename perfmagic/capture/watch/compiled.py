"""Code that torch.compile has put in place of the user's: whose it is, and what a reader is told of it.

Read in torch 2.13, torch/_dynamo: the code that runs instead of a function has its name, its file and its first line,
and calls `__compiled_fn_…`; what follows a graph break is a function torch_dynamo_resume_in_NAME_at_LINE. Where other
versions name them otherwise, the function is one whose text is not that of its file.
"""

from __future__ import annotations

import re
from types import CodeType

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_(\d+)$")
_COMPILED, _BREAK = "__compiled_fn", "__resume_at"


def is_compiled(code: CodeType) -> bool:
    """Whether torch.compile has made it."""
    return (
        any(name.startswith((_COMPILED, _BREAK)) for name in code.co_names) or _RESUMED.match(code.co_name) is not None
    )


def name_of(code: CodeType) -> str:
    """The name of the user's function that it stands for."""
    known = _RESUMED.match(code.co_name)
    return known[1] if known else code.co_name


def called(code: CodeType) -> str:
    """What a reader calls it: "model", or of what follows a graph break "model, from line 10 on"."""
    known = _RESUMED.match(code.co_name)
    return f"{known[1]}, from line {known[2]} on" if known else getattr(code, "co_qualname", code.co_name)


def note(code: CodeType, first: int, last: int) -> str:
    """Where its time is: compiled lines are not told apart.  first, last: of the function."""
    resumed = _RESUMED.match(code.co_name)
    if any(name.startswith(_BREAK) for name in code.co_names):
        return f"compiled in parts: lines up to a graph break are one region, charged to line {code.co_firstlineno}"
    begin = int(resumed[2]) if resumed else first + 1
    return f"compiled: lines {begin}–{last} are one region, charged to line {code.co_firstlineno}"
