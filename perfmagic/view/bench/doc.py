"""A benchmark as a document: the headline, who waited for whom, and the numbers in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfmagic.analysis.bench.quantity import UNCLEAR, unconfirmed
from perfmagic.analysis.bench.queue_model import QueueModel
from perfmagic.analysis.bench.result import BenchSummary, Quantity
from perfmagic.analysis.findings.answer import Answer, Times, times_of
from perfmagic.analysis.verdict import DEVICE_BOUND, HOST_BOUND
from perfmagic.base import units
from perfmagic.base.kinds import VIRTUAL_CLOCK
from perfmagic.base.language import phrase, say, translated
from perfmagic.base.options import called

NO_INTERVAL = "needs 6 samples"  # the fewest that have one at 95 % (perfmagic.base.numerics.stats)
NO_SPREAD = "same each run"  # on a virtual clock
# the baseline in the grey of what is there already
VARIANT_TOKENS = ("launch", "comp", "comm", "htod", "memory", "dtod")
NOTICEABLE_FRAC = 0.02  # of done: a shorter wait is not worth hatching or saying


@dataclass(frozen=True)
class Row:
    """One quantity in words and in samples. Times in seconds; token: its colour.

    median, interval, least, spread: with as many decimals as the interval's half-width needs.  headline: the median,
    and the mean where it is far from it.
    """

    name: str
    token: str
    quantity: Quantity
    median: str
    headline: str
    interval: str
    least: str
    spread: str
    outliers: str


@dataclass(frozen=True)
class Wait:
    """Time in which one of the two did not work, as a part of its bar.

    seconds: how long.  words: what it waited for, as far as the headline's facts say.  lost: whether it is hatched as
    the time that the bottleneck cost.
    """

    seconds: float
    words: str
    lost: bool


@dataclass(frozen=True)
class Term:
    """A term of the formula, and from when to when it lasts, in seconds."""

    words: str
    start_s: float
    end_s: float


def terms(model: QueueModel) -> list[Term]:
    """What the predicted time is made of, one after the other."""
    rest = model.n - 1
    lengths = [(f"t1 = {units.duration_s(model.t1_s)}", model.t1_s)]
    if rest:
        words = f"{units.count(rest)} · max(t1, t2) = {units.count(rest)} · {units.duration_s(model.pace_s)}"
        lengths.append((words, rest * model.pace_s))
    lengths += [(f"t2 = {units.duration_s(model.t2_s)}", model.t2_s)]
    lengths += [(f"t3 = {units.duration_s(model.t3_s)}", model.t3_s)]
    parts, at_s = [], 0.0
    for words, length_s in lengths:
        parts.append(Term(words, at_s, at_s + length_s))
        at_s += length_s
    return parts


@dataclass(frozen=True)
class BenchDoc:
    """What a benchmark's picture shows.

    lead, rest: the headline, its first part in bold.  recorded: what one recorded run says.  answer: what it asks for.
    returns_s, done_s, span_s: medians, None where not measured;
    span_s also where it leaves out streams.
    python_wait: after the cell's last line until the device was done, None where too short to notice.  device_idle: the
    part of done beyond the device span, likewise.
    queue_model: where it was asked for (%%syncbench) and fits the cell.
    fine_print: how it was measured, the most important first, the device last.  details: the rest, shown on demand.
    """

    lead: str
    rest: str
    recorded: str
    answer: Answer | None
    rows: tuple[Row, ...]
    returns_s: float | None
    done_s: float | None
    span_s: float | None
    python_wait: Wait | None
    device_idle: Wait | None
    queue_model: QueueModel | None
    device_label: str
    simulated: bool
    fine_print: tuple[str, ...]
    details: tuple[str, ...]
    warnings: tuple[str, ...]
    failure: str

    @property
    def times(self) -> Times:
        """What the answer makes of the recorded run, in words."""
        if self.answer is None:
            return Times("", "", "")
        before, after, sure = times_of(self.answer)
        return Times(before, after, say(", ").join(filter(None, (sure, say("in one recorded run")))))

    @property
    def sentence(self) -> str:
        """The headline as one text."""
        return say("{a} {b}", a=self.lead, b=self.rest).strip()

    def row(self, name: str) -> Row | None:
        """The row of a quantity, None where it was not measured."""
        return next((row for row in self.rows if row.name == name), None)


def bench_doc(result: BenchSummary) -> BenchDoc:
    """What the picture, the table and the text of a benchmark say."""
    measured = (
        ("returns", "launch", result.returns),
        ("device span", "matrix", result.span),
        ("done", "comp", result.done),
        ("queued", "dtod", result.queued),
    )
    kinds = {warning.kind for warning in result.warnings}
    unknown = NO_SPREAD if VIRTUAL_CLOCK in kinds and "measured host" not in kinds else NO_INTERVAL
    rows = tuple(_row(name, token, quantity, unknown) for name, token, quantity in measured if quantity is not None)
    lead, rest = _headline(result, rows)
    fine_print = (_rates(result), *translated(result.method).split(" · "), translated(result.device_label))
    return BenchDoc(
        lead=lead,
        rest=rest,
        recorded=_recorded(result),
        answer=translated(result.answer),
        rows=rows,
        returns_s=result.returns_s,
        done_s=result.done_s,
        span_s=result.whole_span.median_s if result.whole_span else None,
        python_wait=_python_wait(result),
        device_idle=_device_idle(result),
        queue_model=result.queue_model if result.queue_model and not result.queue_model.caveat else None,
        device_label=translated(result.device_label),
        simulated=result.simulated,
        fine_print=tuple(part for part in fine_print if part),
        details=translated(result.details),
        warnings=tuple(translated(warning.sentence) for warning in result.warnings),
        failure=say("ended early: {failed}", failed=result.failed) if result.failed else "",
    )


def _python_wait(result: BenchSummary) -> Wait | None:
    """What Python did after the cell's last line.

    Below "host-bound" no text says that Python waited for the device: there it waits only for the last ops. Where the
    device decides, and waiting loses no time.
    """
    waits = result.waits
    if waits is None or not _noticeable(waits.python_s, waits.done_s):
        return None
    if not result.synced:
        return Wait(waits.python_s, say("Python goes on"), lost=False)
    if result.supported_verdict == HOST_BOUND:
        return Wait(waits.python_s, say("the last ops execute"), lost=False)
    words = say("waits {time} for the device", time=units.duration_s(waits.python_s))
    return Wait(waits.python_s, words, lost=result.supported_verdict != DEVICE_BOUND)


def _device_idle(result: BenchSummary) -> Wait | None:
    """How long the device was idle; only below "host-bound" is it said to have waited for Python."""
    waits = result.waits
    if waits is None or waits.device_s is None or not _noticeable(waits.device_s, waits.done_s):
        return None
    idle = units.duration_s(waits.device_s)
    if result.supported_verdict == HOST_BOUND:
        return Wait(waits.device_s, say("idle {time}: waits for Python", time=idle), lost=True)
    return Wait(waits.device_s, say("idle {time}", time=idle), lost=result.supported_verdict != DEVICE_BOUND)


def _row(name: str, token: str, quantity: Quantity, unknown: str) -> Row:
    """unknown: what stands for an interval that is not known."""
    step_ns = _step_ns(quantity)
    unit_ns = quantity.median_s * 1e9

    def bare(seconds: float, *, unit: bool = False) -> str:
        ns = round(seconds * 1e9 / step_ns) * step_ns if units.are_rough() else seconds * 1e9
        return units.duration_like(ns, step_ns, unit_of_ns=unit_ns, unit=unit)

    known = quantity.low_s is not None and quantity.high_s is not None
    median = bare(quantity.median_s, unit=True)
    mean = say(" (mean {time})", time=units.duration_s(quantity.mean_s)) if quantity.mean_is_far else ""
    return Row(
        name=name,
        token=token,
        quantity=quantity,
        median=median,
        headline=median + mean,
        interval=f"{bare(quantity.low_s or 0.0)} – {bare(quantity.high_s or 0.0)}" if known else say(unknown),
        least=bare(quantity.min_s),
        spread=bare(quantity.iqr_s),
        outliers=_outliers(quantity),
    )


def _outliers(quantity: Quantity) -> str:
    if not quantity.outliers:
        return "–"
    return say("{outliers} of {total}", outliers=units.count(quantity.outliers), total=units.count(quantity.n))


def _step_ns(quantity: Quantity) -> float:
    """The first digit of the interval's half-width; the third of the median where there is no interval."""
    three_digits = 10.0 ** (math.floor(math.log10(max(quantity.median_s * 1e9, 1.0))) - 2)
    if units.are_rough():
        return three_digits * 10
    if quantity.low_s is None or quantity.high_s is None or quantity.high_s <= quantity.low_s:
        return three_digits
    half_ns = (quantity.high_s - quantity.low_s) / 2 * 1e9
    return max(three_digits / 10, 10.0 ** math.floor(math.log10(max(half_ns, 1e-3))))


def _headline(result: BenchSummary, rows: Sequence[Row]) -> tuple[str, str]:
    words = {row.name: row.headline for row in rows}
    if "returns" not in words:
        return say("No sample was completed."), ""
    if result.verdict is not None:
        return _verdict_headline(result, words)
    returns = words["returns"]
    if "done" not in words:
        return say("Python is back after {returns}.", returns=returns), say("No device was in use.")
    advised = say("{magic} would say who was the bottleneck", magic=called(result.magic, "syncbench"))
    advice = "" if result.synced else advised
    if result.waits is not None and _noticeable(result.waits.python_s, result.waits.done_s):
        done = words["done"]
        return say("Python is back after {returns}; the device works until {done}.", returns=returns, done=done), advice
    return say("Python is back after {returns}; the device is done by then.", returns=returns), advice


def _verdict_headline(result: BenchSummary, words: dict[str, str]) -> tuple[str, str]:
    """The verdict's kind in bold, the times of the samples after it; unclear where the samples contradict it."""
    assert result.verdict is not None
    returns = words["returns"]
    times = phrase("Python is back after {returns}", returns=returns)
    if "done" in words:
        times = phrase("Python is back after {returns}, the device after {done}", returns=returns, done=words["done"])
    if not result.supported_verdict:
        return _kind(UNCLEAR), say("{a}; {b}", a=times, b=unconfirmed(result.verdict.kind))
    return _kind(result.verdict.kind), translated(times)


def _recorded(result: BenchSummary) -> str:
    """The sentence of the verdict, apart from the samples, which it was not taken from."""
    if result.verdict is None or not result.supported_verdict or not result.verdict.detail:
        return ""
    return say("One recorded run: {rest}", rest=result.verdict.detail)


def _kind(kind: str) -> str:
    return say("{kind}:", kind=phrase(kind))


def _rates(result: BenchSummary) -> str:
    """What a call achieved, where the user said what a call does."""
    known = ((result.flop_per_s, "FLOP/s"), (result.moved_bytes_per_s, "B/s"))
    return " · ".join(units.rate(value, unit) for value, unit in known if value is not None)


def _noticeable(wait_s: float, of_s: float) -> bool:
    return wait_s > NOTICEABLE_FRAC * of_s


def variant_token(variant: int) -> str:
    """The colour of a variant: the first grey, like what is compared against."""
    n = len(VARIANT_TOKENS)
    return VARIANT_TOKENS[variant if variant < n else 1 + (variant - 1) % (n - 1)]
