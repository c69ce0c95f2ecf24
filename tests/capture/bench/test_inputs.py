"""A first call that changes what later ones work on."""

import random
import time
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmagic
from perfmagic.capture.bench.watchers import Inputs, read_by_code, read_by_function

torch = pytest.importorskip("torch")


def shuffled(n: int = 50_000) -> list[int]:
    values = list(range(n))
    random.Random(1).shuffle(values)
    return values


def changed_by(change: Any, **values: Any) -> frozenset[str]:
    seen = Inputs(values)
    change(values)
    return seen.changed(values)


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([3, 1, 2], list.sort),
        ({"a": 1}, lambda d: d.update(a=2)),
        ({"a": 1}, lambda d: d.pop("a")),
        ({1, 2}, lambda s: s.add(3)),
        (bytearray(b"ab"), lambda b: b.extend(b"c")),
        (np.arange(5.0)[::-1].copy(), np.ndarray.sort),
        (np.arange(10.0)[::2], lambda a: np.negative(a, out=a)),
        (torch.ones(3), lambda t: t.add_(1)),
    ],
)
def test_a_change_in_place_is_seen_and_no_change_is_not(value: Any, change: Any) -> None:
    assert changed_by(lambda values: None, x=value, y=[1]) == set()
    assert changed_by(lambda values: change(values["x"]), x=value, y=[1]) == {"x"}


def test_a_name_that_stands_for_another_object_is_changed() -> None:
    assert changed_by(lambda values: values.update(x=values["x"] * 2), x=np.ones(4)) == {"x"}


def test_what_runs_code_of_the_user_or_takes_long_is_left_alone(tmp_path: Path) -> None:
    class Odd(list):
        def __iter__(self) -> Any:
            raise AssertionError("looked at")

    class Lazy:
        @property
        def __class__(self) -> Any:
            raise AssertionError("looked at")

        def __getattr__(self, name: str) -> Any:
            raise AssertionError("looked at")

    class Own(np.ndarray):
        def __getitem__(self, key: Any) -> Any:
            raise AssertionError("looked at")

    with torch.inference_mode():
        bare = torch.ones(2)
    mapped = np.memmap(tmp_path / "mapped", np.float64, "w+", shape=100)
    values = {
        "odd": Odd([1]), "lazy": Lazy(), "own": np.zeros(3).view(Own), "bare": bare, "mapped": mapped,
        "view": np.asarray(mapped)[::2], "objects": np.array([[1], None], object), "point": np.array(1.0), "n": 1,
    }  # fmt: skip
    assert changed_by(lambda v: v["mapped"].fill(1), **values) == set()
    assert read_by_function(Lazy()) == {}


def test_a_look_keeps_nothing_alive_and_in_the_way_of_nobody() -> None:
    values = {"x": np.arange(5.0)}
    kept = weakref.ref(values["x"])
    seen = Inputs(values)
    values["x"] = np.arange(6.0)
    assert kept() is None
    assert seen.changed(values) == {"x"}
    array = np.arange(5.0)
    seen = Inputs({"array": array})
    array.resize(7)  # numpy refuses where anything else refers to it
    assert seen.changed({"array": array}) == {"array"}


def test_of_a_large_array_some_bytes_are_looked_at() -> None:
    large = np.zeros(2_000_000)
    assert changed_by(lambda values: values["x"].fill(1), x=large) == {"x"}


def test_names_are_those_that_code_reads_before_it_assigns_them() -> None:
    around = {"a": [1], "b": [2], "c": [3], "d": [4], "unused": [5], "i": [6]}
    code = "for i in a:\n    pass\nc = b\nc.append(i)\nd += [1]\n"
    assert set(read_by_code(code, around)) == {"a", "b", "d"}
    assert read_by_code("a = a + [1]", around) == {"a": [1]}
    assert read_by_code("!ls", around) == {}


def test_names_of_a_function_are_those_around_it_and_what_a_partial_gives() -> None:
    near = [1]

    def body(given: list[int], more: int = 0) -> Any:
        return near, random, given, more

    assert read_by_function(partial(partial(body, [2]), more=3)) == {
        "near": near, "random": random, "argument 1": [2], "more": 3,
    }  # fmt: skip
    assert read_by_function(len) == {}
    assert read_by_function(near.sort) == {"its object": near}


@pytest.mark.slow
def test_a_sort_in_place_is_said_unless_each_call_gets_its_own() -> None:
    values = shuffled()
    result = perfmagic.bench(values.sort, samples=8)
    said = next(w.sentence for w in result.warnings if "the first call took" in w.sentence)
    assert "times as long as those sampled, and modified its object: later calls may do less work" in said
    assert said.endswith(": setup_each=reset, a function of yours, gives each call a fresh start")
    fresh = perfmagic.bench(values.sort, samples=8, setup_each=lambda: random.shuffle(values))
    assert not any("the first call took" in w.sentence for w in fresh.warnings)


def test_what_every_call_changes_is_not_said() -> None:
    pause = [0.02]
    log: list[float] = []

    def body() -> None:
        log.append(0.0)
        time.sleep(pause.pop() if pause else 0.0)

    result = perfmagic.bench(body, samples=8)
    said = next(w.sentence for w in result.warnings if "the first call took" in w.sentence)
    assert "modified pause: later" in said
