"""%%bench: when did Python come back?  %%syncbench: when was the device done, and what was the bottleneck?"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any

from perfmagic.analysis.bench.sweep import ended_at, sweep_result
from perfmagic.api.benchmarks import BenchOptions, finish_bench, new_engine
from perfmagic.api.comparisons import compared
from perfmagic.api.options import Option
from perfmagic.api.same_work import limit_of, recordings, same_work_of_cell
from perfmagic.api.show import keep_quiet, show
from perfmagic.base.clock import reader
from perfmagic.base.errors import CaptureError, OptionError
from perfmagic.capture.bench.engine import Engine
from perfmagic.capture.bench.interleave import Interleaved, refuse_runs
from perfmagic.capture.bench.judging import Judge
from perfmagic.capture.bench.limit import Limit
from perfmagic.capture.bench.quiet import Quiet
from perfmagic.capture.bench.sampling import BodyLoop, Repetition, Schedule, drive
from perfmagic.capture.bench.spec import DECIDE_S, BenchSpec, Work, asks_for_sampling
from perfmagic.capture.bench.watchers import names_in, read_by_code
from perfmagic.capture.cell import assigned_in_all, below_head, variant_names
from perfmagic.magics.running.options import QUIET, Parser, Sweep, given_checks, parse_sweep, sampling
from perfmagic.magics.running.progress import Progress
from perfmagic.magics.running.recording import bind, compiled_setup
from perfmagic.results import BenchResult, CompareResult, SweepResult
from perfmagic.trace.model import Cell
from perfmagic.trace.samples import Condition

_SUMMARY = {
    "bench": "When Python came back from this cell, and when the device was done.",
    "syncbench": "When the device was done with this cell, and whether the host or the device was the bottleneck.",
}
_VARIANTS = Option("compare the variants that lines such as `# --- B` separate", default=False, name="vs")
_SWEEP = Option("measure with NAME set to each of the values", name="sweep", metavar="NAME=A,B,C", type=str)


class BenchMagic:
    """Runs the cell many times, for real."""

    repeated = True

    def __init__(self, name: str) -> None:
        self._name = name

    def parser(self) -> Parser:
        parser = Parser(f"%%{self._name}", _SUMMARY[self._name], form="[set-up code]")
        parser.add_name()
        parser.add_sampling()
        parser.add_keywords(BenchOptions, "runs")
        parser.add(_VARIANTS)
        parser.add(_SWEEP, type=parse_sweep)
        parser.add_keywords(BenchOptions, "flops", "bytes", "setup_each", "name", flops=str, bytes=str)
        parser.add_checks()
        parser.add(QUIET)
        return parser

    def begin(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str) -> BenchRun:
        return BenchRun(shell, cell, options, rest, name=self._name)


MAGICS = {name: BenchMagic(name) for name in _SUMMARY}


class BenchRun:
    """Runs the measured cell: decides which variant runs next, and with which value of a sweep."""

    def __init__(self, shell: Any, cell: Cell, options: argparse.Namespace, rest: str, *, name: str) -> None:
        self._shell, self._cell, self._options, self._pid = shell, cell, options, os.getpid()
        self._magic, self._synced = name, name == "syncbench"
        self._setup_code, self._setup = rest, compiled_setup(shell, rest)
        if options.setup_each and self._setup is None:
            message = "--setup-each needs set-up code after the options"
            raise OptionError(message, hint="%%bench --setup-each x = x0.clone()")
        self._names = variant_names(cell.source, options.name) if options.vs else [options.name]
        self._progress = Progress(shell, f"%%{name}", quiet=options.quiet)
        self._sweep: Sweep | None = options.sweep
        self._values = self._sweep.values(shell.user_ns) if self._sweep is not None else [None]
        refuse_runs([self._spec(name) for name in self._names])  # and options that no benchmark can use
        self._measured: list[Interleaved] = []  # of each value of the sweep, the variants that are measured together
        self._quiet = Quiet()
        self._loop = BodyLoop(self._after_first_calls(), reader())
        self._limit = Limit(limit_of(given_checks(options, shell.user_ns)), self._loop.running_s)
        self.more, self.repetitions = self._loop.more, self._loop.repetitions
        self._begun = 0
        self._result: BenchResult | CompareResult | SweepResult | None = None
        self.option_error: OptionError | None = None

    def start(self) -> None:
        __tracebackhide__ = True
        self._begin_value(0)
        self._quiet.begin()
        self._limit.start()

    def first(self) -> Iterator[Repetition]:
        """The first call of the next variant; what it prints is seen."""
        which, self._begun = self._begun, self._begun + 1
        if self._begun > len(self._names):
            raise self._miscounted()
        self._loop.begin(which)
        return drive(self._measured[0].first_call(which), reader())

    def _miscounted(self) -> CaptureError:
        return CaptureError(
            f"--vs: the cell has {self._begun} variants or more, its text looked like {len(self._names)}",
            hint="separate variants by lines such as  # --- B  at the left edge, outside of strings and brackets",
        )

    def finish(self, error: BaseException | None) -> None:
        __tracebackhide__ = True
        if os.getpid() != self._pid:
            return
        try:
            self._finish(error)
        except KeyboardInterrupt:  # while the result was made: what was measured is shown all the same
            self._finish(error)
            raise

    def release(self) -> None:
        if os.getpid() != self._pid:
            return
        self._limit.close()
        try:
            self._loop.close()
            for together in self._measured:
                together.close()
        finally:
            self._quiet.end()

    def _finish(self, error: BaseException | None) -> None:
        self.release()
        engines = [engine for together in self._measured for engine in together.engines]
        if self.option_error is not None and not any(engine.has_samples for engine in engines):
            return
        if error is not None:
            for together in self._measured:
                together.failed(error, self._loop.which, self._limit)
        if self._result is None:
            self._result = self._make_result()
        bind(self._shell, self._options.variable, self._result)
        if self._options.quiet:
            keep_quiet(self._result)
        else:
            show(self._result, replaces=self._progress.display_id)

    def _after_first_calls(self) -> Schedule:
        """What is left to run after the first calls with the first value."""
        if self._begun != len(self._names):
            raise self._miscounted()
        yield from self._measured[0].after_first_calls()
        for number in range(1, len(self._values)):
            self._begin_value(number)
            together = self._measured[-1]
            self._quiet.mute()
            for which in range(len(self._names)):
                yield which, together.first_call(which)
            yield from together.after_first_calls()

    def _begin_value(self, number: int) -> None:
        """Set the sweep's variable, run the set-up code, make the engines."""
        __tracebackhide__ = True
        if self._sweep is not None:
            self._shell.user_ns[self._sweep.name] = self._values[number]
            self._progress.stage = f"{self._sweep.name} = {self._values[number]}"
        if self._setup is not None and not self._options.setup_each:
            self._run_setup()
        engines = [self._engine(name) for name in self._names]
        if self._sweep is not None and self._unnamed(self._sweep.name):
            for engine in engines:
                engine.note("not swept", name=self._sweep.name)
        asked = asks_for_sampling(sampling(self._options))
        decide_s = 0.0 if asked else DECIDE_S
        judge = self._judge(engines) if len(engines) > 1 else None
        self._measured.append(Interleaved(engines, decide_s=decide_s, quiet=self._quiet, judge=judge))

    def _judge(self, engines: list[Engine]) -> Judge | None:
        """Finds out whether the variants do the same; the variables that all assign are their results."""
        names, variables = assigned_in_all(self._cell.source), self._shell.user_ns
        specs = [engine.phases.plan.spec for engine in engines]
        checks = given_checks(self._options, variables)
        same_work = same_work_of_cell(specs, checks, lambda: {name: variables.get(name) for name in names})
        if same_work is None:
            for engine in engines[1:]:
                engine.phases.outcome.checks = (Condition("unchecked"),)
            return None
        return Judge(same_work, engines, recordings())

    def _unnamed(self, variable: str) -> bool:
        """Whether neither the cell nor its set-up code names a variable; a function that they call may."""
        names = [names_in(source) for source in (below_head(self._cell.source), self._setup_code)]
        return all(read is not None and variable not in read for read in names)

    def _engine(self, name: str) -> Engine:
        return new_engine(self._spec(name), synced=self._synced, on_sample=self._progress)

    def _spec(self, name: str) -> BenchSpec:
        options = self._options
        given = {
            "setup_each": self._run_setup if options.setup_each else None,
            "inputs": self._inputs,
            "runs": options.runs,
            "work": self._work if options.flops or options.bytes else None,
            "name": name,
            "code": self._cell.source,
            "magic": f"%%{self._magic}",
            "setup": self._setup_code,
        }
        return BenchSpec(**sampling(options), **{k: v for k, v in given.items() if v is not None})

    def _inputs(self) -> dict[str, object]:
        return read_by_code(below_head(self._cell.source), self._shell.user_ns)

    def _work(self) -> Work:
        """The values of --flops and --bytes, once the cell has run and defined its names."""
        return Work(self._number("--flops", self._options.flops), self._number("--bytes", self._options.bytes))

    def _number(self, option: str, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            return self._checked_number(option, text)
        except OptionError as error:
            self.option_error = error  # raised inside the user's cell, but no error of its code
            raise

    def _checked_number(self, option: str, text: str) -> float:
        if "^" in text:
            raise OptionError(f"{option} {text}: ^ is exclusive or in Python", hint=text.replace("^", "**"))
        try:
            number = float(eval(text, self._shell.user_ns))  # the user's own expression, as typed
        except Exception as error:  # noqa: BLE001 - whatever the user's expression raises
            raise OptionError(f"{option} {text}: {type(error).__name__}: {error}") from None
        if not 0 < number < math.inf:
            raise OptionError(f"{option} {text} is {number:g}; a number above 0 is needed")
        return number

    def _run_setup(self) -> None:
        __tracebackhide__ = True
        exec(self._setup, self._shell.user_ns)  # the user's own code, as typed

    def _make_result(self) -> BenchResult | CompareResult | SweepResult:
        results = [[finish_bench(engine) for engine in together.engines] for together in self._measured]
        if self._sweep is not None:
            measured = [(value, row) for value, row in zip(self._values, results, strict=False) if _has_samples(row)]
            if measured:
                values, rows = zip(*measured, strict=True)
                failed = next((result.failed for result in results[-1] if result.failed), "")
                failed = ended_at(failed, self._sweep.name, self._values[len(results) - 1])
                return SweepResult.of(sweep_result(self._sweep.name, values, rows, failed=failed))
        last = results[-1]
        return compared(last) if len(last) > 1 and _has_samples(last) else last[0]


def _has_samples(results: Iterable[BenchResult]) -> bool:
    return all(result.returns is not None for result in results)
