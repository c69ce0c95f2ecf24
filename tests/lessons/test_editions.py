"""The students' lessons have no outputs and no answers, and run as the lessons do once they are filled in."""

import doctest
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4

from demos import editions
from tests.lessons.lesson import DEMOS, LESSONS, Student

pytestmark = pytest.mark.skipif(not DEMOS.is_dir(), reason="needs the clone's demos")
# 00 has no exercises; 03, 05 and 06 take three minutes more, and test_exercises.py runs their answers
LEFT_OUT = ("00", "03", "05", "06")
FILLED = [path for path in LESSONS if not path.stem.startswith(LEFT_OUT)]


def code(source: str, *tags: str, **metadata: Any) -> Any:
    return v4.new_code_cell(source, metadata={"tags": list(tags), **metadata}, outputs=[v4.new_output("stream")])


def lesson(*cells: Any) -> Any:
    for number, cell in enumerate(cells):
        cell.id = f"c{number}"
    return v4.new_notebook(cells=list(cells))


def one_exercise(stub: str = "def f():\n    pass") -> Any:
    return lesson(
        code("t = %trace ../tests/data/traces/syncs.json\nx = 1", "setup"),
        v4.new_markdown_cell("**Exercise 1.** Two."),
        code(stub, "exercise"),
        code("def grader(f):\n    ...\n\n\ncheck(grader, f)", "check"),
        code("def f():\n    return 2\n\n\ncheck(grader, f)", "solution", jupyter={"source_hidden": True}),
    )


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_students_lesson_shows_no_output_and_no_answer(path: Path) -> None:
    source = nbformat.read(path, as_version=4)
    assert editions.problems(source) == []
    made = editions.student(source, path.stem)
    nbformat.validate(made)
    text = json.dumps(made)
    assert not any(json.dumps(exercise.answer)[1:-1] in text for exercise in editions.exercises(source))
    code_cells = [cell for cell in made.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code_cells)
    ids = [cell.metadata.nbgrader["grade_id"] for cell in made.cells if "nbgrader" in cell.metadata]
    assert len(ids) == len(set(ids))


def test_cells_say_to_nbgrader_and_otter_what_is_changed_and_what_gives_points() -> None:
    made = editions.student(one_exercise(), "09")
    setup, _, stub, check = made.cells
    assert stub.source == "def f():\n    pass\n\n\n# your code"
    known = {"schema_version": 3, "grade": False, "solution": False, "locked": True, "task": False}
    assert setup.metadata.nbgrader == {**known, "grade_id": "09-setup-0"}
    assert stub.metadata.nbgrader == {**known, "grade_id": "09-exercise-1", "solution": True, "locked": False}
    assert check.metadata.nbgrader == {**known, "grade_id": "09-exercise-1-check", "grade": True, "points": 1}
    assert check.metadata.otter == {"tests": ["exercise-1"]}
    (case,) = made.metadata.otter["tests"]["exercise-1"]["suites"][0]["cases"]
    assert case["code"] == ">>> bool(check(grader, f))\nTrue"


def test_a_place_for_code_stays_and_nbgrader_gets_the_answer_between_its_marks() -> None:
    marked = one_exercise("f = None  # your code")
    assert editions.student(marked, "09").cells[2].source == "f = None  # your code"
    assert editions.student(marked, "09", mark="# 你的代码").cells[2].source == "f = None  # 你的代码"
    answered = editions.student(marked, "09", answered=True).cells[2].source
    assert answered.endswith("### BEGIN SOLUTION\ndef f():\n    return 2\n### END SOLUTION")
    assert "solution" in editions.tags(marked.cells[4])  # the lesson itself is as it was


def test_a_cell_has_its_magic_once_when_the_answer_stands_below_the_stub() -> None:
    marked = one_exercise("%%ranks --plain\ndef f():\n    pass")
    marked.cells[4].source = "%%ranks --plain\ndef f():\n    return 2"
    answered = editions.student(marked, "09", answered=True).cells[2].source
    assert answered.count("%%ranks") == 1
    assert "### BEGIN SOLUTION\ndef f():\n    return 2\n### END" in answered


def test_solutions_stand_below_their_tasks() -> None:
    cells = editions.solutions({"09": one_exercise()}).cells
    assert [cell.source for cell in cells[1:]] == ["## 09", "**Exercise 1.** Two.", "def f():\n    return 2"]


def test_a_lesson_without_tags_is_refused_with_the_numbers_of_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = one_exercise()
    for cell in bare.cells[1:]:
        cell.metadata.pop("tags", None)
    bare.cells.append(v4.new_markdown_cell("**Predict:** how long?"))
    nbformat.write(bare, tmp_path / "09_bare.ipynb")
    monkeypatch.setattr(editions, "DEMOS", tmp_path)
    monkeypatch.setattr("sys.argv", ["editions.py", "--out", str(tmp_path / "out")])
    assert editions.main() == 1
    assert capsys.readouterr().err.splitlines() == [
        "demos/09_bare.ipynb, cell 1: the next cell is not tagged exercise",
        "demos/09_bare.ipynb, cell 4: it is folded, and not tagged solution",
        "demos/09_bare.ipynb, cell 5: the next cell is not tagged guess",
    ]
    assert not (tmp_path / "out").exists()


def test_files_of_the_clone_lie_beside_the_lessons_that_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demos").mkdir()
    (tmp_path / "tests" / "data" / "traces").mkdir(parents=True)
    (tmp_path / "tests" / "data" / "traces" / "syncs.json").write_text("{}")
    nbformat.write(one_exercise(), tmp_path / "demos" / "09.ipynb")
    monkeypatch.setattr(editions, "DEMOS", tmp_path / "demos")
    monkeypatch.setattr("sys.argv", ["editions.py", "--out", str(tmp_path / "out")])
    assert editions.main() == 0
    written = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*"))
    assert written == [
        "Solutions.ipynb", "nbgrader/nbgrader_config.py", "nbgrader/source/09/09.ipynb",
        "nbgrader/source/09/syncs.json", "students/09.ipynb", "students/syncs.json",
    ]  # fmt: skip
    assert "%trace syncs.json" in (tmp_path / "out" / "students" / "09.ipynb").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("path", FILLED, ids=lambda path: path.stem)
def test_otter_gives_all_points_for_a_lesson_filled_in_both_at_the_checks_and_at_the_end(path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    source = nbformat.read(path, as_version=4)
    made = editions.student(source, path.stem)
    stubs = (cell for cell in made.cells if "exercise" in editions.tags(cell))
    for stub, exercise in zip(stubs, editions.exercises(source), strict=True):
        stub.source = exercise.answer
    student, failed = Student(v4.new_notebook()), []
    for cell in made.cells:
        if cell.cell_type == "code":
            student.run(cell.source)
            tests = cell.metadata.get("otter", {}).get("tests", ())
            failed += [name for name in tests if not passes(made, name, student)]
    failed += [f"{name} at the end" for name in made.metadata.otter["tests"] if not passes(made, name, student)]
    assert failed == []


def passes(made: Any, name: str, student: Student) -> bool:
    """Whether a test of otter's passes, as otter runs it."""
    (case,) = made.metadata.otter["tests"][name]["suites"][0]["cases"]
    checked = doctest.DocTestParser().get_doctest(case["code"] + "\n", student.notebook.names, name, name, 0)
    return doctest.DocTestRunner().run(checked).failed == 0
