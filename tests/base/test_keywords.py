"""Every option of the functions is a keyword of its own: with BenchSpec's default, documented, and complete by Tab."""

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
from perfmagic.base.errors import OptionError
from perfmagic.base.options import RENAMED, option
from perfmagic.capture.bench.spec import BenchSpec, asks_for_sampling
from perfmagic.magics import bench as bench_magic

pytestmark = pytest.mark.slow


CHECKS = [perfmagic.testing.not_slower, perfmagic.testing.faster]
BENCHMARKS: list[Callable[..., Any]] = [
    perfmagic.bench,
    perfmagic.syncbench,
    perfmagic.sweep,
    perfmagic.compare,
    *CHECKS,
]
OTHERS: list[Callable[..., Any]] = [perfmagic.open_trace, perfmagic.open_traces, perfmagic.timeline]
OPTIONS = {
    RENAMED.get(one.name, one.name): one.default for one in fields(BenchSpec) if one.name not in ("inputs", "magic")
}
# what a function has in place of BenchSpec's own: None in time says that the comparison decides, in runs the baseline
CHECKED = {"time": None, "runs": None}
INSTEAD = {"sweep": {"name": "n"}, "compare": {"time": None}, "not_slower": CHECKED, "faster": CHECKED}


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
    sampling = {"samples": 7, "calls": 1, "warmup": 2, "cooldown": 0.001, "runs": 2}
    about = {"flops": 10.0, "bytes": 20.0, "name": "named", "code": "None", "setup": "pass"}
    result = perfmagic.bench(lambda: None, **sampling, **about, setup_each=lambda: set_up.append(1))
    assert {"samples": 7, "warmup": 2, "cooldown_s": 0.001, "runs": 2}.items() <= result.settings.items()
    assert (result.flop, result.moved_bytes, result.name) == (10.0, 20.0, "named")
    assert (result.code, result.setup) == ("None", "pass")
    assert set_up


def test_work_is_asked_for_after_the_first_call() -> None:
    asked_after: list[int] = []
    ran: list[int] = []

    def work() -> perfmagic.Work:
        asked_after.append(len(ran))
        return perfmagic.Work(flops=5.0)

    assert perfmagic.bench(lambda: ran.append(1), work=work, samples=6, warmup=0).flop == 5.0
    assert asked_after == [1]


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: perfmagic.bench(len, sample=3), "samples"),
        (lambda: perfmagic.syncbench(len, warm_up=3), "warmup"),
        (lambda: perfmagic.sweep(len, [1, 2], syncd=True), "synced"),
        (lambda: perfmagic.compare(len, len, tme=3), "time"),
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


OLD = {"time_s": ("time", 0.1), "cooldown_s": ("cooldown", 0.001), "flop": ("flops", 5.0), "moved_bytes": ("bytes", 8)}


@pytest.mark.parametrize("old", OLD)
def test_the_old_name_of_an_option_works_and_warns_once(monkeypatch: pytest.MonkeyPatch, old: str) -> None:
    monkeypatch.setattr("perfmagic.base.options._said", set())
    now, value = OLD[old]
    few = {"samples": 3, "warmup": 0}
    with pytest.warns(FutureWarning, match=f"the option {old} is called {now} now") as warned:
        found = perfmagic.bench(lambda: None, **few, **{old: value})
    assert [Path(one.filename).name for one in warned] == [Path(__file__).name]  # the caller's line
    again = perfmagic.bench(lambda: None, **few, **{now: value})
    kept = (found.settings.get(old), found.flop, found.moved_bytes)
    assert kept == (again.settings.get(old), again.flop, again.moved_bytes)
    assert value in kept
    for call in (perfmagic.syncbench, perfmagic.bench):  # a second warning would be an error
        call(lambda: None, **few, **{old: value})


def test_the_old_names_of_work_work_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmagic.base.options._said", set())
    with pytest.warns(FutureWarning, match="is called") as warned:
        assert perfmagic.Work(flop=2.0, moved_bytes=3.0) == perfmagic.Work(flops=2.0, bytes=3.0)
    assert len(warned) == 2


def test_both_names_of_an_option_are_one_too_many() -> None:
    with pytest.raises(perfmagic.KeywordError, match="time_s is the old name of time, and both are given"):
        perfmagic.bench(len, time=1, time_s=2)


def test_a_flag_is_named_as_the_keyword() -> None:
    parser = bench_magic.MAGICS["bench"].parser()
    flags = {name for action in parser._actions for name in action.option_strings}
    without = {"min_samples", "max_samples", "work", "code", "setup"}  # of functions alone
    assert {f"--{name.replace('_', '-')}" for name in OPTIONS.keys() - without} <= flags
    for setting in ("samples", "calls", "time_s", "cooldown_s", "flop", "moved_bytes", "setup_each", "runs"):
        assert option("%%bench", setting) in flags
        assert option("", setting) in OPTIONS


@pytest.mark.parametrize("rel", [0.2, "20%", "0.2", " 20 % "])
def test_a_share_is_a_fraction_or_percent(rel: Any) -> None:
    assert perfmagic.bench(lambda: None, samples=3, warmup=0, rel=rel).settings["rel"] == pytest.approx(0.2)


@pytest.mark.parametrize("rel", ["much", "", "%", 1, "100%", float("nan")])
def test_what_is_no_share_is_refused(rel: Any) -> None:
    with pytest.raises(perfmagic.OptionError, match=r"0\.01"):
        perfmagic.bench(lambda: None, rel=rel)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: perfmagic.ranks(len), r'perfmagic\.ranks\(4\)\.run\("step\(\)"\)'),
        (lambda: perfmagic.ranks(len, 2), r'perfmagic\.ranks\(4\)\.run\("step\(\)"\)'),
        (lambda: perfmagic.ranks(2.5), r"%%ranks -n 4 or perfmagic\.ranks\(4\)"),
        (lambda: perfmagic.sweep_ranks(len, [1, 2]), r'code is needed as text, .*\n.*sweep_ranks\("step\(\)", \['),
        (lambda: perfmagic.sweep_ranks("x = 1", [1, 2], setup=len), "setup is needed as text"),
        (lambda: perfmagic.sweep_ranks("x = 1", 3), r"several numbers are needed\nHint: .*\[1, 2, 4\]"),
        (lambda: perfmagic.sweep_ranks("x = 1", "124"), "several numbers are needed"),
        (perfmagic.bench, "bench: missing a required argument: 'body'\nHint: there are body, samples"),
    ],
)
def test_arguments_that_do_not_fit_are_one_error_that_names_a_form_that_works(
    call: Callable[[], object], says: str
) -> None:
    with pytest.raises(OptionError, match=says):
        call()


def test_a_type_error_of_measured_code_is_its_own() -> None:
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        perfmagic.bench(lambda: 1 + "1")  # type: ignore[operator]
    assert not isinstance(caught.value, OptionError)


def test_results_take_no_options_any_more(tmp_path: Path) -> None:
    one = perfmagic.bench(lambda: None, samples=6, warmup=0)
    for options, named in (({"samples": 9}, "samples"), ({"time": 2.0}, "time"), ({"names": "ab"}, "names")):
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
    result = perfmagic.bench(lambda: None, samples=np.int64(6), time=np.float32(0.1), warmup=0)
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
