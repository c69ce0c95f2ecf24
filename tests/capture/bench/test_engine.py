import math
import tracemalloc
from collections.abc import Callable

import pytest

from perfmagic.analysis.bench.warnings import describe_conditions
from perfmagic.base.errors import CaptureError, OptionError
from perfmagic.capture.bench import engine as warming
from perfmagic.capture.bench import watchers
from perfmagic.capture.bench.engine import BenchSpec, Engine
from perfmagic.capture.bench.interleave import Interleaved
from perfmagic.capture.bench.sampling import BodyLoop, run
from perfmagic.trace.model import TraceMeta, make_trace
from perfmagic.trace.samples import BenchRecord
from tests.capture.bench.machine import MS, Machine


def said(record: BenchRecord) -> tuple[str, ...]:
    """The warnings a result gives that come from how it was taken, without those from its samples."""
    return tuple(warning.sentence for warning in describe_conditions(record.conditions, record))


def test_returns_is_the_host_time_and_done_the_time_until_the_queue_is_empty():
    record = Machine().measure(2 * MS, 290 * MS)
    assert record.returns_s.tolist() == [0.002] * 5
    assert record.done_s.tolist() == [0.292] * 5
    assert [d.name for d in record.devices] == ["fake device"]


def test_a_body_without_a_device_has_no_done():
    record = Machine().measure(2 * MS, synced=True)
    assert record.returns_s.tolist() == [0.002] * 5
    assert len(record.done_s) == 0
    assert len(record.span_s) == 0
    assert record.devices == ()
    assert said(record) == ("no device was in use: done equals returns",)


def test_every_sample_starts_on_an_idle_device_and_runs_the_body_once():
    machine = Machine()
    machine.measure(1 * MS, 10 * MS)
    assert sorted(set(machine.depths)) == [1, 2, 3, 4, 5, 6]  # synchronised after every single run


def test_the_first_call_is_apart_and_calls_go_on_until_two_agree():
    machine = Machine()
    engine = machine.engine(BenchSpec(samples=4))
    host_ms = iter([800, 300, 100, 101])
    for () in engine.calls():
        machine.body(next(host_ms, 100) * MS)
    record = engine.record()
    assert record.first_calls_s.tolist() == [0.8, 0.3, 0.1, 0.101]
    assert record.returns_s.tolist() == [0.1] * 4


def test_no_more_than_four_first_calls_are_made():
    machine = Machine()
    engine = machine.engine(BenchSpec(samples=1))
    for number, () in enumerate(engine.calls()):
        machine.body((100 >> min(number, 5)) * MS)
    assert engine.record().first_calls_s.tolist() == [0.1, 0.05, 0.025, 0.012]


def test_without_warm_up_only_the_first_call_comes_before_the_samples():
    record = Machine().measure(3 * MS, spec=BenchSpec(samples=2, warmup=0))
    assert record.body_runs == 4  # one of them tells how many calls make a sample, as the first says little
    assert record.warmup_calls == 0
    assert record.first_calls_s.tolist() == [0.003]


def test_a_call_of_a_second_is_warm_when_two_agree_and_is_sampled_three_times():
    record = Machine().measure(1000 * MS, spec=BenchSpec(time_s=2.0))
    assert record.body_runs == 2 + 3
    assert record.warmup_calls == 0
    assert record.stopped_by == "stopped after 3.00\u00a0s at the minimum of 3 samples"


def test_a_call_of_ten_minutes_runs_twice_and_says_why():
    record = Machine().measure(600_000 * MS, spec=BenchSpec())
    assert record.body_runs == 2
    assert record.returns_s.tolist() == [600.0]
    assert record.stopped_by == "stopped at the cap of 10\u00a0s"
    assert said(record) == ("the first call took 600\u00a0s: no warm-up",)


def test_warm_up_lasts_two_tenths_of_a_second_for_steady_calls():
    record = Machine().measure(10 * MS, spec=BenchSpec(samples=1))
    assert len(record.first_calls_s) + record.warmup_calls == pytest.approx(21, abs=1)
    assert said(record) == ()


def test_calls_that_keep_growing_are_said_not_to_settle():
    machine = Machine()
    engine = machine.engine(BenchSpec(samples=1))
    for () in engine.calls():
        machine.body(round(MS * 1.02**machine.runs))
    assert "did not settle within" in said(engine.record())[0]


def test_short_bodies_are_timed_in_blocks_of_two_milliseconds():
    record = Machine().measure(100, spec=BenchSpec(samples=3, warmup=0))
    assert record.calls_per_sample == 20_000
    assert record.returns_s.tolist() == [pytest.approx(100e-9)] * 3


def test_short_bodies_with_a_device_are_timed_one_by_one():
    record = Machine().measure(100, 50, spec=BenchSpec(samples=3, warmup=0))
    assert record.calls_per_sample == 1
    assert record.returns_s.tolist() == [100e-9] * 3
    assert record.done_s.tolist() == [150e-9] * 3


def test_the_cost_of_the_loop_is_measured_and_taken_off():
    machine = Machine()

    def clock_ns() -> int:
        machine.now_ns += 40  # a clock that costs 40 ns a reading
        return machine.now_ns

    engine = Engine(BenchSpec(samples=3, warmup=0), synced=False, host=machine.host(clock_ns=clock_ns))
    for () in engine.calls():
        machine.body(2 * MS)
    record = engine.record()
    assert record.loop_overhead_s == 40e-9
    assert record.returns_s.tolist() == [0.002] * 3


def test_the_loop_of_each_run_is_taken_off_its_own_samples():
    machine = Machine()
    reading_ns = [40]

    def clock_ns() -> int:
        machine.now_ns += reading_ns[0]
        return machine.now_ns

    engine = Engine(BenchSpec(samples=3, runs=2, warmup=1), synced=False, host=machine.host(clock_ns=clock_ns))
    log = engine.phases.sampling.log
    for () in engine.calls():
        machine.body(3 * MS)
        reading_ns[0] = 40 if len(log.samples_s()) < 3 else 80  # the machine is half as fast in the second run
    record = engine.record()
    assert record.run_starts == (0, 3)
    assert record.returns_s.tolist() == [0.003] * 2 + [pytest.approx(0.003, abs=41e-9)] + [0.003] * 3
    assert record.loop_overhead_s == 80e-9


def test_a_body_of_nothing_takes_zero_and_never_less(monkeypatch):
    monkeypatch.setattr(warming, "MOST_CALLS", 10_000)  # where the clock never moves, blocks grow to their most calls
    record = Machine().measure(0, spec=BenchSpec(samples=2, warmup=0))
    assert record.returns_s.tolist() == [0.0] * 2
    assert record.loop_overhead_s == 0.0


def test_setup_runs_once_and_setup_each_before_every_sample_outside_the_clock():
    machine = Machine()
    order: list[str] = []

    def once() -> None:
        order.append("once")
        machine.work(500 * MS)

    def each() -> None:
        order.append("each")
        machine.work(70 * MS)

    record = machine.measure(100, spec=BenchSpec(samples=3, warmup=0, setup_each=each), setup=once)
    assert order == ["once"] + ["each"] * 4
    assert record.returns_s.tolist() == [100e-9] * 3
    assert record.calls_per_sample == 1


def test_work_of_setup_each_on_the_device_is_not_measured():
    machine = Machine(started=True)

    def each() -> None:
        machine.queue_end_ns = machine.now_ns + 40 * MS

    record = machine.measure(1 * MS, 5 * MS, spec=BenchSpec(samples=2, warmup=0, setup_each=each))
    assert record.done_s.tolist() == [0.006] * 2


def test_device_span_is_what_the_device_needs_with_the_queue_kept_full():
    machine = Machine()
    record = machine.measure(2 * MS, 3 * MS, synced=True)
    assert record.span_s.tolist() == [0.003] * 5
    assert record.span_calls_per_sample == 1
    assert machine.backlogs_s == [pytest.approx(0.003)] * 6  # 1.5 × returns; the first one finds k
    assert said(record) == ()


def test_short_device_work_is_measured_in_blocks_of_at_least_50_microseconds():
    record = Machine().measure(20_000, 6_000, synced=True)
    assert record.span_calls_per_sample == 9  # 50 / 6, rounded up
    assert record.span_s.tolist() == [pytest.approx(6e-6)] * 5


def test_a_block_of_spans_never_holds_more_launches_than_a_stream_does():
    # 200 µs of Python may be 100 launches of 2 µs: 5 calls make 500
    assert Machine().measure(200_000, 1_000, synced=True).span_calls_per_sample == 5
    assert Machine().measure(1_000, 10, synced=True).span_calls_per_sample == 50


def test_bench_takes_no_device_span():
    record = Machine().measure(2 * MS, 3 * MS)
    assert len(record.span_s) == 0
    assert record.span_calls_per_sample == 0


def test_a_body_that_synchronises_gets_a_warning_that_its_span_includes_waiting():
    machine = Machine()
    engine = machine.engine(synced=True)
    for () in engine.calls():
        machine.body(2 * MS, 3 * MS)
        machine.synchronize()
    assert said(engine.record()) == ("the cell synchronises: device span includes waiting",)


def test_python_that_needs_longer_than_any_backlog_is_not_called_synchronising():
    record = Machine().measure(60 * MS, 3 * MS, synced=True)
    (warning,) = said(record)
    assert warning.startswith("Python needs 60.0\u00a0ms, longer than the longest backlog")


def test_a_slow_spell_of_python_is_not_called_synchronising():
    machine = Machine()
    engine = machine.engine(synced=True)
    for () in engine.calls():
        machine.body((4 if machine.backlogs_s else 1) * MS, 30 * MS)
    assert said(engine.record()) == ("Python was slower than in the first pass: device span includes waiting for it",)


def test_a_device_without_a_backlog_says_that_gaps_are_included():
    (warning,) = said(Machine(backlog=False).measure(2 * MS, 3 * MS, synced=True))
    assert warning == "nothing could keep the queue full: device span includes waiting for Python"


def test_a_device_without_events_gives_returns_and_done_and_says_what_is_missing():
    record = Machine(events=False).measure(2 * MS, 3 * MS, synced=True)
    assert record.done_s.tolist() == [0.005] * 5
    assert len(record.span_s) == 0
    assert said(record) == ("no device records on cuda: no device span",)


class Recording:
    """Counts what is asked of it."""

    def __init__(self, refuse: bool = False) -> None:
        self.asked: list[str] = []
        self._refuse = refuse

    def start(self) -> None:
        self.asked.append("start")
        if self._refuse:
            raise CaptureError("another profiler is active")

    def stop(self):
        self.asked.append("stop")
        return make_trace([], TraceMeta("cell"))

    def give_back(self) -> None:
        self.asked.append("give back")


def test_the_recorded_run_is_the_last_one_and_happens_once():
    recording = Recording()
    record = Machine().measure(2 * MS, 3 * MS, synced=True, profile=lambda: recording)
    assert recording.asked == ["start", "stop"]
    assert record.trace is not None
    assert record.body_runs == 1 + 5 + (1 + 5) + 1


def test_a_disturbed_recorded_run_is_repeated_and_the_shortest_is_kept():
    lengths_ms = iter([1000, 50, 3, 2])

    class Disturbed(Recording):
        def stop(self):
            return make_trace([], TraceMeta("cell", end_ns=next(lengths_ms) * 1_000_000))

    record = Machine().measure(2 * MS, 3 * MS, synced=True, profile=Disturbed)
    assert record.trace.meta.end_ns == 3_000_000
    assert next(lengths_ms) == 2  # 3 ms are as long as done: nothing to repeat


def test_a_profiler_that_is_refused_costs_the_verdict_and_nothing_else():
    record = Machine().measure(2 * MS, 3 * MS, synced=True, profile=lambda: Recording(refuse=True))
    assert record.trace is None
    assert said(record) == ("no verdict: another profiler is active",)
    assert len(record.span_s) == 5


def test_a_recording_is_ended_when_its_run_is_left():
    machine, recording = Machine(), Recording()
    engine = machine.engine(synced=True, profile=lambda: recording)
    for () in engine.calls():
        machine.body(2 * MS, 3 * MS)
        if recording.asked:
            break  # leaves the loop as an error does: the engine is not notified
    engine.close()
    assert recording.asked == ["start", "give back"]
    assert engine.record().trace is None


def test_an_error_in_a_later_call_keeps_the_samples_before_it():
    machine = Machine()
    engine = machine.engine()
    try:
        for () in engine.calls():
            machine.body(2 * MS, 1 * MS)
            if machine.runs == 4:
                raise ValueError("no good\nat all")
    except ValueError as error:
        engine.failed(error)
    engine.close()
    record = engine.record()
    assert record.returns_s.tolist() == [0.002] * 2
    assert record.done_s.tolist() == [0.003] * 2
    assert record.failed == "ValueError: no good"
    assert record.stopped_by == "ended early: ValueError: no good"
    assert record.body_runs == 4


def test_an_interrupt_in_the_first_call_leaves_a_record_without_samples():
    machine = Machine()
    engine = machine.engine()
    try:
        for () in engine.calls():
            raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        engine.failed(error)
    engine.close()
    record = engine.record()
    assert len(record.returns_s) == len(record.first_calls_s) == 0
    assert record.failed == "interrupted"
    assert record.body_runs == 1


def test_runs_of_a_block_left_in_the_middle_are_counted():
    machine = Machine()
    engine = machine.engine(BenchSpec(samples=3, warmup=0))
    for () in engine.calls():
        machine.body(100)
        if machine.runs == 43_210:  # 1 first call, blocks up to 10,000, a sample of 20,000 and a part of the next
            break
    engine.close()
    assert engine.record().body_runs == 43_210
    assert len(engine.record().returns_s) == 1


def test_an_older_error_of_the_device_is_not_blamed_on_this_cell():
    machine = Machine(started=True)

    def broken() -> None:
        raise RuntimeError("illegal memory access")

    machine.synchronize = broken
    engine = machine.engine()
    with pytest.raises(CaptureError, match="work queued before this cell failed: illegal memory access"):
        next(engine.calls())


def test_an_engine_runs_once():
    machine = Machine()
    engine = machine.engine()
    for () in engine.calls():
        machine.body(1 * MS)
    with pytest.raises(CaptureError, match="has been run already"):
        engine.calls()


def test_load_on_the_machine_is_said():
    record = Machine().measure(1 * MS, load=lambda: 9.0)
    (warning,) = said(record)
    assert warning.startswith("load average 9.0 on ")
    assert "other processes were running" in warning


def test_an_earlier_profile_is_said_where_it_slows_launches(monkeypatch):
    monkeypatch.setattr(watchers, "profiled_before", lambda: True)
    assert "a profile was taken earlier in this process" in said(Machine().measure(1 * MS, 1 * MS))[0]
    assert said(Machine().measure(1 * MS)) == ()  # no CUDA, no CUPTI


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"samples": 0}, "samples=0: at least one sample is needed"),
        ({"samples": 0, "magic": "%%bench"}, "--samples 0: at least one sample is needed"),
        ({"max_samples": -3}, "max_samples=-3: at least one sample is needed"),
        ({"time_s": 0.0}, "time=0: a time above 0 s is needed"),
        ({"time_s": math.nan, "magic": "%%bench"}, "--time nan: a time above 0 s is needed"),
        ({"rel": 1.5}, "rel=1.5: a fraction between 0 and 1 is needed, 0.01 for 1 %"),
        (
            {"cold": True, "calls": 5},
            (
                "cold=True, calls=5: only the first call of a sample would find cold caches\n"
                "Hint: leave out calls, or cold"
            ),
        ),
        (
            {"cold": True, "calls": 5, "magic": "%%bench"},
            (
                "--cold --calls 5: only the first call of a sample would find cold caches\n"
                "Hint: leave out --calls, or --cold"
            ),
        ),
    ],
)
def test_values_that_cannot_be_used_are_refused_in_one_line(values, words):
    with pytest.raises(OptionError) as caught:
        BenchSpec(**values)
    assert str(caught.value) == words


def test_a_device_the_body_leaves_alone_has_no_done():
    machine = Machine(started=True)
    machine.progress = lambda _index=None: 5
    record = machine.measure(1 * MS)
    assert len(record.done_s) == 0
    assert record.devices == ()
    assert not any("nothing was queued" in w for w in said(record))  # nobody asked who was the bottleneck
    asked = Machine(started=True)
    asked.progress = lambda _index=None: 5
    assert any("nothing was queued on the fake device" in w for w in said(asked.measure(1 * MS, synced=True)))
    assert len(Machine(started=True).measure(1 * MS).done_s) > 0  # a device that does not tell may have worked


def test_the_peak_is_of_the_body_and_not_of_the_set_up_code_before_it():
    machine = Machine(started=True)
    machine.held = 100

    def setup() -> None:
        machine.peak = 900
        machine.held = 200

    engine = machine.engine(BenchSpec(samples=2, warmup=0, setup_each=setup))
    for () in engine.calls():
        machine.body(1 * MS, 1 * MS)
        machine.peak = max(machine.peak, 300)
    record = engine.record()
    assert (record.held_bytes, record.peak_bytes) == (200, 300)


def conditions_interleaved(machine: Machine, first: Callable[[], None], second: Callable[[], None]):
    engines = [machine.engine(BenchSpec(samples=8, warmup=0)) for _ in range(2)]
    together = Interleaved(engines, decide_s=0.0, clock_ns=machine.clock_ns)
    run(BodyLoop(together.whole(), machine.clock_ns), [first, second])
    return [engine.record().conditions for engine in engines]


def test_what_a_body_leaves_behind_is_not_said_of_the_one_it_is_interleaved_with():
    machine = Machine(started=True)
    machine.held = 0

    def leaves() -> None:
        machine.body(1 * MS, 1 * MS)
        machine.held += 4096

    nothing, (grew,) = conditions_interleaved(machine, lambda: machine.body(1 * MS, 1 * MS), leaves)
    assert nothing == ()
    assert (grew.kind, grew.values["bytes_per_call"]) == ("memory grew", 4096)


def test_each_sample_finds_other_memory_taken():
    machine, taken_bytes = Machine(), []

    def body() -> None:
        machine.body(1 * MS)
        taken_bytes.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    conditions_interleaved(machine, body, body)
    tracemalloc.stop()
    assert max(taken_bytes[-10:]) - min(taken_bytes[-10:]) > 100_000


@pytest.mark.parametrize("call_s", [0.002, 8.0])
def test_the_samples_asked_for_are_taken_of_interleaved_bodies_however_long_they_take(call_s: float) -> None:
    machine = Machine()
    engines = [machine.engine(BenchSpec(samples=10, warmup=0)) for _ in range(2)]
    together = Interleaved(engines, decide_s=0.0, clock_ns=machine.clock_ns)
    run(BodyLoop(together.whole(), machine.clock_ns), [lambda: machine.body(round(call_s * 1e9))] * 2)
    records = [engine.record() for engine in engines]
    assert [len(record.returns_s) for record in records] == [10, 10]
    assert {record.stopped_by for record in records} == {"took the 10 samples asked for"}


def test_the_time_asked_for_is_taken_for_each_of_interleaved_bodies() -> None:
    machine = Machine()
    engines = [machine.engine(BenchSpec(time_s=100.0, rel=1e-9, warmup=0)) for _ in range(2)]
    lengths_ms = iter(range(5000, 50_000, 100))  # each call is longer: neither interval nor noise end it
    together = Interleaved(engines, decide_s=0.0, clock_ns=machine.clock_ns)
    run(BodyLoop(together.whole(), machine.clock_ns), [lambda: machine.body(next(lengths_ms) * MS)] * 2)
    for record in (engine.record() for engine in engines):
        assert sum(record.returns_s) == pytest.approx(100, rel=0.1)
        assert record.stopped_by.startswith("stopped at the cap of 100\u00a0s")


def test_memory_that_the_other_body_gives_back_does_not_grow():
    machine = Machine(started=True)
    machine.held = 0

    def holds(held: int) -> Callable[[], None]:
        def body() -> None:
            machine.body(1 * MS, 1 * MS)
            machine.held = held

        return body

    assert conditions_interleaved(machine, holds(65_536), holds(0)) == [(), ()]


@pytest.mark.parametrize("work", [{"flop": 0}, {"moved_bytes": 0.0}, {"flop": math.inf}, {"flop": math.nan}])
def test_work_is_more_than_none_and_less_than_infinite(work: dict[str, float]):
    with pytest.raises(OptionError, match="a number above 0 is needed"):
        BenchSpec(**work)


def test_a_rest_comes_before_every_sample_and_outside_the_clock():
    machine, rests_s = Machine(), []

    def rest(seconds: float) -> None:
        rests_s.append(seconds)
        machine.work(round(seconds * 1e9))

    record = machine.measure(2 * MS, 3 * MS, spec=BenchSpec(samples=4, warmup=0, cooldown_s=0.5), rest=rest)
    assert rests_s == [0.5] * 5  # the first call and four samples
    assert record.done_s.tolist() == [0.005] * 4
