"""Writes what a class needs from the lessons, which have outputs and answers.

python demos/editions.py --out CLASS

    CLASS/students       lessons without outputs and answers, with metadata for nbgrader and otter
    CLASS/Solutions.ipynb    all answers, by lesson and exercise
    CLASS/nbgrader       a course folder: its sources have the answers between nbgrader's marks
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4

DEMOS = Path(__file__).resolve().parent
DATA = re.compile(r"\.\./(tests/data/(?:\S+/)?)([\w.-]+)")  # a file of the clone: students get a copy beside the lesson
MARK = "# your code"
MARKS = {"zh": "# 你的代码"}
CELL_MAGIC = re.compile(r"\A%%.*\n")  # the stub above the answer begins with it, too
TAGS = ("exercise", "check", "solution")  # of cells that follow each other
SAYS = {"**Exercise": "exercise", "**Predict": "guess"}  # a paragraph, and the tag of the code cell that it announces
CONFIG = 'c = get_config()\nc.ClearSolutions.code_stub = {{"python": "{mark}"}}\n'


@dataclass(frozen=True)
class Exercise:
    """The cells of an exercise.  number: within its lesson, from 1.  task: the paragraphs that set it."""

    number: int
    task: NotebookNode
    stub: NotebookNode
    check: NotebookNode
    solution: NotebookNode

    @property
    def verdict(self) -> str:
        """The check's last line, which says "right" or raises."""
        return str(self.check.source).rstrip().splitlines()[-1]

    @property
    def answer(self) -> str:
        """The solution without that line at its end."""
        return str(self.solution.source).rstrip().removesuffix(self.verdict).rstrip()


def main() -> int:
    """Write all editions into the folder of the command line; 1 where cells lack their tags, which are listed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--language", choices=["zh"], help="zh: in Chinese")
    options = parser.parse_args()
    out = options.out
    lessons = {path.stem: nbformat.read(path, as_version=4) for path in sorted(DEMOS.glob("*.ipynb"))}
    wrong = [f"demos/{stem}.ipynb, {said}" for stem, lesson in lessons.items() for said in problems(lesson)]
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    if options.language:
        translation = import_module("translation")  # it needs babel
        lessons = {stem: translation.lesson(DEMOS / f"{stem}.ipynb", options.language) for stem in lessons}
    mark = MARKS.get(options.language, MARK)
    for stem, lesson in lessons.items():
        write(student(lesson, stem, mark=mark), out / "students" / f"{stem}.ipynb")
        write(student(lesson, stem, answered=True), out / "nbgrader" / "source" / stem / f"{stem}.ipynb")
    nbformat.write(solutions(lessons), out / "Solutions.ipynb")
    (out / "nbgrader" / "nbgrader_config.py").write_text(CONFIG.format(mark=mark), "utf-8")
    print(f"{len(lessons)} lessons in {out / 'students'}, the answers in {out / 'Solutions.ipynb'}")
    return 0


def write(notebook: NotebookNode, path: Path) -> None:
    """Write a lesson, and beside it the files of the clone that it reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for cell in notebook.cells:
        for folder, name in DATA.findall(cell.source):
            shutil.copy(DEMOS.parent / folder / name, path.parent / name)
        cell.source = DATA.sub(r"\2", cell.source)
    nbformat.write(notebook, path)


def tags(cell: NotebookNode) -> set[str]:
    """The tags of a cell."""
    return set(cell.metadata.get("tags", ()))


def problems(lesson: NotebookNode) -> list[str]:
    """Which cells lack the tags that editions are made by, or their answer stands where students would see it."""
    found = []
    cells = list(enumerate(lesson.cells))
    for (number, cell), (_, after) in pairwise([*cells, (len(cells), v4.new_raw_cell())]):
        known = tags(cell)
        for words, tag in SAYS.items():
            if cell.cell_type == "markdown" and words in cell.source and tag not in tags(after):
                found.append(f"cell {number}: the next cell is not tagged {tag}")
        for tag, following in pairwise(TAGS):
            if tag in known and following not in tags(after):
                found.append(f"cell {number}: it is tagged {tag}, and the next cell not {following}")
        if cell.metadata.get("jupyter", {}).get("source_hidden") and "solution" not in known:
            found.append(f"cell {number}: it is folded, and not tagged solution")
    return found


def exercises(lesson: NotebookNode) -> list[Exercise]:
    """The exercises of a lesson that has all tags, in order."""
    at = [i for i, cell in enumerate(lesson.cells) if "exercise" in tags(cell)]
    return [Exercise(number, *lesson.cells[i - 1 : i + 3]) for number, i in enumerate(at, 1)]


def student(lesson: NotebookNode, stem: str, *, answered: bool = False, mark: str = MARK) -> NotebookNode:
    """A lesson without outputs and answers.  answered: with them, between nbgrader's marks.  mark: instead of MARK."""
    made = nbformat.from_dict(lesson)
    tests = {}
    for exercise in exercises(made):
        name = f"exercise-{exercise.number}"
        answer = f"### BEGIN SOLUTION\n{CELL_MAGIC.sub('', exercise.answer)}\n### END SOLUTION"
        exercise.stub.source = opened(exercise.stub.source, answer if answered else MARK).replace(MARK, mark)
        exercise.stub.metadata.nbgrader = nbgrader(f"{stem}-{name}", solution=True)
        exercise.check.metadata.nbgrader = nbgrader(f"{stem}-{name}-check", points=1)
        exercise.check.metadata.otter = {"tests": [name]}  # otter checks right after this cell, not after the last one
        tests[name] = otter(name, exercise.verdict)
    made.cells = [cleared(cell) for cell in made.cells if "solution" not in tags(cell)]
    for number, cell in enumerate(cell for cell in made.cells if "setup" in tags(cell)):
        cell.metadata.nbgrader = nbgrader(f"{stem}-setup-{number}")
    made.metadata.otter = {"assignment_name": stem, "OK_FORMAT": True, "tests": tests}
    return made


def opened(stub: str, end: str) -> str:
    """A stub that ends in the place for the student's code; one with a place of its own as it is."""
    return stub if end == MARK and MARK in stub else f"{stub.rstrip()}\n\n\n{end}"


def cleared(cell: NotebookNode) -> NotebookNode:
    """A cell as nobody has run it."""
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    return cell


def nbgrader(grade_id: str, *, points: int | None = None, solution: bool = False) -> dict[str, object]:
    """The metadata of a cell by nbgrader's schema 3: what is changed, graded, or stays as it is."""
    graded = points is not None
    known = {"schema_version": 3, "grade_id": grade_id, "grade": graded, "solution": solution}
    return {**known, "locked": not solution, "task": False, **({"points": points} if graded else {})}


def otter(name: str, verdict: str) -> dict[str, object]:
    """A test as otter keeps it in a notebook's metadata: the check's last line as a doctest."""
    case = {"code": f">>> bool({verdict})\nTrue", "hidden": False, "locked": False}
    suite = {"cases": [case], "scored": True, "setup": "", "teardown": "", "type": "doctest"}
    return {"name": name, "points": 1, "suites": [suite]}


def solutions(lessons: dict[str, NotebookNode]) -> NotebookNode:
    """All answers, each below its task."""
    cells = [v4.new_markdown_cell("# Solutions")]
    for stem, lesson in lessons.items():
        cells.append(v4.new_markdown_cell(f"## {stem}"))
        for exercise in exercises(lesson):
            cells += [v4.new_markdown_cell(exercise.task.source), v4.new_code_cell(exercise.answer)]
    for number, cell in enumerate(cells):
        cell.id = f"solutions-{number}"  # the same on each run
    return v4.new_notebook(cells=cells, metadata=next(iter(lessons.values())).metadata)


if __name__ == "__main__":
    sys.exit(main())
