"""Whether a benchmark does the work of the one that it is compared with: facts in words, and which refuse a verdict.

Source: docs/same-work.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from perfmagic.base.language import phrase
from perfmagic.base.units import count, duration_s, significant
from perfmagic.trace.json_form import JsonForm, one_of

if TYPE_CHECKING:
    from perfmagic.trace.samples import Condition

OK, NOTED, REFUSED = "ok", "noted", "refused"


@dataclass(frozen=True)
class Check(JsonForm):
    """One fact about whether two benchmarks do the same work.

    name: what was looked at.
    outcome: whether it speaks for the same work, is to be known, or refuses a verdict.
    detail: what was found.
    """

    name: str
    outcome: Annotated[str, one_of(OK, NOTED, REFUSED)]
    detail: str


@dataclass(frozen=True)
class _Row:
    name: str
    outcome: str
    words: str


def checks_of(facts: Iterable[Condition], first: str, other: str) -> tuple[Check, ...]:
    """The facts as rows, those that refuse a verdict first.  first, other: what the two are called."""
    rows = [_check(fact.kind, fact.values, first, other) for fact in facts]
    order = (REFUSED, NOTED, OK)
    return tuple(sorted((row for row in rows if row is not None), key=lambda row: order.index(row.outcome)))


def reason_of(checks: Iterable[Check]) -> str | None:
    """Why two benchmarks are not comparable; None where they are."""
    return next((check.detail for check in checks if check.outcome == REFUSED), None)


def to_be_known(checks: Iterable[Check]) -> str:
    """What a reader of *faster* has to know first, "" for nothing."""
    by_name = {check.name: check.detail for check in checks if check.outcome == NOTED}
    return next((by_name[name] for name in ("inputs", "ops", "FLOP") if name in by_name), "")


def has_fact(checks: Iterable[Check], kind: str) -> bool:
    """Whether a fact without values is among the checks."""
    return any(check.detail == ROWS[kind].words for check in checks)


def _check(kind: str, values: Mapping[str, Any], first: str, other: str) -> Check | None:
    row = ROWS.get(kind)
    if row is None:
        return None
    words = {name: _word(name, value) for name, value in values.items()}
    return Check(row.name, row.outcome, phrase(row.words, **{"a": first, "b": other, **words}))


def _word(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return count(value)
    number = float(value)  # type: ignore[arg-type]
    if name.endswith("_s"):
        return duration_s(number)
    return f"{number:.1g}" if name in ("off", "allowed") else significant(number, 2)


# What a fact says.  {a}, {b}: the first of the two and the other; the rest are the fact's values.

ROWS = {
    # results
    "results": _Row("results", OK, "the same results {n} times: relative error {off}, tolerance {allowed}"),
    "identical": _Row("results", OK, "identical results, {n} times"),
    "equal": _Row("results", OK, "equal= found the results the same {n} times"),
    "random": _Row("results", OK, "mean and deviation are the same: {off} standard errors apart"),
    "differ": _Row(
        "results", REFUSED, "results differ: relative error {off}, tolerance {allowed} ({type}, result {which} of {of})"
    ),
    "differ in kind": _Row(
        "results", REFUSED, "results differ: NaN, infinity or text in one only ({type}, {which} of {of})"
    ),
    "differ on ours": _Row(
        "results",
        REFUSED,
        "results differ on values drawn by perfmagic: relative error {off} ({type}, result {which} of {of}); "
        "values= allows that",
    ),
    "differ in kind on ours": _Row(
        "results",
        REFUSED,
        "results differ on values drawn by perfmagic: NaN, infinity or text in one only; values= allows that",
    ),
    "not equal": _Row("results", REFUSED, "equal= found the results different (pass {pass})"),
    "random differ": _Row("results", REFUSED, "mean or deviation differ by {off} standard errors"),
    "other structure": _Row("results", REFUSED, "{b} returned {other} values, {a} {first}"),
    "other kind": _Row("results", REFUSED, "{b} returned a {other} where {a} returned a {first}"),
    "other layout": _Row("results", REFUSED, "{b} returned a {other} tensor, {a} a {first} one"),
    "other shape": _Row("results", REFUSED, "results of another shape: {first} against {other}"),
    "other device": _Row("results", REFUSED, "results on another device: {first} against {other}"),
    "only NaN": _Row("results", REFUSED, "all results are NaN: equal ones prove nothing"),
    "first is random": _Row(
        "results",
        REFUSED,
        "{a} gives different results on the same inputs: seed it, or compare their means with random=True",
    ),
    "lazy result": _Row("results", REFUSED, "{b} returned a {type}, whose values may be computed when they are read"),
    "late result": _Row("results", REFUSED, "the result of {b} changed after it was waited for"),
    "raised": _Row("results", REFUSED, "{b} raises on other values of the same shapes: {error}"),
    "lower type": _Row("precision", REFUSED, "{b} returned {other}, {a} {first}: dtype= declares what is good enough"),
    "narrow": _Row("precision", REFUSED, "{b} computed in {type}, {a} did not: dtype= declares what is good enough"),
    "narrow declared": _Row("precision", NOTED, "{b} computed in {type}"),
    "nothing returned": _Row("results", NOTED, "nothing was returned, so no results were compared"),
    "not compared": _Row("results", NOTED, "results were not compared"),
    "no values": _Row("results", NOTED, "the device computes no values, so no results were compared"),
    "first varies": _Row("results", NOTED, "{a} gives different results each time, so results prove nothing"),
    "unread": _Row("results", REFUSED, "{b} returned a {type}, whose values cannot be compared: equal= can"),
    "result type": _Row("result type", NOTED, "{b} returned a {other}, {a} a {first}"),
    "result dtype": _Row("result type", NOTED, "{b} returned {other}, {a} {first}"),
    "no graph": _Row("result type", REFUSED, "the result of {b} has no graph for backward, that of {a} has"),
    # inputs
    "fresh inputs": _Row("inputs", OK, "every timed call had inputs that no call had seen"),
    "same inputs": _Row(
        "inputs", NOTED, "measured on the same inputs: a cache would not show; inputs= or --inputs gives new ones"
    ),
    "inputs stay": _Row(
        "inputs", NOTED, "the values of these inputs cannot be varied: a cache would not show; a function can make them"
    ),
    "inputs changed": _Row("inputs", REFUSED, "only {by} changed its inputs"),
    "inputs left otherwise": _Row(
        "inputs", REFUSED, "both changed their inputs, to different values: relative error {off}"
    ),
    "aliased": _Row("memory", REFUSED, "{b} returned memory of its input, {a} new memory"),
    "not aliased": _Row("memory", NOTED, "{a} returned memory of its input, {b} new memory"),
    "shared parts": _Row("memory", REFUSED, "parts of the result of {b} share memory, those of {a} do not"),
    "reused memory": _Row("memory", NOTED, "{b} returns the same memory each time"),
    # caches
    "not kept": _Row("kept results", OK, "as much work on repeated inputs as on new ones"),
    "kept": _Row("kept results", REFUSED, "{b} keeps results: {fresh} ops on new inputs, {seen} on repeated ones"),
    "kept time": _Row("kept results", REFUSED, "{b} keeps results: {times} times as fast on repeated inputs"),
    "kept object": _Row(
        "kept results", REFUSED, "{b} keeps results: it returned the same object again for the same inputs"
    ),
    "wide": _Row("values", REFUSED, "results differ on inputs {times} times as large; values= allows that"),
    "lost": _Row("results", REFUSED, "{b} lost {percent} % of the values, which are small next to the others"),
    "random kept": _Row("random", REFUSED, "results of {b} change less with the random numbers than those of {a}"),
    "random repeats": _Row("random", REFUSED, "random numbers of {b} repeat, those of {a} do not"),
    "random unlike": _Row("random", REFUSED, "random numbers of {b} have another distribution or other correlations"),
    "disturbed": _Row(
        "values",
        REFUSED,
        "the results of {b} respond differently from those of {a} if part of an input changes; values= allows that",
    ),
    "other gradients": _Row("results", REFUSED, "the result of {b} gives other gradients of {names}"),
    "tiny": _Row("values", REFUSED, "results differ on inputs {times} times as small; values= allows that"),
    "kept answer": _Row(
        "kept results",
        REFUSED,
        "the result of {b} stays the same if {names}, which both read, changes; that of {a} does not",
    ),
    "whole": _Row(
        "values",
        REFUSED,
        "results differ if integers or booleans of the inputs are not all equal; values= allows that",
    ),
    "unchecked input": _Row("values", REFUSED, "{a} rejects an input that {b} accepts: {error}"),
    "resized": _Row("state", REFUSED, "{b} adds to {names} or removes from it, and {a} reads it"),
    "made": _Row("inputs", REFUSED, "the function that makes the inputs changes {names}, which {b} reads"),
    "other work": _Row(
        "values",
        REFUSED,
        "{b} does different work on other values: {other} ops instead of {given}; values= allows that",
    ),
    # the clock
    "replaced": _Row("clocks", REFUSED, "{b} replaced {what}"),
    "set": _Row("settings", REFUSED, "{b} changed {what} for the other, too"),
    "replaced by first": _Row("clocks", REFUSED, "{a} replaced {what}"),
    "set by first": _Row("settings", REFUSED, "{a} changed {what} for the other, too"),
    "late work": _Row("late work", REFUSED, "{b} queued device work after it had returned and was waited for"),
    "late thread": _Row(
        "late work", REFUSED, "a thread of {b} kept running for {busy_s} of {of_s} after it was waited for"
    ),
    "dropped": _Row("late work", REFUSED, "releasing a result of {b} takes {late_s}, which no clock sees"),
    "collected": _Row("late work", REFUSED, "a callback of garbage collection uses {names} of {b}"),
    "unjoined stream": _Row(
        "late work", REFUSED, "{b} returned before its work on another stream ended, and nothing waits for it"
    ),
    "threads left": _Row("late work", REFUSED, "{b} left a thread running after {n} calls"),
    "threads between": _Row(
        "late work", REFUSED, "threads of the functions worked {busy_s} of the {of_s} between their calls"
    ),
    "process left": _Row("late work", REFUSED, "{n} processes were left running"),
    "not quiet": _Row("late work", REFUSED, "other work is being queued: wait until the device is idle"),
    "threads busy": _Row("late work", REFUSED, "other threads of this process work all the time: end them first"),
    # work
    "work": _Row("work", OK, "{n} ops against {first}"),
    "nothing recorded": _Row("work", NOTED, "no operators were recorded"),
    "not recorded": _Row("work", NOTED, "no run was recorded: {why}"),
    "no device work": _Row("work", REFUSED, "{b} ran nothing on the device, {a} {n} ops"),
    "no ops": _Row("ops", NOTED, "{b} ran no operators of torch, {a} {first}"),
    "less flop": _Row("FLOP", NOTED, "{b} computes {other} FLOP, {a} {first}"),
    "flop": _Row("work", NOTED, "floating-point operations: {other} against {first}"),
    "bytes": _Row("work", NOTED, "bytes read and written: {other} against {first}"),
    "copies": _Row("work", NOTED, "copies between devices: {other} against {first}"),
    "streams": _Row("work", NOTED, "streams: {other} against {first}"),
    "state": _Row("state", REFUSED, "{by} changes {names}, {not} does not"),
    "less state": _Row("state", REFUSED, "{not} changes less of {names} than {by}"),
    "state unseen": _Row("state", NOTED, "state not fully inspected: {names}"),
    "file kept": _Row("effects", REFUSED, "{a} reads {what} in each call, {b} reads no file"),
    "files": _Row("effects", REFUSED, "{a} writes {first} bytes a call to files, {b} {other}"),
    "file calls": _Row("effects", REFUSED, "{a} calls {what}, {b} does not"),
    "prints": _Row("effects", REFUSED, "{a} prints, {b} does not"),
    "unchecked": _Row("results", NOTED, "results not compared"),
}
