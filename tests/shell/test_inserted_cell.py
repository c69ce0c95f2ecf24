"""A file's name never becomes code: in the cell that *Insert %trace* writes, nor in the line of any magic."""

import json
from pathlib import Path
from typing import Any

import pytest

from perfmagic.magics.running.runtime import CELL_MAGICS, LINE_MAGICS, SENT_MAGICS
from tests.trace.recorded import as_bytes, launch_and_kernel

from .conftest import Notebook

pytestmark = [pytest.mark.slow, pytest.mark.floor]

# what perfmagic/frontend/test/cell.test.ts compares with the front end's cells
CELLS = json.loads((Path(__file__).parents[1] / "data" / "inserted_cells.json").read_text("utf-8"))
RUNS_CODE = "{open('INJECTED', 'w')} $x {x}"


@pytest.mark.parametrize("cell", CELLS, ids=[ascii(cell["path"]) for cell in CELLS])
def test_the_inserted_cell_opens_exactly_its_file(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: dict[str, Any]
) -> None:
    book = tmp_path / "book"
    book.mkdir()
    file = book / cell["path"] / "one.json" if cell["kind"] == "folder" else book / cell["path"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(as_bytes(launch_and_kernel(1, 0, 10)))
    monkeypatch.chdir(book)
    ran = notebook.run(cell["source"])
    assert (ran.error, ran.refusal) == (None, "")
    result = ran.value[0] if isinstance(ran.value, tuple) else ran.value
    assert result.title == file.name
    assert not list(tmp_path.rglob("INJECTED"))


@pytest.mark.parametrize("name", [*LINE_MAGICS, *CELL_MAGICS, *(f"%{name}" for name in (*CELL_MAGICS, *SENT_MAGICS))])
def test_no_line_magic_runs_what_stands_in_braces(notebook: Notebook, tmp_path: Path, name: str) -> None:
    notebook.run("x = 1")
    notebook.run(f"%{name} {RUNS_CODE}")
    notebook.run(f"get_ipython().run_line_magic({name!r}, {RUNS_CODE!r})")
    assert not (tmp_path / "INJECTED").exists()


@pytest.mark.parametrize("name", [*CELL_MAGICS, *SENT_MAGICS])
def test_no_cell_magic_runs_what_stands_in_braces(notebook: Notebook, tmp_path: Path, name: str) -> None:
    notebook.run(f"%%{name} -n {RUNS_CODE}\npass")
    notebook.run(f"get_ipython().run_cell_magic({name!r}, {'-n ' + RUNS_CODE!r}, 'pass')")
    assert not (tmp_path / "INJECTED").exists()


@pytest.mark.parametrize(
    "statement",
    ["result = {x: 'x'}", "result = f'{x}${x}'", "result = '$x {x}'", "result = {**{}}", "result = '{{x}} $$x'"],
)
def test_a_measured_line_keeps_its_braces(notebook: Notebook, statement: str) -> None:
    notebook.run(f"x = 7\n{statement}\nplain = result\ndel result")
    ran = notebook.run(f"%bench -r 6 --warmup 0 {statement}")
    assert ran.error is None
    assert notebook.names["result"] == notebook.names["plain"]


def test_a_variable_in_a_magics_line_gets_a_hint(notebook: Notebook) -> None:
    notebook.run("path = 'run.json'")
    words = "was taken as typed. Functions take variables: perfmagic.open_trace(path)"
    assert f"{{path}} {words}" in notebook.run("%trace {path}").refusal
    assert f"$path {words}" in notebook.run("%%ranks -n $path\npass").refusal
    assert words not in notebook.run("%trace path").refusal
