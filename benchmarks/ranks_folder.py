"""What does it cost to open a folder with the files of a thousand ranks: seconds, CPU a rank, peak memory?

    python benchmarks/ranks_folder.py [--ranks 1000] [--workers 0 1 2] [--folder DIR] [--peers DIR]

The files are made from recorded ones, eight ranks of a training step on eight V100 (tests/data/traces): rank r is rank
r modulo 8, its times shifted as the clock of its host is off, its collectives begun up to 90 % of their time later at
random, and with the numbers of the larger job. They end when they ended, so that ranks still leave them together.

Each run is a new process, its start and imports included. Peak memory is the most that it and the workers it started
held at one time, each page in proportion to the processes that share it (/proc, looked at every 50 ms). CPU is that of
all of them. "reduce" is what the parent does when all files are read: clocks, collectives, table and findings.
"a rank" is CPU of the whole run less that of an empty one, by ranks. 0 workers: one file after the other here; else
a ProcessPoolExecutor. "bytes_a_rank" is what travels from a worker.

--peers DIR has, or gets, an environment with HolisticTraceAnalysis (see open_trace.py). It runs its breakdown of time
and its overlap of communication on each number of --peer-ranks, until it fails, passes --peer-seconds or --peer-mb.
Linux.
"""

import argparse
import contextlib
import gzip
import json
import lzma
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "tests" / "data" / "traces" / "real" / "dlrm_8ranks"
LATEST_FRAC = 0.9  # of a collective's time
A_HOST = 8  # ranks
SKEW_US = 5_000.0  # of a host's clock, at most: two hosts under NTP
POLL_S = 0.05


def make(folder: Path, n_ranks: int) -> None:
    """Write a file for each rank."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [lzma.decompress(path.read_bytes()) for path in sorted(SOURCES.glob("*.xz"))]
    for rank in range(n_ranks):
        path = folder / f"rank{rank}.pt.trace.json.gz"
        if not path.exists():
            data = varied(json.loads(texts[rank % len(texts)]), rank, n_ranks)
            path.write_bytes(gzip.compress(json.dumps(data).encode(), 1))
    for path in folder.glob("rank*.gz"):
        if int(path.name.partition(".")[0].removeprefix("rank")) >= n_ranks:
            path.unlink()


def varied(data: dict[str, Any], rank: int, n_ranks: int) -> dict[str, Any]:
    """One recorded rank as another one of a larger job."""
    host, own = random.Random(rank // A_HOST), random.Random(rank)
    skew_us = round(host.uniform(-SKEW_US, SKEW_US), 3)
    data["distributedInfo"] = {**data.get("distributedInfo", {}), "rank": rank, "world_size": n_ranks}
    for event in data["traceEvents"]:
        if isinstance(event.get("ts"), (int, float)):
            event["ts"] += skew_us
        if event.get("cat") == "kernel" and "nccl" in event["name"].lower():
            later_us = round(event["dur"] * own.uniform(0, LATEST_FRAC), 3)
            event["ts"], event["dur"] = event["ts"] + later_us, event["dur"] - later_us
    return data


def tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):  # one that ended meanwhile
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
    return found


def held_mb(pid: int) -> float:
    """What a process and its descendants hold, shared pages in proportion."""
    total_kb = 0
    for one in tree(pid):
        with contextlib.suppress(OSError):
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text()
            total_kb += next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return total_kb * 1024 / 1e6


def measured(command: list[str], *, most_s: float, most_mb: float) -> dict[str, Any]:
    """Run one command to its end, or to a limit: wall, CPU, peak, and what it printed last."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if command[0] == sys.executable:
        environment["PYTHONPATH"] = str(HERE.parent)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    since, peak, ended_by = time.perf_counter(), 0.0, ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        child = subprocess.Popen(command, stdout=out, stderr=log, env=environment)
        while child.poll() is None:
            peak = max(peak, held_mb(child.pid))
            if peak > most_mb or time.perf_counter() - since > most_s:
                ended_by = f"more than {most_mb:.0f} MB" if peak > most_mb else f"more than {most_s:.0f} s"
                for one in reversed(tree(child.pid)):
                    os.kill(one, 9)
                child.wait()
            time.sleep(POLL_S)
        wall_s = time.perf_counter() - since
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        log.seek(0)
        printed, words = out.read().decode().strip(), log.read().decode(errors="replace").strip()
    if child.returncode and not ended_by:
        ended_by = words.splitlines()[-1] if words else f"exit status {child.returncode}"
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row: dict[str, Any] = {"wall_s": round(wall_s, 2), "cpu_s": round(cpu_s, 2), "peak_mb": round(peak)}
    return {**row, "failed": ended_by} if ended_by else {**row, **json.loads(printed.splitlines()[-1])}


def own(folder: str, workers: int) -> None:
    """What one run of perfmagic does, in a process of its own."""
    import multiprocessing
    import pickle
    from concurrent.futures import ProcessPoolExecutor

    import perfmagic

    since = time.perf_counter()
    if not folder:
        print(json.dumps({"version": perfmagic.__version__}))
        return
    if workers:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as executor:
            found = perfmagic.open_ranks(folder, executor=executor)
    else:
        found = perfmagic.open_ranks(folder)
    read_s = time.perf_counter() - since
    since, since_cpu = time.perf_counter(), time.process_time()
    said, table = found.findings, found.table
    reduce_s, reduce_cpu_s = time.perf_counter() - since, time.process_time() - since_cpu
    bytes_each = [len(pickle.dumps(one, 5)) for one in found.ranks.summaries.values()]
    print(
        json.dumps(
            {
                "ranks": len(table),
                "read_s": round(read_s, 2),
                "reduce_s": round(reduce_s, 2),
                "reduce_cpu_s": round(reduce_cpu_s, 2),
                "collectives": found.ranks.matching.n,
                "bytes_a_rank": round(sum(bytes_each) / len(bytes_each)),
                "first": said[0].cause if said else "",
            }
        )
    )


PEER = """
import json, sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir=sys.argv[1])
analysis.get_temporal_breakdown(visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
print(json.dumps({"ranks": len(analysis.t.traces)}))
"""


def main() -> int:
    """Print a JSON object a run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--workers", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, help="where the files are made, and stay")
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--peer-ranks", type=int, nargs="+", default=[8, 64, 256, 1000])
    parser.add_argument("--peer-seconds", type=float, default=600)
    parser.add_argument("--peer-mb", type=float, default=8000)
    parser.add_argument("--own", nargs=2, metavar=("FOLDER", "WORKERS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.own:
        own(options.own[0], int(options.own[1]))
        return 0
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        make(folder / "all", options.ranks)
        command = [sys.executable, str(Path(__file__).resolve()), "--own"]
        empty = measured([*command, "", "0"], most_s=60, most_mb=1e6)
        print(json.dumps({"tool": "perfmagic, no file", **empty}), flush=True)
        for workers in options.workers:
            row = measured([*command, str(folder / "all"), str(workers)], most_s=3600, most_mb=1e6)
            if "failed" not in row:
                row["cpu_ms_a_rank"] = round((row["cpu_s"] - empty["cpu_s"]) / row["ranks"] * 1e3, 1)
            print(json.dumps({"tool": "perfmagic", "workers": workers, **row}, ensure_ascii=False), flush=True)
        if options.peers:
            peers(options, folder)
    return 0


def peers(options: argparse.Namespace, folder: Path) -> None:
    """HolisticTraceAnalysis on more and more of the ranks."""
    from open_trace import peer_python

    python = peer_python(options.peers.resolve())
    script = folder / "peer.py"
    script.write_text(PEER)
    for n_ranks in options.peer_ranks:
        part = folder / f"first{n_ranks}"
        part.mkdir(exist_ok=True)
        for rank in range(n_ranks):
            link = part / f"rank{rank}.pt.trace.json.gz"
            if not link.exists():
                link.symlink_to((folder / "all" / link.name).resolve())
        row = measured([python, str(script), str(part)], most_s=options.peer_seconds, most_mb=options.peer_mb)
        cpu = {} if "failed" in row else {"cpu_ms_a_rank": round(row["cpu_s"] / n_ranks * 1e3, 1)}
        print(json.dumps({"tool": "HolisticTraceAnalysis", "asked": n_ranks, **row, **cpu}), flush=True)
        if "failed" in row:
            break


if __name__ == "__main__":
    sys.exit(main())
