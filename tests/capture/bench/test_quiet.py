import cProfile
import gc
import platform
import subprocess
import sys

import pytest

import perfmagic
from perfmagic.capture.bench import quiet
from perfmagic.capture.bench.engine import BenchSpec
from perfmagic.capture.bench.spec import Host
from tests.capture.bench.machine import MS, Machine


def state():
    return gc.isenabled(), sys.gettrace(), sys.getprofile(), sys.stdout, sys.stderr, sys.displayhook


def hook(frame, event, arg):
    """A trace or profile hook that does nothing."""


@pytest.fixture
def hooked():
    before = sys.gettrace(), sys.getprofile()
    sys.settrace(hook)
    sys.setprofile(hook)
    yield
    sys.settrace(before[0])
    sys.setprofile(before[1])


@pytest.mark.usefixtures("hooked")
def test_collection_and_hooks_are_off_in_every_run_and_back_afterwards():
    before, machine = state(), Machine()
    engine = machine.engine()
    seen = set()
    for () in engine.calls():
        machine.body(1 * MS)
        seen.add((gc.isenabled(), sys.gettrace(), sys.getprofile()))
    assert seen == {(False, None, None)}
    assert state() == before


@pytest.mark.usefixtures("hooked")
@pytest.mark.parametrize("run", [1, 2, 5])
def test_everything_is_put_back_when_the_loop_is_left(run):
    before, machine = state(), Machine()
    engine = machine.engine()
    for () in engine.calls():
        machine.body(1 * MS, 1 * MS)
        if machine.runs == run:
            break  # leaves the loop as an error does: the engine is not notified
    engine.close()
    assert state() == before


def test_the_profiler_of_python_stands_still_and_goes_on_afterwards():
    def seen_after():
        return 1

    machine, profiler, seen = Machine(), cProfile.Profile(), set()
    with profiler:
        for () in machine.engine().calls():
            machine.body(1 * MS)
            seen.add(sys.getprofile())
        seen_after()
        assert sys.version_info >= (3, 12) or sys.getprofile() is profiler
    assert seen == {None}
    assert "seen_after" in {getattr(each.code, "co_name", "") for each in profiler.getstats()}


def test_the_first_output_is_shown_and_that_of_later_runs_dropped(capsys):
    machine = Machine()
    engine = machine.engine()
    for () in engine.calls():
        machine.body(1 * MS)
        print("out", machine.runs)
        print("err", machine.runs, file=sys.stderr)
    print("after")
    out, err = capsys.readouterr()
    assert out == "out 1\nafter\n"
    assert err == "err 1\n"


def test_a_body_that_prints_gets_a_warning_that_printing_is_not_measured(capsys):
    def said(body):
        return "\n".join(map(str, perfmagic.bench(body, samples=6, warmup=0).warnings))

    assert "it prints: output is dropped from the second call on" in said(lambda: print("x"))
    assert "it prints" not in said(lambda: None)
    comparison = perfmagic.compare(lambda: print("x"), lambda: None, samples=6, warmup=0)
    assert ["it prints" in "".join(map(str, result.warnings)) for result in comparison.results] == [True, False]
    assert capsys.readouterr().out == "x\nx\n"


def test_display_in_a_running_shell_is_dropped_and_its_publisher_put_back(monkeypatch):
    ipython = pytest.importorskip("IPython")

    class Shell:
        display_pub = "publisher"

    shell = Shell()
    monkeypatch.setattr(ipython, "get_ipython", lambda: shell)
    muted = quiet.Quiet()
    muted.mute()
    shell.display_pub.publish({"text/plain": "x"})
    sys.displayhook("x")
    muted.end()
    assert shell.display_pub == "publisher"


def test_garbage_is_collected_where_python_would_have_and_not_before():
    undisturbed = quiet.Quiet()
    try:
        undisturbed.begin()
        assert not quiet.collect_when_due()
        kept = [[] for _ in range(gc.get_threshold()[0] + 100)]
        assert quiet.collect_when_due()
        assert gc.get_count()[0] < 100
    finally:
        undisturbed.end()
    assert kept


def test_cycles_do_not_pile_up_over_the_samples():
    machine = Machine()
    engine = machine.engine(BenchSpec(samples=300, warmup=0))
    most = 0
    for () in engine.calls():
        machine.body(1 * MS)
        for _ in range(20):
            cycle: list[object] = []
            cycle.append(cycle)
        most = max(most, gc.get_count()[0])
    assert most < gc.get_threshold()[0] + 200


def test_load_counts_only_above_the_number_of_cores(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (2.6, 0.0, 0.0), raising=False)
    assert Host().load() == 2.6
    monkeypatch.setattr("os.getloadavg", lambda: (2.0, 0.0, 0.0), raising=False)
    assert Host().load() == 0


def test_an_interrupt_while_output_is_being_dropped_puts_all_of_it_back(monkeypatch):
    class Stream(quiet._Dropped):
        def __init__(self) -> None:
            made.append(self)
            if len(made) == 2:
                raise KeyboardInterrupt

    made: list[object] = []
    monkeypatch.setattr(quiet, "_Dropped", Stream)
    before = sys.stdout, sys.stderr, sys.displayhook
    muted = quiet.Quiet()
    with pytest.raises(KeyboardInterrupt):
        muted.mute()
    muted.end()
    assert before == (sys.stdout, sys.stderr, sys.displayhook)


_RESULTS_IN_TURNS = """
import ctypes
import numpy as np
from perfmagic.capture.bench.quiet import Quiet

Quiet().begin()
sbrk = ctypes.CDLL(None).sbrk
sbrk.restype, sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
ones, kept, ends = np.ones(500_000), [None, None], []
for i in range(30):
    kept[i % 2] = ones * 2 + ones
    ends.append(sbrk(0))
    if i % 2:
        kept[:] = None, None  # as the checks of a comparison do
    ends.append(sbrk(0))
print(sum(a != b for a, b in zip(ends[20:], ends[21:])))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries decide in other ways")
def test_large_results_that_are_freed_serve_the_next_call():
    found = subprocess.run([sys.executable, "-c", _RESULTS_IN_TURNS], capture_output=True, text=True, check=True)
    assert int(found.stdout) <= 4  # moves of the heap's end in 20 calls; without it each call has one or two
