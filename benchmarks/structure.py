"""How large the package is, its longest import chain, and how many files and functions each main job enters.

    python benchmarks/structure.py          a table
    python benchmarks/structure.py --json   the same as JSON

The size comes from the source alone. A job runs in a process of its own: sys.setprofile notes each function of the
package that is entered, from the call of the public name on. What an import runs is not counted.
"""

import argparse
import ast
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "perfmagic"
TRACE = ROOT / "tests/data/traces/v100_4streams_nccl_step.json.gz"
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

JOBS = {
    "open_trace(FILE).text()": "perfmagic.open_trace(FILE).text()",
    "view FILE --html PAGE": "main(['view', FILE, '--html', PAGE])",
    "report FILE --json": "main(['report', FILE, '--json'])",
    "explain(TRACE, 'pageable')": "perfmagic.explain(TRACE, 'pageable')",  # of a trace that is read already
}


def main() -> None:
    """Print the table, or one job's counts."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options.add_argument("--job", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.job:
        print(json.dumps(entered(given.job)))
        return
    found = {"package": size(), "jobs": {name: measure_job(name) for name in JOBS}}
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found["package"].items():
        print(f"{name:34} {value:>8}")
    print("  " + " → ".join(str(path.relative_to(PACKAGE)) for path in longest_chain()))
    print(f"\n{'job':34} {'files':>8} {'functions':>10}")
    for name, counts in found["jobs"].items():
        print(f"{name:34} {counts['files']:>8} {counts['functions']:>10}")


def size() -> dict[str, int]:
    """Files, lines of code and function lengths of the package, its largest folder and its longest import chain."""
    files = sources()
    lines = [code_lines(path) for path in files]
    functions = [length for path in files for length in function_lengths(path)]
    folders = [sum(path.parent == folder for path in files) for folder in {path.parent for path in files}]
    return {
        "files": len(files),
        "files at the root": sum(path.parent == PACKAGE for path in files),
        "lines of code": sum(lines),
        "median lines of a file": int(statistics.median(n for n in lines if n)),
        "most lines of a file": max(lines),
        "most files of a folder": max(folders),
        "median lines of a function": int(statistics.median(functions)),
        "most lines of a function": max(functions),
        "longest import chain": len(longest_chain()),
    }


def sources() -> list[Path]:
    """The package's own Python files."""
    return sorted(path for path in PACKAGE.rglob("*.py") if not {"frontend", "labextension"} & set(path.parts))


def code_lines(path: Path) -> int:
    """Lines that hold code: neither blank, nor comment, nor docstring."""
    text = path.read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    held = {n for t in tokens if t.type not in SILENT for n in range(t.start[0], t.end[0] + 1)}
    documented = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
    ]
    for node in documented:
        if ast.get_docstring(node) is not None:
            held -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(held)


def function_lengths(path: Path) -> Iterator[int]:
    """Lines of each function of a file, from `def` to its end."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def longest_chain() -> tuple[Path, ...]:
    """The most files of the package of which each imports the next one when it is imported itself."""
    return max(map(chain_below, sources()), key=len)


@cache
def chain_below(path: Path) -> tuple[Path, ...]:
    """The longest import chain that begins with this file."""
    return (path, *max(map(chain_below, sorted(imported(path))), key=len, default=()))


def imported(path: Path) -> set[Path]:
    """The package's files that this one imports when it is imported itself."""
    found: set[Path] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "perfmagic":
            for alias in node.names:
                found.update(filter(None, [file_of(f"{node.module}.{alias.name}") or file_of(str(node.module))]))
    return found - {path}


def file_of(module: str) -> Path | None:
    """The file of a module or package, where there is one."""
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def measure_job(name: str) -> dict[str, int]:
    """Run one job in a process of its own."""
    command = [sys.executable, __file__, "--job", name]
    here = os.environ | {"PYTHONPATH": str(ROOT)}  # not what is installed
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=here)
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def entered(name: str) -> dict[str, int]:
    """Files and functions of the package that a job enters."""
    import perfmagic
    from perfmagic.cli import main

    seen: set[tuple[str, int]] = set()
    n_importing = 0  # modules whose code runs: their classes and decorators are no part of the job

    def note(frame: Any, event: str, _argument: object) -> None:
        nonlocal n_importing
        code = frame.f_code
        if code.co_name == "<module>":
            n_importing += {"call": 1, "return": -1}.get(event, 0)
        entered_now = event == "call" and not n_importing and not code.co_name.startswith("<")
        if entered_now and code.co_filename.startswith(str(PACKAGE)):
            seen.add((code.co_filename, code.co_firstlineno))

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        trace = perfmagic.open_trace(TRACE).trace
        known = {
            "perfmagic": perfmagic,
            "TRACE": trace,
            "main": main,
            "FILE": str(TRACE),
            "PAGE": f"{folder}/page.html",
        }
        run = eval(f"lambda: {JOBS[name]}", known)
        sys.setprofile(note)
        try:
            run()
        finally:
            sys.setprofile(None)
    return {"files": len({file for file, _ in seen}), "functions": len(seen)}


if __name__ == "__main__":
    main()
