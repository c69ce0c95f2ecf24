"""Each finding is made in one file, by the rule of its name."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from perfmagic.analysis.findings import find
from perfmagic.analysis.findings.device_time import device_time
from perfmagic.analysis.findings.find import OTHER_NAMES
from perfmagic.analysis.findings.gaps import longest_gap, waited_for_host

FOLDER = Path(find.__file__).parent
# the rules that are given time, those that are not, and those that find.py asks by themselves
RULES = (
    *(find.FOR_HOST + find.IDLE + find.EXPOSED),
    *(find.BUSY + find.WITHOUT_TIME + find.WITHOUT_DURATIONS),
    *(longest_gap, waited_for_host, device_time, find.slower_copies),
)


def rules_in(path: Path) -> set[str]:
    """The rules whose findings a file makes."""
    text = path.read_text(encoding="utf-8")
    named = re.findall(r'rule="(\w+)"|(?:waiting|_exposed)\(\s*facts,(?:\s*\w+,)?\s*"(\w+)"', text)
    return {name for pair in named for name in pair if name}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_file_of_a_rule_makes_its_finding(rule: Callable[..., object]) -> None:
    path = Path(rule.__code__.co_filename)
    assert OTHER_NAMES.get(rule.__name__, rule.__name__) in rules_in(path)


def test_no_two_files_make_the_same_finding() -> None:
    homes = [(name, path.stem) for path in FOLDER.glob("*.py") for name in rules_in(path)]
    assert len(homes) > 25
    assert len({name for name, _ in homes}) == len(homes)
