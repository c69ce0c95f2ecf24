"""%compare a b: is b faster than a, really? Of two timelines: what changed, and where?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perfmagic.analysis.bench.compare import QUANTITIES
from perfmagic.comparisons import Found, compare_given
from perfmagic.errors import OptionError
from perfmagic.magics.running.compared import RECORDED, named, names_of
from perfmagic.magics.running.options import Parser, add_name_option, add_sampling_options, sampling
from perfmagic.magics.running.run import bind
from perfmagic.results import BenchResult, SweepResult
from perfmagic.results.predicted import Predicted, PredictionCheck
from perfmagic.show import last, show


def parser() -> Parser:
    """The options of %compare."""
    made = Parser(
        "%compare",
        "Is it faster than the first? Functions are measured interleaved; results and sweeps of %%bench as they are. "
        "Of two timelines, results of %%ranks, trace files or folders of them: what changed, and where. "
        "Of a prediction of t.what_if() and the timeline of the changed cell: whether it came true.",
        form="NAME|FILE NAME|FILE…",
    )
    add_name_option(made)
    made.add_argument("--quantity", choices=QUANTITIES, help="what to compare (default: done, else returns)")
    made.add_argument("words", nargs="*", metavar="NAME|FILE", help="the baseline first")
    add_sampling_options(made)
    return made


def run(shell: Any, line: str) -> Found | PredictionCheck | None:
    """Compare the functions, results or files that the line names, and return the comparison."""
    options = parser().split_words(line)
    if options.help:
        print(parser().format_help())
        return None
    words = options.words
    if len(words) < 2:
        raise OptionError(f"%compare: {len(words)} named, at least two are needed", hint="%compare before after")
    given = [named(shell, word) for word in words]
    if isinstance(given[0], Predicted):
        return _checked(shell, options.name, given)
    timelines = any(isinstance(one, (*RECORDED, Path)) for one in given)
    functions = [] if timelines else [one for one in given if not isinstance(one, (BenchResult, SweepResult))]
    names = names_of(words, given) if timelines else words if functions else ()
    extra = {**sampling(options), "code": f"%compare {line.strip()}"} if functions else sampling(options)
    before = last()
    try:
        found = compare_given(given, names, options.quantity, extra, magic="%compare")
    except BaseException:
        partial = last()
        if partial is not None and partial is not before:
            show(partial)
            bind(shell, options.name, partial)
        raise
    show(found)
    bind(shell, options.name, found)
    return found


def _checked(shell: Any, name: str, given: list[Any]) -> PredictionCheck:
    """A prediction beside the changed run."""
    if len(given) != 2:
        raise OptionError(f"%compare: a prediction is checked against one timeline, not {len(given) - 1}")
    found: PredictionCheck = given[0].check(given[1])
    show(found)
    bind(shell, name, found)
    return found
