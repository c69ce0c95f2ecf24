"""What the checks of the exercises of lessons say of right answers, and of wrong ones that people give."""

import ast
import io
import json
from collections.abc import Callable, Container, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import perfmagic

DEMOS = Path(__file__).resolve().parents[1] / "demos"
KEPT = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.Assign)
MEMORY = DEMOS / "05_memory.ipynb"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DEMOS.is_dir(), reason="needs the clone's demos")]


def definitions(lesson: Path, cells: Container[str] | None = None) -> dict[str, Any]:
    """What cells of a lesson (all, or those with these ids) import, define and assign; nothing else of them runs."""
    names: dict[str, Any] = {}
    for number, cell in enumerate(json.loads(lesson.read_text("utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or source.startswith("%%") or (cells and cell["id"] not in cells):
            continue
        tree = ast.parse(source.replace("%load_ext perfmagic\n", ""))
        tree.body = [node for node in tree.body if isinstance(node, KEPT)]
        exec(compile(tree, f"{lesson.name}[{number}]", "exec"), names)
    return names


COLLECT = "def answer(losses, loss):\n    "
PARTS = "def answer(limit_bytes):\n    "
TRY = PARTS + "parts = 1\n    while peak_of(parts) > limit_bytes:\n        parts {more}\n    return parts"
HUNDRED = "def answer():\n    return "
MEMORY_ANSWERS = [
    # exercises 1, 2, 3 and 6
    ("bytes_problem(answer, 16)", "answer = 16", "right"),
    ("bytes_problem(answer, 16)", "answer = 4", "4 bytes are too few"),
    ("bytes_problem(answer, 16)", "answer = 20", "20 bytes are too many"),
    ("bytes_problem(answer, 16, share=0.05)", "answer = 16.5", "right"),
    ("bytes_problem(answer, 16)", "answer = None", "None is not a number"),
    # exercise 4
    ("collect_problem(answer)", COLLECT + "losses.append(loss.detach())", "right"),
    ("collect_problem(answer)", COLLECT + "losses.append(loss.item())", "right"),
    ("collect_problem(answer)", COLLECT + "loss.backward(); losses.append(loss.item())", "right"),
    ("collect_problem(answer)", COLLECT + "pass", "expected 4 losses, got 0"),
    ("collect_problem(answer)", COLLECT + "losses[:] = [loss.item()]", "expected 4 losses, got 1"),
    ("collect_problem(answer)", COLLECT + "losses.append(0.0)", "not losses of the network"),
    ("collect_problem(answer)", COLLECT + "losses.append('loss')", "not losses of the network"),
    ("collect_problem(answer)", COLLECT + "losses.append(loss)", "behind"),
    # exercise 5
    ("parts_problem(answer)", TRY.format(more="+= 1"), "right"),
    ("parts_problem(answer)", "kept = torch.ones(20_000_000, device=device)\n" + TRY.format(more="+= 1"), "right"),
    ("parts_problem(answer)", TRY.format(more="*= 2"), "7 parts fit, too"),
    ("parts_problem(answer)", PARTS + "return 8", "7 parts fit, too"),
    ("parts_problem(answer)", PARTS + "return 4", "the limit is"),
    ("parts_problem(answer)", PARTS + "return 0", "0 is not a whole number"),
    ("parts_problem(answer)", PARTS + "pass", "None is not a whole number"),
    # exercise 8
    ("losses_problem(answer(), 100)", HUNDRED + "[(net(x) - x).square().mean().item() for _ in range(100)]", "right"),
    ("losses_problem(answer(), 100)", HUNDRED + "[(net(x) - x).square().mean().detach() for _ in range(100)]", "right"),
    ("losses_problem(answer(), 100)", HUNDRED + "[0.0] * 100", "not losses of the network"),
    ("losses_problem(answer(), 100)", HUNDRED + "[x] * 100", "not losses of the network"),
    ("losses_problem(answer(), 100)", HUNDRED + "[(net(x) - x).square().mean().item()]", "expected 100 losses, got 1"),
    ("losses_problem(answer(), 100)", HUNDRED + "None", "expected 100 losses, got 0"),
]


@pytest.fixture(scope="module")
def memory() -> Iterator[dict[str, Any]]:
    yield definitions(MEMORY, ("c01", "c03", "c27", "c30", "c34"))
    perfmagic.device("sim", clock="real")


@pytest.mark.parametrize(("check", "answer", "words"), MEMORY_ANSWERS)
def test_a_check_of_the_lesson_on_memory_says_what_is_wrong(
    memory: dict[str, Any], check: str, answer: str, words: str
) -> None:
    names = memory.copy()
    exec(answer, names)
    said = str(names["check"](eval(check, names)))
    assert words in said
    assert said == "right" or said.startswith("not yet: ")


def test_a_search_for_a_limit_that_nothing_fits_ends(memory: dict[str, Any]) -> None:
    names = memory.copy()
    exec(TRY.format(more="+= 8"), names)
    with pytest.raises(ValueError, match="65 parts: give a number from 1 to 64"):
        names["answer"](0)


def room_answer(before: Callable[..., Any], after: Callable[..., Any]) -> Callable[..., Any]:
    return lambda total, allocated, reserved: (before(total, allocated, reserved), after(total, allocated, reserved))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (lambda t, a, r: (t - a, t - r), lambda t, a, r: (t - a, t - a), ""),
        (lambda t, a, r: (t - r, t - r), lambda t, a, r: (t - a, t - a), "for this program before"),
        (lambda t, a, r: (t - a, t - a), lambda t, a, r: (t - a, t - a), "for another program before"),
        (lambda t, a, r: (t - a, t - r), lambda t, a, r: (t, t - a), "for this program after"),
        (lambda t, a, r: (t - a, t - r), lambda t, a, r: (t - a, t - r), "for another program after"),
    ],
)
def test_what_remains_of_a_device_is_asked_for_each_program_before_and_after(
    before: Callable[..., Any], after: Callable[..., Any], words: str
) -> None:
    problem = exercise_seven()["problem_with"](room_answer(before, after))
    assert words in problem if words else problem == ""


def exercise_seven() -> dict[str, Any]:
    """The names of lesson 05's exercise 7."""
    written = json.loads((DEMOS / "05_memory.ipynb").read_text("utf-8"))["cells"]
    source = next("".join(c["source"]) for c in written if "def problem_with(room)" in "".join(c["source"]))
    names: dict[str, Any] = {"check": bool}
    with redirect_stdout(io.StringIO()):
        exec(source, names)
    return names
