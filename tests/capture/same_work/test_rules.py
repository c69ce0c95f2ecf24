"""Single rules of the check, each without a comparison around it."""

import decimal
import gc
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the settings are torch's")

import perfmagic  # noqa: E402 - need torch
from perfmagic.capture.bench.sampling import Reading  # noqa: E402
from perfmagic.capture.same_work import process  # noqa: E402
from perfmagic.capture.same_work.arguments import MadeArguments  # noqa: E402
from perfmagic.capture.same_work.callees import Callees  # noqa: E402
from perfmagic.capture.same_work.closing import PAIRS, SEEN_SAMPLES, Closing  # noqa: E402
from perfmagic.capture.same_work.difference import distances, unlike  # noqa: E402
from perfmagic.capture.same_work.same_work import Asked, SameWork  # noqa: E402
from perfmagic.capture.same_work.settings import Settings  # noqa: E402
from perfmagic.capture.same_work.values import leaves, shared  # noqa: E402


@pytest.mark.parametrize("changed", [{"x": [1.0, 3.0]}, {"y": [1.0, 2.0]}, None])
def test_tables_of_pandas_are_read_by_value_name_and_index(changed: dict | None) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": [1.0, 2.0]})
    other = table.set_axis([0, 7]) if changed is None else pandas.DataFrame(changed)
    first, second = leaves(table), leaves(other)
    assert not any(distances(first, leaves(table.copy())))
    assert unlike(first, second) is not None or any(distances(first, second))


def test_a_series_of_pandas_is_read_with_its_index() -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series([1.0, 2.0])
    assert all(leaf.plain for leaf in leaves(series))
    assert any(distances(leaves(series), leaves(series.set_axis([0, 7]))))


def test_a_broadcast_array_shares_its_own_memory() -> None:
    row = np.ones(3)
    assert (shared(np.broadcast_to(row, (4, 3))), shared(np.tile(row, (4, 1)))) == (1, 0)


def test_a_hook_of_a_model_that_is_called_is_seen() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    callees = Callees(lambda x: model(x))  # noqa: PLW0108 - a function that calls it by name
    model.eval()  # by the function itself
    callees.note_own()
    assert callees.replaced() == ""
    model[0].register_forward_hook(lambda *_: None)
    assert callees.replaced() == "the hooks of model"


def to_decimal() -> None:
    decimal.getcontext().prec += 1


SETTINGS: dict[str, Callable[[], object]] = {
    "torch.autograd.set_detect_anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "torch.backends.mkldnn.enabled": lambda: torch.backends.mkldnn.set_flags(False),
    "torch.backends.nnpack.enabled": lambda: torch.backends.nnpack.set_flags(False),
    "torch.backends.cuda.enable_math_sdp": lambda: torch.backends.cuda.enable_math_sdp(False),
    "torch.backends.cuda.enable_flash_sdp": lambda: torch.backends.cuda.enable_flash_sdp(False),
    "torch.set_flush_denormal": lambda: torch.set_flush_denormal(True),
    "tracemalloc.start": tracemalloc.start,
    "gc.set_threshold": lambda: gc.set_threshold(7),
    "gc.callbacks": lambda: gc.callbacks.append(lambda *_: None),
    "decimal's context": to_decimal,
    "numpy.seterr": lambda: np.seterr(under="raise"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_seen_and_put_back(name: str) -> None:
    if name == "torch.set_flush_denormal" and not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot")
    settings = Settings()
    assert settings.changed() == ""
    SETTINGS[name]()
    assert settings.changed() == name
    assert settings.changed() == ""


class Scripted:
    """A sampler whose samples take the times given, in µs."""

    def __init__(self, *taken_us: int) -> None:
        self._taken_us = iter(taken_us)

    def sample(self, _calls: int) -> Iterator[tuple[()]]:
        yield ()
        return Reading(0, 1000 * next(self._taken_us))  # type: ignore[return-value] # a generator's result


@pytest.mark.parametrize("again_us", [100, 1000])
def test_quicker_on_seen_values_counts_in_two_series_of_pairs_only(again_us: int) -> None:
    arguments = MadeArguments(lambda rng: [torch.randn(3, generator=rng)], ())
    same = SameWork(["first", "other"], Asked(), arguments, [True, True], [None, None])
    sampler = Scripted(*[100] * SEEN_SAMPLES[0][1], *[1000, 100] * PAIRS, *[1000, again_us] * PAIRS)
    first = Scripted(*[1000, 1000] * PAIRS)  # asked only where the other keeps results
    closing = Closing(same, [first, sampler], None, lambda _forgives: None)
    for _, phase in closing._timed([1e-3, 1e-3], 1):
        for () in phase:
            pass
    same.close()
    assert [each.keeps_by_time for each in same.watched] == [False, again_us == 100]
    assert ("new 0" in same.watched[0].times_ns) == (again_us == 100)


@pytest.mark.slow
def test_a_pool_that_stays_may_work_in_untimed_calls() -> None:
    pool = ThreadPoolExecutor(2)

    def packed(part: Any) -> bytes:
        return zlib.compress(part.tobytes(), 1)

    def make(rng: torch.Generator) -> list[Any]:
        return [torch.randint(0, 16, (200_000,), generator=rng, dtype=torch.uint8).numpy()]

    def in_turn(a: Any) -> list[bytes]:
        return [packed(part) for part in np.array_split(a, 8)]

    def at_once(a: Any) -> list[bytes]:
        return [*pool.map(packed, np.array_split(a, 8))]

    result = perfmagic.compare(in_turn, at_once, inputs=make)
    assert result.not_comparable is None


def test_a_thread_that_has_ended_meanwhile_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, end = threading.Thread(target=len, args=("",)), threading.Event()
    ended.start()
    ended.join()
    runs = threading.Thread(target=end.wait)
    runs.start()
    try:
        monkeypatch.setattr(threading, "enumerate", lambda: [ended, runs, threading.current_thread()])
        assert [*process.threads_cpu_ns()] == [runs.native_id]
    finally:
        end.set()
        runs.join()
