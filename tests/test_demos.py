"""What demos/run.py keeps of a notebook that it ran."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("nbconvert", reason="nbconvert is not installed")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def run() -> Any:
    spec = importlib.util.spec_from_file_location("demo_run", ROOT / "demos" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_stored_notebook_names_no_files_and_has_the_pictures_that_tags_leave(run: Any) -> None:
    v4 = nbformat.v4
    face = {"text/html": '<div>20 ms<img alt="a > b" src="data:x"></div>', "text/plain": "20 ms"}
    cells = [
        v4.new_code_cell("%%timeline", outputs=[v4.new_output("display_data", face)], metadata={"tags": tags})
        for tags in ([], [run.NO_PICTURE])
    ]
    frames = ["File /home/me/a.py:3", "KeyError: 1"]
    cells.append(v4.new_code_cell("x", outputs=[v4.new_output("error", ename="E", evalue="1", traceback=frames)]))
    kept = run.stored(v4.new_notebook(cells=cells)).cells
    assert [cell.outputs[0].data["text/html"] for cell in kept[:2]] == [face["text/html"], "<div>20 ms</div>"]
    assert kept[2].outputs[0].traceback == ["KeyError: 1"]


def test_no_stored_demo_names_a_folder_of_the_machine_that_ran_it() -> None:
    for path in (ROOT / "demos").glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            assert "site-packages" not in str(cell.get("outputs", ""))
