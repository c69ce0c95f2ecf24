"""%compare a b: is b faster than a, really?"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfmagic.analysis.bench import BenchResult
from perfmagic.analysis.compare import QUANTITIES, CompareResult
from perfmagic.api import compare
from perfmagic.errors import OptionError
from perfmagic.magics.options import Parser, add_name_option
from perfmagic.magics.run import bind
from perfmagic.show import last, show


def parser() -> Parser:
    """The options of %compare."""
    made = Parser(
        "%compare",
        "Benchmarks against the first of them: functions, which are measured in turns, or results of %%bench.",
        form="NAME|FILE.json NAME|FILE.json…",
    )
    add_name_option(made)
    made.add_argument("--quantity", choices=QUANTITIES, help="what to compare (default: done, else returns)")
    made.add_argument("words", nargs="*", metavar="NAME|FILE.json", help="the baseline first")
    made.add_argument("--time", type=float, metavar="S", help="seconds to spend on each function")
    return made


def run(shell: Any, line: str) -> CompareResult | None:
    """Compare what the words name; gives the comparison."""
    options = parser().parse_intermixed_args(shlex.split(line))
    if options.help:
        print(parser().format_help())
        return None
    words = options.words
    if len(words) < 2:
        raise OptionError(f"%compare: {len(words)} named, at least two are needed", hint="%compare before after")
    given = [_named(shell, word) for word in words]
    extra = {} if options.time is None else {"time_s": options.time}
    functions = [one for one in given if not isinstance(one, BenchResult)]
    names = words if functions else ()
    before = last()
    try:
        found = compare(*given, names=names, quantity=options.quantity, **extra)
    except BaseException:
        partial = last()
        if partial is not None and partial is not before:
            show(partial)
            bind(shell, options.name, partial)
        raise
    show(found)
    bind(shell, options.name, found)
    return found


def _named(shell: Any, word: str) -> Any:
    """A result or function of the notebook, or a result saved as JSON."""
    if word in shell.user_ns:
        found = shell.user_ns[word]
        if isinstance(found, BenchResult):
            return _with_name(found, word)
        if callable(found):
            return found
        raise OptionError(
            f"%compare: {word} is a {type(found).__name__}", hint="name results of %%bench -o NAME, or functions"
        )
    path = Path(word).expanduser()
    if path.is_file():
        return _with_name(BenchResult.from_json(path.read_text("utf-8")), path.stem)
    raise OptionError(f"%compare: there is no variable and no file {word}", hint="%%bench -o NAME binds a result")


def _with_name(result: BenchResult, name: str) -> BenchResult:
    return result if result.name else replace(result, name=name)
