"""A finding's sentence is worded in the file named after its rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfmagic.analysis.findings import find

ROOM = Path(find.__file__).parent
# verdict.py words the verdict; copy_overlap.py and python_was.py word what several
# findings say, gains.py what their changes would gain
NO_RULE = {
    "__init__",
    "busy",
    "cell_time",
    "communicated",
    "copy_overlap",
    "ddp_copies",
    "host_only",
    "facts",
    "find",
    "finding",
    "gains",
    "places",
    "python_was",
    "verdict",
}
# the rules that are given time, those that are not, and those that find.py asks by themselves
RULES = (
    *(find.FOR_HOST + find.IDLE + find.EXPOSED),
    *(find.BUSY + find.WITHOUT_TIME + find.WITHOUT_DURATIONS),
    *(find.longest_gap, find.waited_for_host, find.device_time, find.slower_copies),
)
OF_ONE_RULE = {"began_late": "alone", "start_up": "alone", "went_on_alone": "alone", "slower_copies": "pageable"}


def rules_in(path: Path) -> set[str]:
    """The rules whose findings a file makes."""
    text = path.read_text(encoding="utf-8")
    named = re.findall(r'rule="(\w+)"|(?:waiting|about_the_record|_exposed)\(\s*facts,(?:\s*\w+,)?\s*"(\w+)"', text)
    return {name for pair in named for name in pair if name}


@pytest.mark.parametrize("path", sorted(p for p in ROOM.glob("*.py") if p.stem not in NO_RULE), ids=lambda p: p.stem)
def test_a_file_holds_the_findings_of_its_own_name_and_its_docstring_quotes_their_words(path: Path) -> None:
    rules = rules_in(path)
    assert rules
    assert {rule for rule in rules if not rule.startswith(path.stem)} == set()
    assert "sentence" in path.read_text(encoding="utf-8").splitlines()[0]


def test_every_rule_that_is_asked_lives_in_such_a_file() -> None:
    homes = {Path(rule.__code__.co_filename).stem for rule in RULES}
    assert homes == {p.stem for p in ROOM.glob("*.py")} - NO_RULE


def test_a_rule_is_a_function_of_the_name_of_its_file() -> None:
    named = {(rule.__module__.rpartition(".")[2], rule.__name__) for rule in RULES}
    assert named >= {(file, name) for name, file in OF_ONE_RULE.items()}
    assert {(file, name) for file, name in named if not OF_ONE_RULE.get(name, name).startswith(file)} == set()
