"""What does a recording cost a cell of many small operators: before its body, in it, and after it?

    python benchmarks/recording_cost.py [--ops N ...] [--tools NAME ...] [--rounds R] [--out FILE]

The body adds 1 to a tensor of 4 floats on the CPU, N times. Every run has a process of its own, and the tools take
turns. A process runs the cell twice and counts the second, so imports and caches are not in it. The figures are CPU
seconds of the whole process, the least of all rounds, and the growth of its resident memory at the peak.

    bare               the loop alone
    torch.profiler         profile(), saved by export_chrome_trace()
    torch.profiler memory  the same with profile_memory=True
    torch.profiler file, torch.profiler memory file
                           both without objects for Python (trace_only): what %%timeline and %%memory need of torch
    torch.profiler table   profile(), and its events are read by key_averages()
    timeline               %%timeline, the result's text and picture included; memory and graph: %%memory and %%graph
    pyinstrument           Profiler(), its session not rendered; viztracer: VizTracer(), parsed and not written
"""

import argparse
import contextlib
import gc
import importlib
import importlib.metadata
import importlib.util
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rows import parser_of, printed, table, write

MARKS: list[float] = []  # CPU seconds at the body's begin and end
PEERS = ("torch", "pyinstrument", "viztracer")


def body(additions: int) -> None:
    """The loop, which notes when it begins and ends."""
    import torch

    x = torch.ones(4)
    MARKS.append(time.process_time())
    for _ in range(additions):
        x + 1
    MARKS.append(time.process_time())


def magic(name: str) -> Callable[[int], None]:
    """A cell under one of our magics, in a shell of its own."""

    def cell(additions: int) -> None:
        from IPython.core.interactiveshell import InteractiveShell

        shell: Any = InteractiveShell.instance()
        if "body" not in shell.user_ns:
            shell.user_ns["body"] = body
            shell.run_line_magic("load_ext", "perfmagic")
        with contextlib.redirect_stdout(io.StringIO()):
            done = shell.run_cell(f"%%{name}\nbody({additions})")
        done.raise_error()

    return cell


def torch_profiler(*, memory: bool = False, table: bool = False, file_alone: bool = False) -> Callable[[int], None]:
    """The loop under torch's own profiler."""

    def cell(additions: int) -> None:
        from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile

        config = _ExperimentalConfig(trace_only=file_alone)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=memory, experimental_config=config) as recording:
            body(additions)
        if table:
            recording.key_averages()
            return
        with tempfile.TemporaryDirectory() as folder:
            recording.export_chrome_trace(str(Path(folder, "trace.json")))

    return cell


def pyinstrument(additions: int) -> None:
    """The loop sampled every ms."""
    with importlib.import_module("pyinstrument").Profiler():
        body(additions)


def viztracer(additions: int) -> None:
    """The loop with every call of Python and C."""
    tracer = importlib.import_module("viztracer").VizTracer(tracer_entries=2_000_000, verbose=0)
    tracer.start()
    body(additions)
    tracer.stop()
    tracer.parse()


TOOLS: dict[str, Callable[[int], None]] = {
    "bare": body,
    "torch.profiler": torch_profiler(),
    "torch.profiler memory": torch_profiler(memory=True),
    "torch.profiler file": torch_profiler(file_alone=True),
    "torch.profiler memory file": torch_profiler(memory=True, file_alone=True),
    "torch.profiler table": torch_profiler(table=True),
    "timeline": magic("timeline"),
    "memory": magic("memory"),
    "graph": magic("graph"),
    "pyinstrument": pyinstrument,
    "viztracer": viztracer,
}


def measure(tool: str, additions: int) -> dict[str, float]:
    """CPU seconds before, in and after the body, and the growth of memory in MB."""
    cell = TOOLS[tool]
    cell(1000)
    MARKS.clear()
    gc.collect()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    cell(additions)
    end = time.process_time()
    start, stop = MARKS
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    return {"before_s": start - begin, "body_s": stop - start, "after_s": end - stop, "peak_mb": grown_kib / 1e3}


def in_a_process(tool: str, additions: int) -> dict[str, float]:
    """The same in a new process."""
    command = [sys.executable, __file__, "--one", tool, "--ops", str(additions)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def rows_of(additions: int, tools: list[str], rounds: int) -> list[dict[str, Any]]:
    """A row for each tool; body: its time as a multiple of the bare one."""
    runs: dict[str, list[dict[str, float]]] = {tool: [] for tool in tools}
    for _ in range(rounds):
        for tool in tools:
            runs[tool].append(in_a_process(tool, additions))
    bare_s = min(run["body_s"] for run in runs["bare"])
    rows = []
    for tool in tools:
        package = next((name for name in PEERS if tool.startswith(name)), "perfmagic")
        row: dict[str, Any] = {"operators": additions, "tool": tool, "version": importlib.metadata.version(package)}
        least = {key: min(run[key] for run in runs[tool]) for key in runs[tool][0]}
        rows.append(printed({**row, "body": least["body_s"] / bare_s, **least}))
    return rows


def main() -> None:
    """Run all tools in turns and print the table."""
    parser = parser_of(__doc__ or "")
    parser.add_argument("--ops", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--tools", nargs="*", default=list(TOOLS), choices=TOOLS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.ops[0])))
        return
    there = [tool for tool in options.tools if tool not in PEERS or importlib.util.find_spec(tool)]
    tools = list(dict.fromkeys(("bare", *there)))
    rows = [row for additions in options.ops for row in rows_of(additions, tools, options.rounds)]
    print(table(rows))
    write(options.out, rows)


if __name__ == "__main__":
    main()
