"""A recording on simulated devices says where this host, and not the pace, decided how long ops took."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic import sim  # noqa: E402
from perfmagic.base.errors import OptionError  # noqa: E402
from perfmagic.trace.columns import OpKind  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _two_devices() -> Iterator[None]:
    perfmagic.devices(2, "sim", pace=perfmagic.Pace())
    yield
    sim.set_pace(None)
    sim.synchronize()


def run_op(needs_s: float, asked_s: float) -> None:
    """Queue an op that keeps the host busy for so long, with a pace."""
    from perfmagic.sim.device import current_lane
    from perfmagic.sim.launch import queue_op

    queue_op(current_lane(), "mm", OpKind.KERNEL, lambda: time.sleep(needs_s), (), (), least_s=asked_s)


@pytest.mark.parametrize(("needs_s", "asked_s", "reached"), [(0.02, 1e-6, False), (0.0, 0.3, True)])
def test_a_recording_claims_the_pace_that_was_reached(*, needs_s: float, asked_s: float, reached: bool) -> None:
    sim.set_pace("mm=1us")
    with perfmagic.timeline() as t:
        run_op(needs_s, asked_s)
    meta = t.result.trace.meta
    assert meta.devices[0].pace.startswith("paced: " if reached else "pace not reached: ")
    assert [note.kind for note in meta.notes] == ([] if reached else ["pace_not_reached"])
    assert ("this host is the limit" in t.result.text()) is not reached


@pytest.mark.parametrize(
    ("used", "pace", "kinds"), [((0, 1), "", ["shared_cores"]), ((1,), "", []), ((0, 1), "fill=50ms", [])]
)
def test_a_recording_of_several_devices_without_a_pace_says_that_they_share_cores(
    used: tuple[int, ...], pace: str, kinds: list[str]
) -> None:
    sim.set_pace(pace or None)
    with perfmagic.timeline() as t:
        for index in used:
            torch.empty(2, device=f"sim:{index}").fill_(1)
    assert [note.kind for note in t.result.trace.meta.notes] == kinds


@pytest.mark.parametrize("used", [(1,), (0, 1)])
def test_a_benchmark_names_the_devices_that_worked_and_says_where_they_share_cores(used: tuple[int, ...]) -> None:
    there = [torch.zeros(2, device=f"sim:{index}") for index in range(2)]
    result = perfmagic.bench(lambda: [there[index].add_(1) for index in used], samples=6)
    assert [info.index for info in result.record.devices] == [*used]
    assert ("shared cores" in {warning.kind for warning in result.warnings}) is (len(used) > 1)


def test_the_class_benchmark_says_where_devices_share_cores(capsys: pytest.CaptureFixture[str]) -> None:
    with perfmagic.Benchmark():
        for index in range(2):
            torch.zeros(2, device=f"sim:{index}")
    assert "2 simulated devices without a pace share the cores" in capsys.readouterr().out
    with perfmagic.Benchmark():
        torch.zeros(2, device="sim:1")
    assert "share the cores" not in capsys.readouterr().out


def test_a_recording_keeps_the_pace_it_was_made_at(tmp_path: Path) -> None:
    then = perfmagic.Pace.parse("fill=2ms, matmul=4GFLOP/s, copies=2GB/s, half=2x, kernels=50us, link=nvlink2")
    sim.set_pace(then)
    with perfmagic.timeline() as t:
        torch.zeros(2, device="sim")
    sim.set_pace("fill=1ms")  # a later part of the lesson
    assert t.result.pace == then
    for name in ("trace.json.gz", "trace.npz"):
        t.result.save(tmp_path / name)
        assert perfmagic.open_trace(tmp_path / name).pace == then


def test_a_recording_at_several_paces_or_by_a_function_has_no_one_pace() -> None:
    sim.set_pace("fill=1ms")
    with perfmagic.timeline() as several:
        torch.empty(2, device="sim").fill_(1)
        sim.set_pace("fill=2ms")
        torch.empty(2, device="sim").fill_(1)
    sim.set_pace(lambda *_: 1e-3)
    with perfmagic.timeline() as by_function:
        torch.empty(2, device="sim").fill_(1)
    sim.set_pace(None)
    with perfmagic.timeline() as unpaced:
        torch.empty(2, device="sim").fill_(1)
    assert [timeline.result.pace for timeline in (several, by_function, unpaced)] == [None, None, None]


@pytest.mark.parametrize("text", ["[]", "{", '{"kernel_ms": 1}', '{"kernel_s": -1}'])
def test_a_damaged_pace_of_a_file_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(OptionError):
        perfmagic.Pace.from_json(text)
