"""A pace with rates: an op takes the time of its work, a link that of its standard."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic.capture.devices import sim  # noqa: E402 - after the skip
from perfmagic.errors import OptionError  # noqa: E402
from tests.capture.devices.sim.test_log import Recorded  # noqa: E402


@pytest.fixture(autouse=True)
def _no_pace_left() -> Iterator[None]:
    sim.load()
    yield
    sim.synchronize()
    sim.set_pace(None)


def test_rates_give_an_op_the_time_of_its_work() -> None:
    pace = sim.Pace.parse("matmul=1GFLOP/s, conv=2GFLOP/s, kernels=1MB/s, kernel=1ms, bmm=7ms")
    assert pace.work_s("addmm", 3_000_000, 0) == pytest.approx(0.003)
    assert pace.work_s("convolution_backward", 8_000_000, 0) == pytest.approx(0.004)
    assert pace.work_s("mm", 10, 5000) == pytest.approx(0.005)  # the longer of both
    assert pace.work_s("add", 0, 10) == 0.001
    assert pace.work_s("bmm", 10**9, 0) == 0.007  # a time by name goes before
    assert pickle.loads(pickle.dumps(pace)) == pace
    assert hash(pace) != hash(sim.Pace.parse("matmul=2GFLOP/s, conv=2GFLOP/s, kernels=1MB/s, kernel=1ms, bmm=7ms"))
    assert eval(repr(pace), {"Pace": sim.Pace}) == pace
    words = "paced: bmm ≥ 7 ms, other kernels ≥ 1 ms, matmul 1 GFLOP/s, convolution 2 GFLOP/s, device memory 1 MB/s"
    assert pace.words.replace("\u00a0", " ") == words
    assert sim.Pace.parse("kernels=1GFLOP/s").work_s("mm", 10**6, 0) == pytest.approx(0.001)


@pytest.mark.parametrize(("rows", "least_s"), [(8, 0.00512), (16, 0.01024)])
def test_a_device_takes_half_the_time_for_half_the_batch(rows: int, least_s: float) -> None:
    sim.set_pace("matmul=1MFLOP/s")
    with Recorded() as rec:
        torch.ones(rows, 16, device="sim") @ torch.ones(16, 20, device="sim")
        sim.synchronize()
    trace = rec.trace()
    (row,) = [i for i, name in enumerate(trace.ops.name) if trace.names[name] == "mm"]
    assert (trace.ops.end_ns - trace.ops.start_ns)[row] >= least_s * 1e9  # 2 · rows · 16 · 20 operations


def test_torch_counts_the_work_of_convolution_and_attention() -> None:
    asked: list[tuple[str, int, int]] = []

    class Asked(sim.Pace):
        def work_s(self, name: str, flop: int, moved_bytes: int) -> float:
            asked.append((name, flop, moved_bytes))
            return 0.0

    sim.set_pace(Asked(flop_per_s={"kernels": 1e15}))
    x = torch.ones(2, 3, 8, 8, device="sim", requires_grad=True)
    torch.nn.functional.conv2d(x, torch.ones(4, 3, 3, 3, device="sim", requires_grad=True)).sum().backward()
    q = torch.ones(1, 2, 16, 8, device="sim")
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
    sim.synchronize()
    work = {name: (flop, moved) for name, flop, moved in asked}
    once = 2 * 2 * 4 * 6 * 6 * 3 * 3 * 3
    assert work["convolution"] == (once, 4 * (2 * 3 * 64 + 4 * 27 + 2 * 4 * 36))
    assert work["convolution_backward"][0] == 2 * once
    products = 2 * (2 * 2 * 16 * 16 * 8)  # two products of [16, 8] by [8, 16] and back in two heads
    assert sum(flop for name, flop, _ in asked if "attention" in name or name == "bmm") == products


def test_links_have_names_and_can_be_slower() -> None:
    pace = sim.Pace.parse("copy=pcie4, link=ethernet10/100, latency=1ms")
    assert pace == sim.Pace(copy_bytes_per_s=31.5e9, link_bytes_per_s=1.25e7, link_latency_s=1e-3)
    assert sim.Pace.parse("link=nvlink4").link_s("all_reduce", 450e9) == pytest.approx(1.0, rel=1e-4)
    with pytest.raises(OptionError, match="no link is called 'pcie9'") as caught:
        sim.Pace.parse("copy=pcie9")
    assert "pcie4" in str(caught.value.hint)
    for wrong in ("link=pcie4/0", "matmul=1GB/s", "latency=1GB/s", "copy=3ms"):
        with pytest.raises(OptionError, match="cannot read"):
            sim.Pace.parse(wrong)
    with pytest.raises(OptionError, match="flop_per_s is a dict of rates"):
        sim.Pace.parse("relu=1GFLOP/s")
    with pytest.raises(OptionError, match="above 0 FLOP/s"):
        sim.Pace(flop_per_s={"matmul": 0.0})
