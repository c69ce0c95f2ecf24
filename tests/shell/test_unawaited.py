"""A cell that ends in a coroutine is refused; one that awaits it is measured, also inside a running loop."""

import pytest

import perfmagic

from .conftest import HEADS, Notebook

pytestmark = [pytest.mark.slow, pytest.mark.floor, pytest.mark.filterwarnings("error::RuntimeWarning")]
DEFINED = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7"


@pytest.fixture
def with_f(notebook: Notebook) -> Notebook:
    notebook.run(DEFINED)
    return notebook


def test_a_coroutine_as_last_value_prints_one_message(with_f: Notebook, magic: str) -> None:
    ran = with_f.run(f"{HEADS[magic]}\nf()")
    assert "the last value is an unawaited coroutine: its code has not run" in ran.refusal
    assert "await" in ran.refusal.splitlines()[1]


def test_the_line_form_suggests_the_form_that_awaits(with_f: Notebook, magic: str) -> None:
    ran = with_f.run(f"{HEADS[magic][1:]} f()")
    assert "in place of %bench f() write a cell" in ran.refusal


def test_an_awaited_call_is_measured(with_f: Notebook, magic: str) -> None:
    ran = with_f.run(f"{HEADS[magic]}\nawait f()")
    assert ran.error is None
    assert ran.value == 7


def test_each_variant_is_checked(with_f: Notebook) -> None:
    ran = with_f.run("%%bench --vs -r 6 --warmup 0\nf()\n# --- B\nawait f()")
    assert "unawaited coroutine" in ran.refusal


def test_variants_that_await_are_compared(with_f: Notebook) -> None:
    assert with_f.run("%%bench --vs -r 6 --warmup 0\nawait f()\n# --- B\nx = await f()").error is None
    assert isinstance(perfmagic.last(), perfmagic.CompareResult)


def test_compare_rejects_an_async_function_by_name(with_f: Notebook) -> None:
    ran = with_f.run("def g(): pass\n%compare g f")
    assert "%compare: f() is asynchronous" in ran.refusal
    assert "%%bench --vs" in ran.refusal


def test_the_partial_record_is_still_shown(with_f: Notebook) -> None:
    ran = with_f.run("%%timeline -o t\nx = 1\nf()")
    assert len(ran.outputs) == 1
    assert "unawaited coroutine" in with_f.names["t"].trace.meta.failed


NOTE = "perfmagic: x is a coroutine that was never awaited: its code has not run and is not in what was measured"


def close(notebook: Notebook, *names: str) -> None:
    for name in names:
        notebook.names[name].close()  # else Python warns as well


@pytest.mark.filterwarnings("ignore:coroutine 'f' was never awaited")  # of the samples before the last one
def test_a_coroutine_bound_by_a_cell_is_reported_each_time(with_f: Notebook, magic: str) -> None:
    for _ in range(2):
        assert NOTE in with_f.run(f"{HEADS[magic]}\nx = f()\ny = 1").printed
    close(with_f, "x")


@pytest.mark.parametrize(
    "cell",
    [
        "%%timeline\nx = await f()",
        "%%timeline\nx = f()\nx = await x",
        "%%timeline\nx = asyncio.ensure_future(f())\nawait x",
        "x = f()",
        "%%timeline\ny = 1",
        "%%timeline\ndef g():\n    z = 1\n    return z\ng()",
        "%%timeline\ny = [z for z in (1,)]",
    ],
)
def test_coroutines_of_other_cells_are_not_reported(with_f: Notebook, cell: str) -> None:
    with_f.run("z = f()")
    assert "nobody has awaited" not in with_f.run(cell).printed
    close(with_f, "z", *(["x"] if cell == "x = f()" else []))
