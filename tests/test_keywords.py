"""Every option of the functions is a keyword of its own: with BenchSpec's default, documented, and complete by Tab."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmagic
import perfmagic.testing
from perfmagic.capture.bench.spec import BenchSpec, asks_for_sampling
from perfmagic.errors import OptionError

pytestmark = pytest.mark.slow


BENCHMARKS: list[Callable[..., Any]] = [
    perfmagic.bench,
    perfmagic.syncbench,
    perfmagic.sweep,
    perfmagic.compare,
    perfmagic.testing.not_slower,
    perfmagic.testing.faster,
]
OTHERS: list[Callable[..., Any]] = [perfmagic.open_trace, perfmagic.open_traces, perfmagic.timeline]
OPTIONS = {one.name: one.default for one in fields(BenchSpec) if one.name not in ("inputs", "magic")}
# what a function has in place of BenchSpec's own: None in time_s says that the comparison decides
INSTEAD = {
    "sweep": {"name": "n"},
    "compare": {"time_s": None},
    "not_slower": {"time_s": None},
    "faster": {"time_s": None},
}


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


@pytest.mark.parametrize("function", BENCHMARKS)
def test_a_benchmark_takes_every_option_with_its_default(function: Callable[..., Any]) -> None:
    wanted = OPTIONS | INSTEAD.get(function.__name__, {})
    if function is perfmagic.compare:
        del wanted["name"]  # `names`, one for each function
    given = {name: one.default for name, one in parameters(function).items() if name in OPTIONS}
    assert given == wanted
    assert all(parameters(function)[name].kind is inspect.Parameter.KEYWORD_ONLY for name in given)


@pytest.mark.parametrize("function", [*BENCHMARKS, *OTHERS])
def test_no_function_takes_keywords_that_it_does_not_name(function: Callable[..., Any]) -> None:
    for one in parameters(function).values():
        assert one.kind is not inspect.Parameter.VAR_KEYWORD
        assert one.annotation is not inspect.Parameter.empty


@pytest.mark.parametrize("function", [*BENCHMARKS, *OTHERS])
def test_the_docstring_says_what_each_keyword_does(function: Callable[..., Any]) -> None:
    words = inspect.getdoc(function) or ""
    own = words if "not_slower()" not in words else words + (inspect.getdoc(perfmagic.testing.not_slower) or "")
    for name, one in parameters(function).items():
        if one.kind is inspect.Parameter.KEYWORD_ONLY:
            assert f"{name} (" in own or f"{name}:" in own or f"{name}, " in own, name


@pytest.mark.parametrize("function", BENCHMARKS)
def test_the_docstring_says_the_defaults_of_the_signature(function: Callable[..., Any]) -> None:
    words = inspect.getdoc(function) or ""
    for name, one in parameters(function).items():
        if name in OPTIONS and not (name == "name" and function is perfmagic.sweep):
            assert f"\n{name} (default {one.default!r}): " in words


def test_options_reach_the_benchmark() -> None:
    set_up: list[int] = []
    result = perfmagic.bench(
        lambda: None,
        samples=7,
        calls=1,
        warmup=2,
        cooldown_s=0.001,
        runs=2,
        flop=10.0,
        moved_bytes=20.0,
        setup_each=lambda: set_up.append(1),
        name="named",
        code="None",
        setup="pass",
    )
    assert result.returns is not None
    assert result.settings["samples"] == 7
    assert result.settings["warmup"] == 2
    assert result.settings["cooldown_s"] == 0.001
    assert result.settings["runs"] == 2
    assert (result.flop, result.moved_bytes, result.name) == (10.0, 20.0, "named")
    assert (result.code, result.setup) == ("None", "pass")
    assert set_up


def test_work_is_asked_for_after_the_first_call() -> None:
    asked_after: list[int] = []
    ran: list[int] = []

    def work() -> perfmagic.Work:
        asked_after.append(len(ran))
        return perfmagic.Work(flop=5.0)

    assert perfmagic.bench(lambda: ran.append(1), work=work, samples=6, warmup=0).flop == 5.0
    assert asked_after == [1]


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: perfmagic.bench(len, sample=3), "samples"),
        (lambda: perfmagic.syncbench(len, warm_up=3), "warmup"),
        (lambda: perfmagic.sweep(len, [1, 2], syncd=True), "synced"),
        (lambda: perfmagic.compare(len, len, time=3), "time_s"),
        (lambda: perfmagic.open_trace("x.json", com_names=""), "comm_names"),
        (lambda: perfmagic.open_traces(commnames=""), "comm_names"),
        (lambda: perfmagic.timeline(activ=3), "active"),
        (lambda: perfmagic.testing.faster(len, len, quantaty="done"), "quantity"),
    ],
)
def test_a_mistyped_keyword_is_answered_with_the_nearest(call: Callable[[], object], meant: str) -> None:
    with pytest.raises(
        perfmagic.KeywordError, match=rf"there is no option \w+\nHint: did you mean {meant}\?"
    ) as caught:
        call()
    assert isinstance(caught.value, TypeError)  # what Python itself raises
    assert isinstance(caught.value, OptionError)


def test_a_keyword_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(perfmagic.KeywordError, match="Hint: there are body, samples, ") as caught:
        perfmagic.bench(len, xyzzy=1)
    assert "did you mean" not in str(caught.value)


def test_results_take_no_options_any_more(tmp_path: Path) -> None:
    one = perfmagic.bench(lambda: None, samples=6, warmup=0)
    for options, named in (({"samples": 9}, "samples"), ({"time_s": 2.0}, "time_s"), ({"names": "ab"}, "names")):
        with pytest.raises(OptionError, match=f"compared as they were measured; {named} cannot be set"):
            perfmagic.compare(one, one, **options)
    saved = one.save(tmp_path / "one.json")
    with pytest.raises(OptionError, match="compared as they were measured; cold, runs cannot be set"):
        perfmagic.compare(saved, saved, cold=True, runs=2)
    assert perfmagic.compare(one, saved).verdict


def test_a_check_takes_a_name_for_what_it_checks() -> None:
    def body() -> None: ...

    def quick() -> None: ...

    few = {"samples": 6, "warmup": 0}
    before = perfmagic.bench(body, name="body", **few)

    def names(baseline: Any, **options: Any) -> list[str]:
        with suppress(AssertionError):  # on a busy machine one of two that are alike may well be slower
            perfmagic.testing.not_slower(body, baseline, rel=0.5, **options, **few)
        found = perfmagic.last()
        assert isinstance(found, perfmagic.CompareResult)
        return [one.name for one in found.results]

    assert names(quick, name="mine") == ["quick", "mine"]
    assert names(before, name="mine") == ["body", "mine"]
    assert names(lambda: None, name="mine") == ["baseline", "mine"]
    assert names(before) == ["baseline", "body"]  # they would be of one name


def test_numbers_of_numpy_are_taken_as_pythons_own_and_others_refused() -> None:
    result = perfmagic.bench(lambda: None, samples=np.int64(6), time_s=np.float32(0.1), warmup=0)
    assert json.loads(result.to_json())["settings"]["samples"] == 6
    with pytest.raises(perfmagic.OptionError, match="a whole number is needed"):
        perfmagic.bench(lambda: None, samples=2.5)


def test_a_quantity_is_checked_before_anything_is_measured() -> None:
    calls: list[int] = []
    with pytest.raises(perfmagic.OptionError, match="no quantity 'don'"):
        perfmagic.compare(lambda: calls.append(1), lambda: calls.append(2), quantity="don")
    assert calls == []


def test_a_wide_interval_that_is_asked_for_ends_a_comparison_early() -> None:
    assert asks_for_sampling({"rel": 0.5, "time_s": None})
    assert asks_for_sampling({"max_samples": 5})
    assert not asks_for_sampling({"rel": 0.01, "time_s": None, "samples": None, "max_samples": 10_000, "warmup": 3})
