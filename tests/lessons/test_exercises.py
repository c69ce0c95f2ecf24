"""Each exercise takes its solution in any order, and refuses what students answer instead, with a reason."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("nbformat", reason="nbformat is not installed")

from IPython.core.interactiveshell import InteractiveShell

from demos import editions
from perfmagic import sim
from tests.lessons.lesson import DEMOS, LESSONS, WRONG, Student, wrong_answers
from tests.shell.conftest import RecordingShell

WITH_EXERCISES = [lesson for lesson in LESSONS if (WRONG / f"{lesson.stem}.py").exists()]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DEMOS.is_dir(), reason="needs the clone's demos")]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Room for a shell of the test's own; clock and pace of devices are as before afterwards."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PERFMAGIC_DISPLAY", "static")
    monkeypatch.chdir(DEMOS)
    main, hook, back = sys.modules["__main__"], sys.displayhook, sim.state()
    InteractiveShell.clear_instance()
    yield
    RecordingShell.clear_instance()
    sys.modules["__main__"], sys.displayhook = main, hook
    back()


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("lesson", WITH_EXERCISES, ids=lambda lesson: lesson.stem)
def test_right_answers_pass_in_any_order_and_wrong_ones_get_their_reason(lesson: Path) -> None:
    student, wrong = Student(lesson), wrong_answers(lesson)
    assert list(wrong) == [exercise.number for exercise in student.exercises]
    for exercise in student.exercises:
        assert student.says(exercise, exercise.stub.source) != "right", exercise.number
        assert len(wrong[exercise.number]) >= 3
        for words, answer in wrong[exercise.number]:
            assert words in student.says(exercise, answer), (exercise.number, answer)
        student.run(exercise.solution.source)
    for exercise in reversed(student.exercises):
        student.run(exercise.solution.source)


def test_every_lesson_with_exercises_has_its_wrong_answers() -> None:
    for lesson in LESSONS:
        cells = editions.nbformat.read(lesson, as_version=4).cells
        assert lesson in WITH_EXERCISES or not any("exercise" in editions.tags(cell) for cell in cells), lesson.stem
