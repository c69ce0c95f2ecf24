"""Each exercise takes its solution in any order, and refuses what students answer instead, with a reason."""

from pathlib import Path

import nbformat
import pytest

from demos import editions
from tests.lessons.lesson import DEMOS, LESSONS, WRONG, Student, right_answers, wrong_answers

pytest.importorskip("torch", reason="torch is not installed")

WITH_EXERCISES = [lesson for lesson in LESSONS if (WRONG / f"{lesson.stem}.py").exists()]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DEMOS.is_dir(), reason="needs the clone's demos")]


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("lesson", WITH_EXERCISES, ids=lambda lesson: lesson.stem)
def test_right_answers_pass_in_any_order_and_wrong_ones_get_their_reason(lesson: Path) -> None:
    cells, wrong = nbformat.read(lesson, as_version=4), wrong_answers(lesson)
    student, exercises = Student(cells), editions.exercises(cells)
    assert list(wrong) == [exercise.number for exercise in exercises]
    for exercise in exercises:
        assert student.says(exercise, exercise.stub.source) != "right", exercise.number
        assert len(wrong[exercise.number]) >= 3
        for words, answer in wrong[exercise.number]:
            assert words in student.says(exercise, answer), (exercise.number, answer)
        for answer in right_answers(lesson).get(exercise.number, []):
            assert student.says(exercise, answer) == "right", (exercise.number, answer)
        student.run(exercise.solution.source)
    for exercise in reversed(exercises):
        student.run(exercise.solution.source)


def test_every_lesson_with_exercises_has_its_wrong_answers() -> None:
    for lesson in LESSONS:
        cells = nbformat.read(lesson, as_version=4).cells
        assert lesson in WITH_EXERCISES or not any("exercise" in editions.tags(cell) for cell in cells), lesson.stem
