"""%bench, %syncbench and %timeline measure one statement and give the result; run_cell_magic works from code."""

import pytest

import perfmagic

from .conftest import HEADS, Notebook

pytestmark = [pytest.mark.slow, pytest.mark.floor]


@pytest.fixture
def line(head: str) -> str:
    return head[1:]


def test_a_line_magic_returns_its_result(notebook: Notebook, line: str) -> None:
    ran = notebook.run(f"got = {line} x = 6 * 7")
    assert ran.error is None
    assert notebook.names["x"] == 42
    assert notebook.names["got"] is perfmagic.last()


def test_a_line_magic_shows_its_result_once(notebook: Notebook, line: str) -> None:
    ran = notebook.run(f"{line} x = 6 * 7")
    assert len(ran.outputs) + len(ran.shown) == 1


def test_a_line_magic_without_a_statement_prints_one_message(notebook: Notebook, magic: str) -> None:
    ran = notebook.run(f"%{magic}")
    assert magic in ran.refusal
    assert len(ran.refusal.splitlines()) <= 2


def test_an_exception_in_the_statement_is_the_users(notebook: Notebook, line: str) -> None:
    ran = notebook.run(f"{line} 1 / 0")
    assert isinstance(ran.error, ZeroDivisionError)
    assert "perfmagic/magics" not in ran.traceback
    assert len(ran.outputs) == 1


def test_a_syntax_error_in_the_statement_is_a_syntax_error(notebook: Notebook, line: str) -> None:
    assert isinstance(notebook.run(f"{line} x = = 1").error, SyntaxError)


def test_a_line_magic_works_inside_a_loop(notebook: Notebook) -> None:
    notebook.run("got = []\nfor i in range(2):\n    r = %bench -r 6 --warmup 0 x = i\n    got.append(r)")
    assert len(notebook.names["got"]) == 2
    assert notebook.names["x"] == 1


def test_run_cell_magic_measures_from_code(notebook: Notebook, magic: str) -> None:
    options = HEADS[magic].partition(" ")[2]
    ran = notebook.run(f"get_ipython().run_cell_magic({magic!r}, {options!r}, 'x = 6\\nx * 7\\n')")
    assert ran.error is None
    assert notebook.names["x"] == 6
    assert len(ran.outputs) == 1


def test_run_cell_magic_passes_on_the_bodys_exception(notebook: Notebook, magic: str) -> None:
    ran = notebook.run(
        f"try:\n    get_ipython().run_cell_magic({magic!r}, '', '1 / 0')\nexcept ZeroDivisionError:\n    y = 1"
    )
    assert ran.error is None
    assert notebook.names["y"] == 1


def test_run_cell_magic_awaits(notebook: Notebook, magic: str) -> None:
    ran = notebook.run(f"get_ipython().run_cell_magic({magic!r}, '', 'import asyncio\\nawait asyncio.sleep(0)')")
    assert ran.error is None or "await" in ran.refusal  # it works, or one message says that it cannot


def test_run_line_magic_returns_the_result(notebook: Notebook, magic: str) -> None:
    options = HEADS[magic].partition(" ")[2]
    notebook.run(f"got = get_ipython().run_line_magic({magic!r}, {options + ' x = 1'!r})")
    assert notebook.names["got"] is perfmagic.last()
