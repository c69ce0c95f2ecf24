"""A cell with %%ranks behaves in each rank as the plain cell does in the notebook, run plainly and recorded.

The counterpart of test_cell_behaviour.py and test_cell_errors.py: what a plain cell of the notebook gives is compared
with what two ranks give for the same text.
"""

import re
from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic

from .alike import ALIKE
from .conftest import Notebook, Ran

pytestmark = pytest.mark.slow
HEADS = ["%%ranks --plain", "%%ranks -q"]


@pytest.fixture(scope="module", autouse=True)
def _end() -> Iterator[None]:
    yield
    perfmagic.ranks().stop()


@pytest.fixture
def both(notebook: Notebook) -> Notebook:
    """A shell whose ranks have no names of a test before."""
    assert notebook.run("%%ranks -n 2 --device cpu --plain\nget_ipython().reset(new_session=False)").error is None
    return notebook


@pytest.fixture(params=HEADS)
def head(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def shown(ran: Ran) -> list[str]:
    """What a plain cell shows: each line that it printed, then its values."""
    return [*ran.printed.splitlines(), *ran.shown]


def in_ranks(text: str) -> list[str]:
    """The output of both ranks without their numbers, each line or value once. Both have to print all of it.

    The lines of a value stand below each other, behind the number of the rank.
    """
    printed_by: dict[str, set[int]] = {}
    for block in re.split(r"^(?=\[)", text, flags=re.MULTILINE)[1:]:
        label, _, text_of_rank = block.rstrip("\n").partition("] ")
        text_of_rank = text_of_rank.replace("\n" + " " * (len(label) + 2), "\n")
        printed_by.setdefault(text_of_rank, set()).update(int(rank) for rank in re.findall(r"\d+", label))
    assert all(ranks == {0, 1} for ranks in printed_by.values()), text
    return list(printed_by)


@pytest.mark.parametrize("what", ALIKE)
def test_the_cell_does_what_the_plain_cell_does(both: Notebook, head: str, what: str) -> None:
    for body in ALIKE[what]:
        plain = both.run(body)
        ran = both.run(f"{head}\n{body}")
        assert (plain.error, ran.error) == (None, None)
        assert in_ranks(ran.printed) == shown(plain)


@pytest.mark.parametrize(
    "body", ["x = = 1", "for i in range(3)\n    pass", "x = (1,", "x = 'open", "break", "return 5"]
)
def test_a_syntax_error_is_that_of_the_plain_cell(both: Notebook, head: str, body: str) -> None:
    plain = both.run(f"'head'\n{body}").error
    ran = both.run(f"{head}\n{body}")
    assert isinstance(plain, SyntaxError)
    assert type(ran.error).__name__ == type(plain).__name__
    assert f"on ranks 0, 1, line {plain.lineno}" in ran.traceback
    assert "perfmagic" not in ran.traceback
    assert ran.outputs == []
    assert in_ranks(both.run(f"{head}\n1 + 1").printed) == ["2"]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("x = 1\n\n1 / 0", 4),
        ("def f():\n    raise ValueError('boom')\nx = 1\nf()", 5),  # of the cell's own code, the innermost is 3
        ("import asyncio\nawait asyncio.sleep(0)\n{}['k']", 4),
    ],
)
def test_an_error_has_the_editors_line_numbers(both: Notebook, head: str, body: str, line: int) -> None:
    plain = both.run(f"'head'\n{body}")
    ran = both.run(f"{head}\n{body}")
    assert type(ran.error).__name__ == type(plain.error).__name__
    marked = [text for text in ran.traceback.splitlines() if text.lstrip().startswith("-")]
    assert [text for text in plain.traceback.splitlines() if text.lstrip().startswith("-") and "->" in text] == [
        text for text in marked if "->" in text
    ]
    assert f"---> {line} " in ran.traceback
    assert "perfmagic" not in ran.traceback


def test_an_exception_keeps_its_cause(both: Notebook, head: str) -> None:
    ran = both.run(f"{head}\ntry:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")
    assert type(ran.error).__name__ == "KeyError"
    assert "The above exception was the direct cause" in ran.traceback


def test_an_interrupt_raised_in_the_cell_ends_it(both: Notebook, head: str) -> None:
    ran = both.run(f"{head}\nx = 1\nraise KeyboardInterrupt")
    assert type(ran.error).__name__ == "KeyboardInterrupt"
    assert in_ranks(both.run(f"{head}\nx").printed) == ["1"]


def test_sys_exit_ends_the_cell_and_not_the_rank(both: Notebook, head: str) -> None:
    ran = both.run(f"{head}\nimport sys\nx = 1\nsys.exit(3)")
    assert type(ran.error).__name__ == "SystemExit"
    assert in_ranks(both.run(f"{head}\nx").printed) == ["1"]


def test_only_the_users_names_enter_the_ranks(both: Notebook, head: str) -> None:
    names = f"{head}\n[name for name in dir() if name.strip('_i0123456789')]"
    before = both.run(names).printed
    both.run(f"{head}\nx = 1\nx")
    after = eval(in_ranks(both.run(names).printed)[0])
    assert set(after) - set(eval(in_ranks(before)[0])) == {"x"}


def test_display_inside_the_cell_is_seen_once_a_rank(both: Notebook, head: str) -> None:
    ran = both.run(f"{head}\nfrom IPython.display import display\ndisplay('one')")
    assert sorted(ran.printed.splitlines()) == ["[0] 'one'", "[1] 'one'"]


@pytest.mark.parametrize("body", ["", "\n\n", "\n# only a comment"])
def test_an_empty_cell_is_one_clear_error(both: Notebook, head: str, body: str) -> None:
    ran = both.run(f"{head}{body}")
    assert "empty" in ran.refusal
    assert ran.refusal.count("\n") <= 1


def test_the_next_cell_is_untouched(both: Notebook, head: str) -> None:
    for body in ("x = 1", "1 / 0", "x = = 1"):
        both.run(f"{head}\n{body}")
        ran = both.run("1 + 1")
        assert (ran.value, ran.shown, ran.outputs, ran.printed, ran.warned) == (2, ["2"], [], "", "")


def test_time_reports_beside_the_cell(both: Notebook, head: str) -> None:
    ran = both.run(f"%%time\n{head}\nx = 5\nx + 1")
    assert "Wall time" in ran.printed
    assert "[0, 1] 6" in ran.printed


def test_a_magic_below_is_one_clear_error(both: Notebook, head: str) -> None:
    ran = both.run(f"{head}\n%%time\nx = 5")
    assert type(ran.error).__name__ == "UsageError"
    assert "%%time" in ran.traceback
    assert "a cell takes only one" in both.run(f"{head}\n\n%%ranks\nx = 5").refusal
    assert in_ranks(both.run(f"{head}\n'x' in globals()").printed) == ["False"]


def test_interactivity_is_that_of_the_notebook(both: Notebook, head: str) -> None:
    try:
        both.shell.ast_node_interactivity = "all"
        plain = both.run("1 + 1\n2 + 2\nx = 3\n3 + 3").shown
        assert in_ranks(both.run(f"{head}\n1 + 1\n2 + 2\nx = 3\n3 + 3").printed) == plain
        both.shell.ast_node_interactivity = "none"
        assert both.run(f"{head}\n6 * 7").printed == ""
    finally:
        both.shell.ast_node_interactivity = "last_expr"


def test_run_cell_magic_is_the_same_cell(both: Notebook, head: str) -> None:
    name, _, options = head.removeprefix("%%").partition(" ")
    ran = both.run(f"get_ipython().run_cell_magic({name!r}, {options!r}, 'kept = 7\\nkept')")
    assert ran.printed == "[0, 1] 7\n"


@pytest.mark.parametrize("cell", ["%%ranks -h", "\n%%ranks -h\n"])
def test_help_needs_no_cell_below(notebook: Notebook, cell: str) -> None:
    ran = notebook.run(cell)
    assert ran.error is None
    assert "--sweep n=A,B,C" in ran.printed
