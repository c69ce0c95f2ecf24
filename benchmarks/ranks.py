"""What many processes from one cell cost: to start, to run a cell, to fail, to be recorded.

    python benchmarks/ranks.py [ranks] [cpu|sim] [--spawn] [--ipyparallel]

Processor seconds are of all processes together, and are what counts on a busy machine; seconds are medians.
--spawn: also started one by one, each with an import of torch. --ipyparallel: also engines with %%px, which start no
process group, and ranks beside them; left out with a word where it is not installed. Linux, torch.
"""

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import perfmagic
from perfmagic.api.ranks.session import Ranks

TICKS = os.sysconf("SC_CLK_TCK")
CELLS = 40
FAILURES = 6
PAIRS = 8
SETUP = """import torch, perfmagic, torch.distributed as dist, torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
t = torch.ones(8)
"""
DDP = """d = perfmagic.device("sim", pace="matmul=3ms")
model = DDP(nn.Sequential(*[nn.Linear(256, 256) for _ in range(6)]).to(d), bucket_cap_mb=0.5)
opt = torch.optim.SGD(model.parameters(), 0.1)
x = torch.randn(64, 256, device=d)
def steps(n):
    for _ in range(n):
        opt.zero_grad(); loss = model(x).square().mean(); loss.backward(); opt.step()
    return loss.item()
steps(2)
"""


def main() -> None:
    """Print a line for each figure."""
    words = sys.argv[1:]
    n = next((int(word) for word in words if word.isdecimal()), 4)
    device = "sim" if "sim" in words else "cpu"
    one_s = of_program("import torch, torch.distributed")
    print(f"{n} ranks on {device}; one import of torch takes {one_s:.1f} processor seconds")
    ranks, ours_s = started(n, device, "forked", one_s)
    ours_cell_s = cell_s(ranks)
    ranks.run(SETUP)
    fails = "if rank == 1: raise ValueError('x')\ndist.all_reduce(t)"
    print(
        f"a rank fails and the others wait for it: {median(lambda: failed(ranks, fails), FAILURES):.2f} s to the prompt"
    )
    print(f"the next cell, whose groups are made anew: {after_failure(ranks, fails):.3f} s")
    if device == "sim":
        recorded(ranks)
    ranks.stop()
    if "--spawn" in words:
        os.environ["PERFMAGIC_RANKS"] = "spawn"
        from perfmagic.capture.ranks import session

        session.close_drivers()
        spawned, spawn_s = started(n, device, "started one by one", one_s)
        print(f"  {spawn_s / ours_s:.1f} times the processor time of forking")
        cell_s(spawned, ours_cell_s)
        spawned.stop()
    if "--ipyparallel" in words:
        on_engines(n, device, ours_s, ours_cell_s)


def on_engines(n: int, device: str, ours_s: float, ours_cell_s: float) -> None:
    """The same by ipyparallel's engines alone, then by ranks beside them."""
    if importlib.util.find_spec("ipyparallel") is None:
        print("ipyparallel is not installed: left out")
        return
    import ipyparallel
    import psutil

    with tempfile.TemporaryDirectory() as home:
        before, begin_s = family(psutil), time.perf_counter()
        cluster = ipyparallel.Cluster(n=n, profile_dir=home, cluster_id="bench", log_level=40)
        client = cluster.start_and_connect_sync(activate=False)
        try:
            client[:].execute("import torch, torch.distributed", block=True)
            wall_s, processes = time.perf_counter() - begin_s, family(psutil)
            all_s = sum(processes.values()) - sum(before.values())
            print(
                f"ipyparallel, {n} engines with torch: {all_s:.1f} processor seconds, {all_s / ours_s:.1f} times ours; "
                f"{wall_s:.1f} s; {len(processes) - len(before)} processes"
            )
            px_s = median(lambda: client[:].execute("pass", block=True), CELLS)
            print(f"  a cell of %%px that does nothing: {1e3 * px_s:.1f} ms, {px_s / ours_cell_s:.1f} times ours")
            file = Path(home) / "security" / "ipcontroller-bench-client.json"
            ranks = perfmagic.ranks(n, device=device, cluster=str(file))
            print("  ranks beside these engines:")
            cell_s(ranks, ours_cell_s)
            ranks.run(SETUP)
            fails = "if rank == 1: raise ValueError('x')\ndist.all_reduce(t)"
            print(f"  a rank fails: {median(lambda: failed(ranks, fails), FAILURES):.2f} s to the prompt")
            ranks.stop()
        finally:
            cluster.stop_cluster_sync()


def family(psutil: Any) -> dict[int, float]:
    """The processor seconds of all processes that this one has started, and theirs."""
    found = {}
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            times = one.cpu_times()
            found[one.pid] = times.user + times.system
    return found


def cell_s(ranks: Ranks, ours_s: float | None = None) -> float:
    """Say how long a cell takes that does nothing, and how that compares."""
    found_s = median(lambda: ranks.run("pass"), CELLS)
    times = "" if ours_s is None else f", {found_s / ours_s:.1f} times that of forked ranks"
    print(f"{'' if ours_s is None else '  '}a cell that does nothing: {1e3 * found_s:.1f} ms{times}")
    return found_s


def started(n: int, device: str, how: str, one_s: float) -> tuple[Ranks, float]:
    """Start ranks, say what that took, and give them with the processor seconds."""
    before_s, begin_s = own_cpu_s(), time.perf_counter()
    ranks = perfmagic.ranks(n, device=device)
    ranks.run("pass")
    wall_s = time.perf_counter() - begin_s
    pids = [peer.started.pid for peer in ranks._session.peers]
    server = getattr(ranks._session._driver, "_process", None)
    all_s = own_cpu_s() - before_s + sum(cpu_s(pid) for pid in [*pids, *([server.pid] if server else [])])
    private_mb = statistics.mean(private_bytes(pid) for pid in pids) / 1e6
    print(
        f"{how}: {all_s:.1f} processor seconds, {all_s - one_s:.1f} beyond one import of torch; {wall_s:.1f} s; "
        f"{private_mb:.0f} MB private a rank"
    )
    return ranks, all_s


def recorded(ranks: Ranks) -> None:
    """A cell of DDP plain and recorded in turns, without the picture and with it."""
    ranks.run(DDP)
    for n_steps in (2, 10):
        plain, record, whole = [], [], []
        for _ in range(PAIRS):
            plain.append(timed(lambda: ranks.run(f"steps({n_steps});")))  # noqa: B023 - called at once
            record.append(timed(lambda: ranks._session.run(f"%%ranks\nsteps({n_steps});", record={})))  # noqa: B023
            whole.append(timed(lambda: ranks.run(f"steps({n_steps});", record=True)))  # noqa: B023
        base_s, with_s, all_s = map(statistics.median, (plain, record, whole))
        print(
            f"{n_steps} steps of DDP: {1e3 * base_s:.0f} ms, recorded {1e3 * with_s:.0f} ms "
            f"({100 * (with_s / base_s - 1):+.0f} %), with the result's numbers {1e3 * all_s:.0f} ms"
        )


def failed(ranks: Ranks, code: str) -> None:
    """A cell that fails."""
    with suppress(perfmagic.RanksError):
        ranks.run(code)


def after_failure(ranks: Ranks, code: str) -> float:
    """How long the cell after a failed one takes, the median."""
    found = []
    for _ in range(FAILURES):
        failed(ranks, code)
        found.append(timed(lambda: ranks.run("pass")))
    return statistics.median(found)


def median(call: Callable[[], object], times: int) -> float:
    """The median time of a call, in seconds."""
    return statistics.median(timed(call) for _ in range(times))


def timed(call: Callable[[], object]) -> float:
    """How long one call takes, in seconds."""
    begin_s = time.perf_counter()
    call()
    return time.perf_counter() - begin_s


def of_program(code: str) -> float:
    """The processor seconds of a Python program."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def own_cpu_s() -> float:
    """The processor seconds of this process."""
    return time.process_time()


def cpu_s(pid: int) -> float:
    """The processor seconds of a process that runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def private_bytes(pid: int) -> int:
    """The memory that a process shares with no other."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(row.split()[1]) * 1024 for row in rows if row.startswith("Private_"))


if __name__ == "__main__":
    main()
