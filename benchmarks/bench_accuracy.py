"""Does %%bench measure what timeit, torch's Timer and pyperf measure, and in what time?

    python benchmarks/bench_accuracy.py [--rounds N] [--bodies NAME…] [--pyperf DIR] [--out FILE]

Bodies of about 10 ns, 1 µs, 100 µs and 10 ms, with hardly a name in them, so that all tools run the same bytecode. In
each round (30) every tool measures every body once, in an order that turns by one each round; a median of the rounds'
ratios takes out what the machine does in between. No peer takes its empty loop off, so what it measures for `pass` in
the same round is taken off here; perfmagic does so by itself.

    perfmagic   a %%bench cell in an IPython shell, with its defaults but --time 1
    timeit      Timer.autorange() and repeat(5), as `python -m timeit` does; the median of the five
    torch       torch.utils.benchmark.Timer.blocked_autorange(min_run_time=1), its median
    pyperf      `pyperf timeit -p 2 --fast`, its median; only with --pyperf, a folder it is installed into with pip's
                --target

Wanted: perfmagic's median over each peer's within 1 % in the median round (0.2 ns for the shortest body), at most
0.2 µs of loop a call and subtracted, and no more time than they take.

Prints a table and writes the same as JSON with machine and versions.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from torch.utils.benchmark import Timer

from perfmagic.capture.environment import environment

BODIES = {
    "10 ns": "[]",
    "1 µs": "len('-'.join(('ab',) * 60))",
    "100 µs": "len('-'.join(('ab',) * 6000))",
    "10 ms": "sum(range(600_000))",
}
Measured = tuple[float, float]  # seconds a call, seconds spent on it


def with_perfmagic(shell: Any, body: str) -> Measured:
    """A cell of a notebook."""
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):  # the cell's value
        shell.run_cell(f"%%bench -q -o measured --time 1\n{body}")
    spent = time.perf_counter() - start
    result = shell.user_ns["measured"]
    LOOPS.append(result.record.loop_overhead_s)
    return result.returns_s, spent


def with_timeit(body: str) -> Measured:
    """As `python -m timeit`, but the median."""
    start = time.perf_counter()
    timer = timeit.Timer(body)
    number, _ = timer.autorange()
    each = [seconds / number for seconds in timer.repeat(5, number)]
    return statistics.median(each), time.perf_counter() - start


def with_torch(body: str) -> Measured:
    """torch's own."""
    start = time.perf_counter()
    found = Timer(body).blocked_autorange(min_run_time=1)
    return found.median, time.perf_counter() - start


def with_pyperf(body: str, folder: Path) -> Measured:
    """In processes of its own, as it works."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.json"
        start = time.perf_counter()
        command = [sys.executable, "-m", "pyperf", "timeit", "-p", "2", "--fast", "--quiet", "-o", str(out), body]
        environ = {**os.environ, "PYTHONPATH": str(folder)}
        subprocess.run(command, check=True, capture_output=True, env=environ)
        spent = time.perf_counter() - start
        runs = json.loads(out.read_text("utf-8"))["benchmarks"][0]["runs"]
    return statistics.median(value for run in runs for value in run.get("values", ())), spent


LOOPS: list[float] = []


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--bodies", nargs="+", choices=[*BODIES], default=[*BODIES])
    parser.add_argument("--pyperf", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    shell = InteractiveShell.instance(display_pub_class=CapturingDisplayPublisher)
    shell.history_manager.enabled = False
    shell.run_line_magic("load_ext", "perfmagic")
    tools: dict[str, Callable[[str], Measured]] = {
        "perfmagic": lambda body: with_perfmagic(shell, body),
        "timeit": with_timeit,
        "torch": with_torch,
    }
    if given.pyperf is not None:
        tools["pyperf"] = lambda body: with_pyperf(body, given.pyperf)
    taken: dict[tuple[str, str], list[Measured]] = collections.defaultdict(list)
    for number in range(given.rounds):
        order = [*tools][number % len(tools) :] + [*tools][: number % len(tools)]
        empty_s = {tool: 0.0 if tool == "perfmagic" else tools[tool]("pass")[0] for tool in order}
        for name in given.bodies:
            for tool in order:
                call_s, spent_s = tools[tool](BODIES[name])
                taken[name, tool].append((call_s - empty_s[tool], spent_s))
        print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
    rows = [row_of(name, peer, taken) for name in given.bodies for peer in tools if peer != "perfmagic"]
    for row in rows:
        words = (f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items())
        print("  ".join(words))
    loop_ns = statistics.median(LOOPS) * 1e9
    print(f"loop of a call, subtracted: median {loop_ns:.1f} ns, most {max(LOOPS) * 1e9:.1f} ns")
    if given.out is not None:
        found = {"environment": environment(), "rounds": given.rounds, "loop_ns": loop_ns, "rows": rows}
        given.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


def row_of(name: str, peer: str, taken: dict[tuple[str, str], list[Measured]]) -> dict[str, Any]:
    """perfmagic beside one peer on one body."""
    ours, theirs = taken[name, "perfmagic"], taken[name, peer]
    ratios = [a / b for (a, _), (b, _) in zip(ours, theirs, strict=True)]
    return {
        "body": name,
        "peer": peer,
        "perfmagic_ns": statistics.median(s for s, _ in ours) * 1e9,
        "peer_ns": statistics.median(s for s, _ in theirs) * 1e9,
        "ratio_median": statistics.median(ratios),
        "difference_ns_median": statistics.median(a - b for (a, _), (b, _) in zip(ours, theirs, strict=True)) * 1e9,
        "perfmagic_spent_s": statistics.median(s for _, s in ours),
        "peer_spent_s": statistics.median(s for _, s in theirs),
    }


if __name__ == "__main__":
    main()
