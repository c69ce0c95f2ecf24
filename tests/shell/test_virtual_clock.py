"""Magics on a virtual clock: what they show is computed, the same each time, and says so."""

import gc
from collections.abc import Iterator

import pytest

from .conftest import HEADS, Notebook, Ran

pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic
from perfmagic import sim
from perfmagic.base import language
from perfmagic.capture import other_clocks
from perfmagic.sim.virtual import OP_NS


@pytest.fixture(autouse=True)
def _virtual(notebook: Notebook) -> Iterator[None]:
    gc.collect()  # memory that an earlier test's traceback holds would end in a cell here
    sim.load(clock="virtual")
    notebook.run(
        "import torch, perfmagic; x = torch.ones(64, 64, device=perfmagic.device(pace='matmul=2ms')); y = x @ x"
    )
    yield
    sim.load(clock="real")
    sim.set_pace(None)


@pytest.mark.parametrize("magic", HEADS)
def test_every_magic_says_that_its_clock_is_virtual_and_repeats_itself(notebook: Notebook, magic: str) -> None:
    reports = [notebook.run(f"{HEADS[magic]}\nfor _ in range(3):\n    y = x @ x").report for _ in range(2)]
    assert "virtual clock: matmul 2" in " ".join(reports[0].split())
    assert reports[0] == reports[1]


@pytest.mark.parametrize(("more", "verdict"), [("", "slower"), (" + 1", "not comparable")])
def test_awaited_variants_have_their_times_and_their_verdict(notebook: Notebook, more: str, verdict: str) -> None:
    notebook.run(
        "import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    for _ in range(n): y = x @ x\n    return y"
    )
    notebook.run(f"%%bench --vs -n 4 --inputs x -o c\ny = await f(1)\n# --- B\ny = await f(2){more}")
    found = notebook.names["c"]
    assert found.verdict == verdict
    assert [round(result.done_s * 1e3, 1) for result in found.results] == [2.0, 4.0]


def test_host_code_has_no_virtual_time(notebook: Notebook) -> None:
    assert "only the simulated device's work takes time" in notebook.run("%%bench\nsum(range(9))").traceback
    assert "cpu has no virtual time" in notebook.run("%%timeline --device cpu\nx + 1").refusal


def told(ran: Ran) -> str:
    """What a cell printed and showed, in one line."""
    return " ".join(f"{ran.printed} {ran.report}".split())


@pytest.mark.parametrize("head", ["", "%%timeline", "%%memory", "%%syncbench"])
def test_a_cell_that_reads_another_clock_is_told_so_once(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    monkeypatch.setattr(other_clocks, "_noted", [])
    notebook.run("import time")
    said = "he device's clock is virtual; time.time() reads this machine's: use perfmagic.Benchmark"
    first, second = (told(notebook.run(f"{head}\nt0 = time.time()\ny = x @ x\nt0")) for _ in range(2))
    assert first.count(said) == 1
    assert said not in second


def test_it_is_told_in_the_language_in_force(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_clocks, "_noted", [])
    monkeypatch.setattr(language, "_chosen", ["zh"])
    assert "设备用的是虚拟时钟" in notebook.run("import time\nt0 = time.time()").printed


def test_on_the_real_clock_nothing_is_told(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_clocks, "_noted", [])
    sim.load(clock="real")
    assert "clock" not in told(notebook.run("import time\nt0 = time.time()"))
    assert other_clocks._noted == []


@pytest.mark.parametrize(
    ("source", "call"),
    [
        ("t.perf_counter()", "t.perf_counter()"),
        ("from time import monotonic_ns as now\nprint(now())", "now()"),
        ("def f():\n    import time\n    return time.time_ns()", "time.time_ns()"),
        ("from datetime import datetime\ndatetime.now()", "datetime.now()"),
        ("import datetime\ndatetime.datetime.now()", "datetime.datetime.now()"),
        ("import timeit\ntimeit.timeit(f, number=3)", "timeit.timeit()"),
        ("y = 1\n%timeit y + 1", "%timeit"),
        ("%%timeline\n!ls\nt.time()", "t.time()"),
        ("t.sleep(1)\ntime.time\nclock.time()", ""),  # no clock is read; no module of that name
        ("%%timeline\nx = (", ""),
    ],
)
def test_which_calls_read_another_clock(source: str, call: str) -> None:
    import time

    assert other_clocks.other_clock(source, {"t": time, "clock": object()}) == call


_STEP = """x = torch.ones(64, 64, device=device)
y = x @ x
if rank == 1:
    y = y @ x
dist.all_reduce(y)"""


@pytest.mark.slow
def test_ranks_keep_the_clock_of_the_notebook_or_their_own_and_begin_each_cell_at_one_instant(
    notebook: Notebook,
) -> None:
    setup = "import torch, torch.distributed as dist, perfmagic\ndevice = perfmagic.device(pace='mm=2ms, link=1GB/s')"
    try:
        ran = notebook.run(f"%%ranks -n 2 --plain\n{setup}\nif rank: z = torch.ones(9, device=device)")
        assert ran.error is None
        first, second = (notebook.run(f"%%ranks -o r\n{_STEP}").report for _ in range(2))
        assert first == second
        assert "2.00 ms more on rank 1" in " ".join(first.split()).replace("Rank", "rank")
        result = notebook.names["r"]
        assert result.clocks.words.startswith("one virtual clock")
        assert (result.clocks.bound_ns, result.clocks.moved_ns) == (0, {})
        assert len({timeline.trace.meta.base_unix_ns for timeline in result.timelines}) == 1
        assert {timeline.trace.meta.waited_for_core_ns for timeline in result.timelines} == {None}
        ((met,),) = [result.meetings()]
        assert met.waiting_ns == (2_000_000, 0)
        assert "virtual" not in notebook.run(f"%%ranks --clock real\n{_STEP}").report  # variables stay
        assert notebook.run(f"%%ranks --clock virtual\n{_STEP}").report == first
        assert "cpu has no virtual clock" in notebook.run("%%ranks --device cpu --clock virtual\n1").refusal
        assert "while something is recorded" in notebook.run('%%ranks\nperfmagic.device(clock="real")').traceback
    finally:
        perfmagic.ranks().stop()


def test_a_sleep_in_a_cell_takes_its_time(notebook: Notebook) -> None:
    body = "import time\n{}y = x @ x"
    ends_ns = []
    for sleep in ("", "time.sleep(0.05)\n"):
        notebook.run(f"%%timeline -o t\n{body.format(sleep)}")
        ends_ns.append(notebook.names["t"].trace.meta.end_ns)
    assert ends_ns[1] - ends_ns[0] == 50_000_000
    notebook.run("with perfmagic.Benchmark() as timed:\n    time.sleep(0.05)")
    assert notebook.names["timed"].returned_s == 0.05


_SLEEP = """if rank:
    sleep(3600)  # nobody waits for that
dist.all_reduce(y)"""
_STORES = """import perfmagic.base.clock as clock
from torch.distributed.elastic.utils.store import barrier
store, spent_ns = dist.distributed_c10d._get_default_store(), {}
def timed(name, late, *calls):
    dist.barrier()
    before_ns = clock.now_ns()
    if rank == late:
        time.sleep(0.1)
    else:  # and comes last all the same
        time.sleep.__wrapped__(0.2)
    calls[rank % len(calls)]()
    spent_ns[name] = clock.now_ns() - before_ns
setting, reading = (lambda: store.set("key", "value")), (lambda: store.get("key"))
timed("get of what comes later", 1, reading, setting)
timed("wait for what was there", 0, lambda: store.wait(["key"]), lambda: store.multi_get(["key"]))
timed("barrier of torch", 1, lambda: barrier(store, 2, "first"))
timed("barrier of the store", 0, lambda: store.barrier("second", 2))
timed("counter", 1, lambda: store.add("third", 1))
spent_ns"""


@pytest.mark.slow
def test_ranks_that_sleep_or_call_a_store_take_virtual_time(notebook: Notebook) -> None:
    setup = (
        "import time, torch, torch.distributed as dist, perfmagic\nfrom time import sleep\n"
        "y = torch.ones(64, device=perfmagic.device(pace='link=1MB/s, latency=10us'))"
    )
    try:
        assert notebook.run(f"%%ranks -n 2 --plain\n{setup}").error is None
        notebook.run(f"%%ranks -o r\n{_SLEEP}")
        ((met,),) = [notebook.names["r"].meetings()]
        assert met.waiting_ns == (3_600 * 10**9, 0)
        assert notebook.run(f"%%ranks --plain\n{_STORES}").error is None
        first, second = perfmagic.ranks()["spent_ns"]
        late, five_bytes, message = 100_000_000, 15_000, 10_000
        assert first == {
            "get of what comes later": late + five_bytes,
            "wait for what was there": late,
            "barrier of torch": late + message + 13_000,
            "barrier of the store": late + message,
            "counter": late,
        }
        assert second == {**first, "get of what comes later": late, "wait for what was there": 0}
    finally:
        perfmagic.ranks().stop()


def test_a_wait_for_a_copy_has_the_name_that_its_line_writes(notebook: Notebook) -> None:
    notebook.run("import perfmagic, torch\ndevice = perfmagic.device('sim', clock='virtual', pace='mm=1ms')")
    notebook.run("x, host = torch.ones(2, 2, device=device), torch.ones(2, 2)")
    lines = {
        "print(x.mm(x))": "print()",
        "print(x.mm(x).cpu())": ".cpu()",
        "x.mm(x).tolist()": ".tolist()",
        "x.to('cpu').eq(x.cpu())": ".to()",  # either
        "host[:] = x": "assigning to a slice",
        "host.copy_(x)": ".copy_()",
    }
    notebook.run("\n".join(["%%timeline -o t", *lines]))
    asked = {sync.line: sync.asked_by for sync in notebook.names["t"].syncs() if not sync.after_cell}
    assert asked == dict(enumerate(lines.values(), 2))


@pytest.mark.slow
def test_a_sweep_gives_compute_and_link_exactly(notebook: Notebook) -> None:
    setup = (
        "import torch, torch.distributed as dist, perfmagic\n"
        "device = perfmagic.device(pace='mm=2ms, link=1GB/s, latency=10us')\n"
        "x, y = torch.ones(8, 8, device=device), torch.ones(250_000, device=device)"
    )
    code = "z = x @ x\ndist.all_reduce(y)\ndist.all_reduce(y)"
    swept = perfmagic.sweep_ranks(code, (1, 2, 4, 8), setup=setup, runs=2)
    lost_ns = [row.time_ns - swept.table[0].time_ns for row in swept.table]
    ring_ns = {k: 2 * (k - 1) * 10_000 + 2 * (k - 1) / k * 1_000_000 for k in (2, 4, 8)}
    # both wait for the product; one rank has no link, and its two ops take as long as others
    assert lost_ns == [0, *(2 * (ring_ns[k] - OP_NS) for k in (2, 4, 8))]
