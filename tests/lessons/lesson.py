"""A lesson's cells in a shell of this process: its set-up, its exercises, and answers in place of the student's."""

import gc
import runpy
from pathlib import Path
from typing import Any

from demos import editions
from tests.shell.conftest import Notebook

DEMOS = Path(__file__).resolve().parents[2] / "demos"
LESSONS = sorted(DEMOS.glob("*.ipynb"))
WRONG = Path(__file__).parent / "wrong"


def wrong_answers(lesson: Path) -> dict[int, list[tuple[str, str]]]:
    """By exercise: words of the reason, and the wrong answer that gets it."""
    answers: dict[int, list[tuple[str, str]]] = runpy.run_path(str(WRONG / f"{lesson.stem}.py"))["WRONG"]
    return answers


def right_answers(lesson: Path) -> dict[int, list[str]]:
    """By exercise: answers besides the solution that are right."""
    answers: dict[int, list[str]] = runpy.run_path(str(WRONG / f"{lesson.stem}.py")).get("RIGHT", {})
    return answers


class Student:
    """Somebody who runs the set-up of a lesson, and then its exercises in any order."""

    def __init__(self, lesson: Any) -> None:
        self.notebook = Notebook()
        for cell in lesson.cells:
            if "setup" in editions.tags(cell):
                self.run(cell.source)
        gc.collect()
        gc.freeze()  # checks collect garbage before they count bytes: the modules that set-up loads are left out

    def run(self, source: str) -> None:
        """Run a cell; raises what it raises."""
        ran = self.notebook.run(source)
        if ran.error is not None:
            raise ran.error

    def says(self, exercise: Any, answer: str) -> str:
        """What the check says of an answer: "right", or the reason."""
        self.run(answer)
        ran = self.notebook.run(exercise.check.source)
        if ran.error is None:
            return ran.shown[-1]
        assert type(ran.error).__name__ == "NotYet", ran.traceback
        return str(ran.error).replace("\xa0", " ")
