"""%compare a b: is b really faster than a? For two timelines: what changed, and where?"""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

from perfmagic.analysis.bench.compare import QUANTITIES
from perfmagic.api.comparisons import NAMES, AnyComparison, compare_given, is_trace_path
from perfmagic.api.options import Option
from perfmagic.api.saved import load
from perfmagic.api.show import last, show
from perfmagic.base.errors import OptionError
from perfmagic.base.files import file_path
from perfmagic.magics.running.options import Parser, given_checks, sampling
from perfmagic.magics.running.recording import bind
from perfmagic.results import BenchResult, RanksResult, RanksSweep, SweepResult, TimelineResult, WhatIfResult
from perfmagic.results.what_if import Predicted, PredictionCheck

RECORDED = (TimelineResult, RanksResult, RanksSweep)
_QUANTITY = Option(
    "what to compare: *done*, *span*, *returns* or *queued*, for functions only with `-n`",
    unset="*done*, else *returns*",
    choices=QUANTITIES,
    metavar="Q",
    name="quantity",
    type=str,
)


def parser() -> Parser:
    """The options of %compare."""
    made = Parser(
        "%compare",
        "Is it faster than the first? Functions are measured interleaved; results and sweeps of %%bench are compared "
        "as they are. For two timelines, results of %%ranks, trace files or folders of them: what changed, and where. "
        "For a prediction of t.what_if() and the timeline of the changed cell: whether it held.",
        form="NAME|FILE NAME|FILE…",
    )
    made.add_name("the comparison")
    made.add(_QUANTITY)
    made.add_argument("names", nargs="*", metavar="NAME|FILE", help="the baseline first")
    made.add_sampling()
    made.add_checks()
    return made


def run(shell: Any, line: str) -> AnyComparison | PredictionCheck | None:
    """Compare the functions, results or files that the line names, and return the comparison."""
    options = parser().split_words(line)
    if options.help:
        print(parser().format_help())
        return None
    names = options.names
    if len(names) < 2:
        raise OptionError(f"%compare: {len(names)} given, at least two are needed", hint="%compare before after")
    given = [_named(shell, name) for name in names]
    if isinstance(given[0], Predicted):
        # compare a prediction with the run of the changed cell
        if len(given) != 2:
            raise OptionError(f"%compare: a prediction is checked against one timeline, not {len(given) - 1}")
        check: PredictionCheck = given[0].check(given[1])
        show(check)
        bind(shell, options.variable, check)
        return check
    timelines = any(isinstance(value, (*RECORDED, Path)) for value in given)
    functions = not timelines and any(not isinstance(value, (BenchResult, SweepResult)) for value in given)
    labels = _labels(names, given) if timelines else names if functions else ()
    settings = sampling(options) | ({"code": f"%compare {line.strip()}"} if functions else {})
    before = last()
    try:
        checks = given_checks(options, shell.user_ns)
        comparison = compare_given(given, labels, options.quantity, settings, magic="%compare", checks=checks)
    except BaseException:
        partial = last()
        if partial is not None and partial is not before:
            show(partial)
            bind(shell, options.variable, partial)
        raise
    show(comparison)
    bind(shell, options.variable, comparison)
    return comparison


def _labels(names: list[str], given: list[Any]) -> list[str]:
    """What to call timelines: a variable's name; a letter for a file, whose name is long."""
    pairs = enumerate(zip(names, given, strict=True))
    return [NAMES[i % 2] if isinstance(value, Path) else name for i, (name, value) in pairs]


def _named(shell: Any, name: str) -> Any:
    """A result or function of the notebook, a result saved as JSON, or the path of a trace or folder."""
    if name in shell.user_ns or hasattr(builtins, name):
        value = shell.user_ns[name] if name in shell.user_ns else getattr(builtins, name)
        if isinstance(value, (BenchResult, SweepResult)):
            return value.named(name)
        if callable(value) or isinstance(value, (*RECORDED, WhatIfResult)):
            return value
        message = f"%compare: {name} is of type {type(value).__name__}"
        raise OptionError(message, hint="name results of %%bench, %%timeline or %%ranks with -o NAME, or functions")
    path = file_path(name)
    if is_trace_path(path):
        return path
    if path.is_file():
        return load(name)
    raise OptionError(f"%compare: there is no variable and no file {name}", hint="%%bench -o NAME binds a result")
