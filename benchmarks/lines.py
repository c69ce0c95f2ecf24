"""What does it cost to follow the lines of functions, beside other ways to know what a line costs?

    python benchmarks/lines.py [--rounds N] [--processes N] [--python PYTHON ...] [--programs ...] [--tools ...]

Programs (lines_programs.py): a training step that Python limits, a hot loop of plain Python, functions whose lines take
1 to 5 µs. Every tool runs each in a process of its own (lines_with.py): chunks with the tool and without it take turns,
and the least CPU time of each counts, all threads of the process included, without a tool's beginning and end. The
ratio is that of the two. Processes of the tools take turns, too. scalene has no turns: it follows a process from its
first line, and is compared with the least chunk of the other tools' processes. On the training step it is left out:
it starts torch's profiler itself, did not end within 60 s and grew by GB. What has not ended after --limit is said.

    lines                      perfmagic's lines alone, without a recording
    timeline [+ lines ...]     a recording as %%timeline makes it on the CPU
    with_stack                 torch.profiler with stacks, which names functions, no lines
    line_profiler, scalene     as installed here: pip install '.[benchmark]'; scalene with and without --memory

--python: interpreters to run it all with, one after the other; default this one. Python 3.12 and later follow lines by
sys.monitoring, older ones by sys.settrace. The last table is lines_own.py: what perfmagic's events cost by themselves.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from subprocess import PIPE

from rows import Row, table

HERE = Path(__file__).resolve().parent
PROGRAMS = ("training step", "hot loop", "small lines")
IN_ALL = ("lines", "line_profiler")
WITHOUT_TORCH = ("scalene", "scalene --memory")
WITH_TORCH = ("timeline", "timeline + lines", "timeline + lines + memory", "with_stack")


def has(python: str, package: str) -> bool:
    """Whether an interpreter finds a package."""
    return not subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode


def tools_of(program: str, wanted: list[str] | None) -> list[str]:
    """The recordings are compared on the program that torch runs."""
    tools = [*IN_ALL, *(WITH_TORCH if program == "training step" else WITHOUT_TORCH)]
    return [tool for tool in tools if wanted is None or tool in wanted]


def command(python: str, tool: str, program: str, rounds: int, out: Path) -> list[str]:
    """What starts one tool on one program."""
    script = [str(HERE / "lines_with.py"), tool, program, str(rounds)]
    if not tool.startswith("scalene"):
        return [python, *script]
    return [python, "-m", "scalene", "run", *tool.split()[1:], "-o", str(out / "scalene.json"), *script]


def measure(python: str, tool: str, program: str, options: argparse.Namespace) -> Row:
    """One process: what it printed, or in "failed" why there is nothing."""
    if not has(python, tool.split(maxsplit=1)[0] if tool.startswith(("line_", "scalene")) else "torch"):
        return {"failed": "not installed"}
    with tempfile.TemporaryDirectory() as out:
        asked = command(python, tool, program, options.rounds, Path(out))
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        child = subprocess.Popen(
            asked, stdout=PIPE, stderr=PIPE, text=True, cwd=out, env=environment, start_new_session=True
        )
        try:
            printed, errors = child.communicate(timeout=options.limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # scalene starts a process of its own
            child.communicate()
            return {"failed": f"not ended after {options.limit} s"}
    found = [line for line in printed.splitlines() if line.startswith('{"tool"')]
    if not found:
        return {"failed": f"exit status {child.returncode}: {(errors.splitlines() or ['no words'])[-1][:80]}"}
    return dict(json.loads(found[-1]))


def joined(runs: list[Row]) -> Row:
    """Several processes of one tool as one row."""
    good = [run for run in runs if "failed" not in run]
    if not good:
        return runs[0]
    return {**good[-1], **{key: [s for run in good for s in run[key]] for key in ("plain_s", "tool_s")}}


def rows_of(python: str, program: str, options: argparse.Namespace) -> list[Row]:
    """All tools on one program, in turns."""
    tools = tools_of(program, options.tools)
    runs: dict[str, list[Row]] = {tool: [] for tool in tools}
    for _ in range(options.processes):
        for tool in tools:
            if not any("not" in run.get("failed", "") for run in runs[tool]):
                runs[tool].append(measure(python, tool, program, options))
    found = {tool: joined(of) for tool, of in runs.items()}
    plain = [min(r["plain_s"]) for tool, r in found.items() if "failed" not in r and not tool.startswith("scalene")]
    rows = []
    for tool, run in found.items():
        row: Row = {"program": program, "tool": tool, "version": run.get("version", "")}
        if "failed" in run:
            rows.append({**row, "ratio": run["failed"]})
            continue
        own = min(plain, default=float("nan")) if tool.startswith("scalene") else min(run["plain_s"])
        with_it = run["plain_s"] + run["tool_s"] if tool.startswith("scalene") else run["tool_s"]
        row |= {"ratio": round(min(with_it) / own, 2), "plain_ms": round(own * 1e3, 1)}
        rows.append(row | {key: run[key] for key in ("events", "log_mb", "let_go") if key in run})
    return rows


def main() -> None:
    """Print a table for each interpreter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="chunks with and without the tool, a process")
    parser.add_argument("--processes", type=int, default=2, help="of each tool")
    parser.add_argument("--limit", type=int, default=120, help="seconds for a process")
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=PROGRAMS)
    parser.add_argument("--tools", nargs="+", default=None, choices=[*IN_ALL, *WITHOUT_TORCH, *WITH_TORCH])
    options = parser.parse_args()
    for python in options.python:
        version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.strip()
        kind = "sys.settrace" if int(version.split(".")[1]) < 12 else "sys.monitoring"
        print(f"{version}, {kind}", flush=True)
        rows = []
        for program in options.programs:
            rows += rows_of(python, program, options)
        print(table(rows), flush=True)
        own = subprocess.run([python, str(HERE / "lines_own.py")], capture_output=True, text=True, check=True)
        print(table([json.loads(line) for line in own.stdout.splitlines()]) + "\n", flush=True)


if __name__ == "__main__":
    main()
