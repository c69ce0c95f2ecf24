"""What a benchmark says of a device: the same of the simulated one and of CUDA."""

import time
from typing import Any

import pytest

import perfmagic
from perfmagic.base.clock import virtual_clock
from perfmagic.base.errors import OptionError
from perfmagic.capture.bench.engine import BenchSpec, Engine
from perfmagic.capture.bench.interleave import measure_interleaved

pytestmark = pytest.mark.slow


torch = pytest.importorskip("torch", reason="devices are reached through torch")

MB = 1_000_000
FEW = {"samples": 12, "warmup": 5}


@pytest.fixture
def x(device: Any) -> Any:
    return torch.ones(1024, 1024, device=device)


def test_the_peak_of_one_call_is_what_it_allocates_beside_what_is_held(x: Any) -> None:
    result = perfmagic.bench(lambda: (x + 1) * 2, **FEW)
    size = 1024 * 1024 * 4
    assert result.held_bytes >= size
    assert 2 * size <= result.peak_bytes - result.held_bytes < 4 * size  # the sum and the product


def test_memory_that_every_call_keeps_is_said(x: Any) -> None:
    kept = []
    result = perfmagic.bench(lambda: kept.append(x + 1), **FEW)
    assert any("every call leaves 4.19" in str(warning) for warning in result.warnings)
    freed = perfmagic.bench(lambda: x + 1, **FEW)
    assert not any("every call leaves" in str(warning) for warning in freed.warnings)


@pytest.mark.slow
def test_calls_in_a_row_are_a_quantity_of_their_own(x: Any) -> None:
    result = perfmagic.bench(lambda: x @ x, calls=5, **FEW)
    assert result.calls_per_sample == 1
    assert result.queued_calls == 5
    assert result.queued.n >= 12
    assert 0 < min(result.queued.samples_s) < 2 * max(result.done.samples_s)  # whatever else the machine does


@pytest.mark.slow
def test_cold_samples_find_caches_overwritten(x: Any) -> None:
    if virtual_clock() is not None:
        with pytest.raises(OptionError, match="cold=True: on a virtual clock times are computed"):
            perfmagic.syncbench(lambda: x + 1, cold=True, samples=6, warmup=1)
        return
    result = perfmagic.syncbench(lambda: x + 1, cold=True, samples=6, warmup=1)
    assert result.cold_bytes > MB
    assert result.span_s > 0
    assert any("written over" in line for line in result.details)


def test_rates_are_of_the_device_span(x: Any) -> None:
    small = x[:256, :256].contiguous()  # the CPU computes its square in half a millisecond
    result = perfmagic.syncbench(lambda: small @ small, flops=2 * 256**3, **FEW)
    assert result.flop_per_s == pytest.approx(2 * 256**3 / result.span_s)


@pytest.mark.slow
def test_twice_the_work_is_slower_in_turns(x: Any) -> None:
    def work(n: int) -> Any:
        y = x
        for _ in range(n):
            y = y @ x
        return y

    one, two = measure_interleaved([lambda: work(1), lambda: work(3)], [BenchSpec(**FEW), BenchSpec(**FEW)], decide_s=0)
    assert len(one.done_s) == len(two.done_s)
    assert two.done_s.min() > one.done_s.min()


def test_an_exception_in_a_later_call_keeps_the_samples_and_the_device_works(x: Any) -> None:
    engine, made = Engine(BenchSpec(samples=50, warmup=0), synced=True), []

    def calls() -> None:
        for n, () in enumerate(engine.calls()):
            if n == 8:
                raise ValueError("late")
            made[:] = [x + 1]

    with pytest.raises(ValueError, match="late"):
        calls()
    engine.close()
    assert len(engine.record().done_s) >= 6
    assert float(made[0].sum()) == 2 * 1024 * 1024


def test_where_python_is_slower_the_queue_model_ends_one_op_after_the_last_launch(x: Any, late: bool) -> None:
    def slow_launches() -> None:
        for _ in range(5):
            time.sleep(4e-3)
            x + 1

    model = perfmagic.syncbench(slow_launches, **FEW).queue_model
    assert model.n == 5
    assert model.t1_s >= (4e-3 if late else 5e-6)  # a sleep takes no virtual time
    assert model.t2_s < model.t1_s
    launched_s = model.n * model.t1_s  # the last launch; one op and the way back follow, and no sixth launch
    assert model.predicted_s == pytest.approx(launched_s + model.t2_s + model.t3_s)
    assert model.measured_s >= launched_s
