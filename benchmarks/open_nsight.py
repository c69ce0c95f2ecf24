"""What does it cost to read an export of Nsight Systems: CPU time and memory a row?

    python benchmarks/open_nsight.py [--rows 30000 1000000] [--source FILE.sqlite] [--rounds 3]

The export of the tests (or FILE) is repeated, its times and correlation ids shifted, until it has about so many rows of
kernels, copies, memsets, calls and ranges. Each run is a new process. `read` is the CPU time of reading alone, `all`
adds Python's start, imports and the verdict of each rank. Memory is the peak above that of the imports: the limit of
max_unpacked_bytes counts on ROW_BYTES of trace/formats/nsight/database.py. The least of the rounds counts. Linux.
"""

import argparse
import json
import lzma
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "tests" / "data" / "traces" / "nsight" / "h100_2gpu.sqlite.xz"
TABLES = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "SYNCHRONIZATION")]
SHIFT_NS, SHIFT_ID = 1_000_000_000, 1_000_000
RUN = """
import json, resource, sys, time
from pathlib import Path
import perfmagic.results.timeline
from perfmagic.results import TimelineResult
from perfmagic.trace.formats.sources import read_traces
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before, start = peak(), time.process_time()
traces = read_traces(Path(sys.argv[1]), max_unpacked_bytes=1 << 40)
read, after = time.process_time() - start, peak()
for trace in traces:
    TimelineResult(trace).text()
rows = sum(len(trace.ops) + len(trace.calls) + len(trace.host_ops) for trace in traces)
print(json.dumps({"rows": rows, "read": read, "all": time.process_time(), "bytes": after - before}))
"""


def repeat(database: sqlite3.Connection, n_rows: int) -> None:
    """Append the rows of an export to themselves until there are about n_rows."""
    once = sum(database.execute(f"select count(*) from {table}").fetchone()[0] for table in (*TABLES, "NVTX_EVENTS"))
    for table in (*TABLES, "NVTX_EVENTS"):
        names = [row[1] for row in database.execute(f"pragma table_info({table})")]
        shifts = {"start": SHIFT_NS, "end": SHIFT_NS, "correlationId": SHIFT_ID}
        picked = ", ".join(f"{name} + {shifts[name]} * ?1" if name in shifts else name for name in names)
        (last,) = database.execute(f"select max(rowid) from {table}").fetchone()
        for i in range(1, max(1, n_rows // once)):
            database.execute(f"insert into {table} select {picked} from {table} where rowid <= ?2", (i, last))
    database.commit()


def measure(path: Path, rounds: int) -> dict[str, float]:
    """The least of each figure over some runs."""
    runs = []
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", RUN, path], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    return {key: min(run[key] for run in runs) for key in runs[0]}


def main() -> None:
    """Print a row for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[30_000, 1_000_000])
    parser.add_argument("--source", type=Path, default=SOURCE)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{'rows':>10}  {'read_us':>7}  {'all_us':>6}  {'bytes':>5}  (a row)")
    for n_rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "run.sqlite")
            if options.source.suffix == ".xz":
                path.write_bytes(lzma.decompress(options.source.read_bytes()))
            else:
                shutil.copy(options.source, path)
            with closing(sqlite3.connect(path)) as database:
                repeat(database, n_rows)
            found = measure(path, options.rounds)
        each = (found["read"] * 1e6, found["all"] * 1e6, found["bytes"])
        read_us, all_us, n_bytes = (figure / found["rows"] for figure in each)
        print(f"{found['rows']:>10,}  {read_us:>7.2f}  {all_us:>6.2f}  {n_bytes:>5.0f}")


if __name__ == "__main__":
    main()
