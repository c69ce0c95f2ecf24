"""What does it cost to open a saved trace and run all analyses: time and peak memory, beside two other analysers?

    python benchmarks/open_trace.py [--text] [--peers DIR] [--events N] [--source FILE] [--rounds N] [--forms FORM ...]
    python benchmarks/open_trace.py [--text] --growth [--large]

The input is a recorded trace, repeated by repeat_trace.py until it has about N events (1.06 million), in three forms:
one line of JSON, indented as Kineto writes it, and that gzipped. Every run is a new process, its start and imports
included, on the same cores; the parent measures wall time and takes the peak of resident memory from wait4, or the
most that a tool and the processes it starts held together, looked at every 10 ms. Tools take turns, and the median of
the rounds counts. Each tool runs once on a single round of the source first, which is not counted: its modules are then
compiled and cached. Linux.

What a tool does (open_trace_with.py):
    perfmagic    open_trace(file).to_dict(): all totals by device and all findings.
    text         with --text, in place of perfmagic: python -m perfmagic report FILE, the verdict and what to do.
    hta          HolisticTraceAnalysis: TraceAnalysis of a folder with this file, then the breakdowns of time, kernels
                 and idling, overlap of communication, launch statistics and queue lengths; nothing is drawn.
    tb_profiler  torch-tb-profiler: RunProfileData.parse and all views of RunGenerator, which is what its loader does
                 for each file; no server. It leaves out categories it does not know, among them the launches of files
                 since 2022 ("cuda_runtime"): its work is the smallest of the three.

The default source is one training step, part of this repository, with most arguments left out; the external ids
that torch-tb-profiler goes by are among them, so it shows no kernels. --source takes a complete trace, whose rows are
longer; that is the fairer comparison. HolisticTraceAnalysis compares every event with every ProfilerStep, and a
repeated trace repeats those, too: with 60 steps that is a third of its time. A source with few, large steps has less of
it.

--peers makes a virtual environment in DIR for the two from peers.txt, or uses the one there. Without it perfmagic is
measured alone. --growth measures perfmagic alone at 10 k, 100 k and 1 M events (10 M with --large), one line unless
--forms says otherwise: a cost that does not grow with the size of the file has the same figures in every row.

Prints a JSON object a row, then the rows as a table. MB are 10^6 bytes; CPU time is that of all
threads and processes; ratios are a tool's figure over perfmagic's. PERFMAGIC_HELPER=0 keeps perfmagic to one process.
"""

# The parent stays small and imports little: on Linux a child's peak begins with what its parent had when it began.
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
PINS = HERE / "peers.txt"
PEERS = {"hta": "HolisticTraceAnalysis", "tb_profiler": "torch-tb-profiler"}
FORMS = {"gzip": ("trace.json.gz", "--indented"), "line": ("trace.json",), "indented": ("trace.json", "--indented")}
GROWTH = (10_000, 100_000, 1_000_000)
LARGE = 10_000_000
POLL_S = 0.01

Row = dict[str, Any]


class Run(NamedTuple):
    """One process: how long, how much memory at most, what it printed, and its last words if it failed."""

    wall_s: float
    cpu_s: float  # of all its threads; where cores are shared with others, wall time says more of them than of the tool
    peak_mb: float
    found: Row
    failed: str


class Input(NamedTuple):
    """A file to open, alone in its folder."""

    file: Path
    form: str
    events: int


def peer_python(folder: Path) -> str:
    """The interpreter of an environment with what peers.txt lists, made where it is absent or out of date."""
    python, stamp = folder / "bin" / "python", folder / PINS.name
    if not stamp.exists() or stamp.read_text() != PINS.read_text():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(PINS)], check=True)
        stamp.write_text(PINS.read_text())
    return str(python)


def version(tool: str) -> str:
    """The pin of a peer; perfmagic is the one this file lies beside."""
    if tool not in PEERS:
        return "this checkout"
    return next(line for line in PINS.read_text().splitlines() if line.startswith(PEERS[tool])).split()[0]


def make_input(folder: Path, form: str, options: argparse.Namespace, *size: str) -> Input:
    """Write a trace in one form."""
    name, *flags = FORMS[form]
    file = folder / name
    folder.mkdir(parents=True)
    source = ["--source", str(options.source.resolve())] if options.source else []
    command = [sys.executable, str(HERE / "repeat_trace.py"), str(file), "--rank", "0", *size, *flags, *source]
    made = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return Input(file, form, json.loads(made.stdout)["events"])


def measure(tool: str, python: str, file: Path) -> Run:
    """One tool on one file in a process of its own."""
    # modules are compiled once and cached, for every tool alike, wherever this is run
    unwanted = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {key: value for key, value in os.environ.items() if key not in unwanted}
    if tool not in PEERS:
        environment["PYTHONPATH"] = str(HERE.parent)
    command = [python, str(HERE / "open_trace_with.py"), tool, str(file)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        since = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=log, env=environment, cwd=file.parent)
        together_kb = 0
        while not (ended := os.wait4(child.pid, os.WNOHANG))[0]:
            together_kb = max(together_kb, resident_kb(child.pid))
            time.sleep(POLL_S)
        wall_s, (_, status, usage) = time.perf_counter() - since, ended
        child.returncode = os.waitstatus_to_exitcode(status)
        cpu_s, peak_mb = usage.ru_utime + usage.ru_stime, max(usage.ru_maxrss, together_kb) * 1024 / 1e6
        if child.returncode == 0:
            out.seek(0)
            return Run(wall_s, cpu_s, peak_mb, json.loads(out.read().splitlines()[-1]), "")
        log.seek(0)
        words = log.read().decode(errors="replace").strip().splitlines()
        return Run(wall_s, cpu_s, peak_mb, {}, f"exit status {child.returncode}: {words[-1] if words else 'no words'}")


def resident_kb(pid: int) -> int:
    """The resident memory of a process and of those it started, now."""
    found = 0
    with contextlib.suppress(OSError, StopIteration):  # one that ends meanwhile
        for process in (str(pid), *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            status = Path(f"/proc/{process}/status").read_text().splitlines()
            found += int(next(line for line in status if line.startswith("VmRSS")).split()[1])
    return found


def measure_all(tools: dict[str, str], given: Input, rounds: int) -> list[Row]:
    """A row for each tool; they take turns."""
    runs: dict[str, list[Run]] = {tool: [] for tool in tools}
    for _ in range(rounds):
        for tool, python in tools.items():
            if not any(run.failed for run in runs[tool]):
                runs[tool].append(measure(tool, python, given.file))
    rows = [row(tool, given, runs[tool]) for tool in tools]
    own = rows[0]
    for each in rows:
        if "failed" not in each and "failed" not in own:
            for what, measured in (("wall", "wall_s"), ("cpu", "cpu_s"), ("peak", "peak_mb")):
                each[f"{what}_ratio"] = round(each[measured] / own[measured], 2)
        print(json.dumps(each), flush=True)
    return rows


def row(tool: str, given: Input, runs: list[Run]) -> Row:
    """The medians of a tool's runs on one file, or why there are none."""
    known: Row = {"tool": tool, "version": version(tool), "form": given.form, "events": given.events}
    known["file_mb"] = round(given.file.stat().st_size / 1e6, 1)
    if runs[-1].failed:
        return known | {"failed": runs[-1].failed, "wall_s": round(runs[-1].wall_s, 2)}
    wall_s, cpu_s = (statistics.median(each) for each in zip(*((run.wall_s, run.cpu_s) for run in runs), strict=True))
    return known | {
        "rounds": len(runs),
        "wall_s": round(wall_s, 3),
        "cpu_s": round(cpu_s, 3),
        "us_per_event": round(wall_s * 1e6 / given.events, 2),
        "cpu_us_per_event": round(cpu_s * 1e6 / given.events, 2),
        "peak_mb": round(statistics.median(run.peak_mb for run in runs), 1),
        "found": runs[-1].found,
    }


MEASURED = ("wall_s", "cpu_s", "us_per_event", "cpu_us_per_event", "peak_mb", "wall_ratio", "cpu_ratio", "peak_ratio")
COLUMNS = ("tool", "form", "events", *MEASURED)


def table(rows: list[Row]) -> str:
    """The rows side by side; a tool that failed keeps its line."""
    texts = [COLUMNS, *(tuple(_cell(each, column) for column in COLUMNS) for each in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    aligned = (
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        )
        for cells in texts
    )
    failures = [f"{each['tool']}, {each['form']}: {each['failed']}" for each in rows if "failed" in each]
    return "\n".join((*aligned, *failures))


def _cell(each: Row, column: str) -> str:
    value = each.get(column, "failed" if column == "us_per_event" else "")
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def compare(tools: dict[str, str], options: argparse.Namespace, folder: Path) -> list[Row]:
    """Every tool on every form of one size."""
    rows = []
    for form in options.forms or FORMS:
        given = make_input(folder / form, form, options, "--events", str(options.events))
        rows += measure_all(tools, given, options.rounds)
        given.file.unlink()
    return rows


def growth(tools: dict[str, str], options: argparse.Namespace, folder: Path) -> list[Row]:
    """perfmagic on files of growing size."""
    rows = []
    for form in options.forms or ("line",):
        for events in (*GROWTH, *([LARGE] if options.large else [])):
            given = make_input(folder / f"{form}_{events}", form, options, "--events", str(events))
            rows += measure_all(tools, given, options.rounds)
            given.file.unlink()
    return rows


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, metavar="DIR", help="the peers' environment, made if it is absent")
    parser.add_argument("--events", type=int, default=1_060_000, metavar="N", help="whole rounds, nearest to N events")
    parser.add_argument("--source", type=Path, metavar="FILE", help="the trace to repeat")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each tool on each file")
    parser.add_argument("--forms", nargs="+", choices=FORMS, metavar="FORM", help=", ".join(FORMS))
    parser.add_argument("--cores", type=lambda text: {int(core) for core in text.split(",")}, metavar="0,1")
    parser.add_argument("--text", action="store_true", help="perfmagic up to the text of the verdict, no tables")
    parser.add_argument("--growth", action="store_true", help="perfmagic alone, at several sizes")
    parser.add_argument("--large", action="store_true", help="with --growth: 10 M events, too")
    return parser.parse_args()


def main() -> int:
    """Print the rows, then the table."""
    options = parsed()
    os.sched_setaffinity(0, options.cores or os.sched_getaffinity(0))  # children inherit it
    tools = {"text" if options.text else "perfmagic": sys.executable}
    if options.peers and not options.growth:
        tools |= dict.fromkeys(PEERS, peer_python(options.peers.resolve()))
    elif not options.growth:
        print("perfmagic is measured alone; --peers DIR measures others beside it", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="open_trace_") as name:
        folder = Path(name)
        once = make_input(folder / "once", "line", options, "--rounds", "1")
        for tool, python in tools.items():
            measure(tool, python, once.file)
        rows = growth(tools, options, folder) if options.growth else compare(tools, options, folder)
    print(f"\n{table(rows)}")
    return int(any("failed" in each for each in rows))


if __name__ == "__main__":
    sys.exit(main())
