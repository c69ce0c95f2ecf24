"""The static pictures hold what tests/data/svg says: a lane, mark or number more, less or moved is a change."""

import difflib
import re

import pytest

from perfmagic.analysis.findings.find import findings
from perfmagic.view.timeline.doc import timeline_doc
from perfmagic.view.timeline.picture.timeline import timeline_svg
from tests.view.timeline.build import queue_of
from tests.view.timeline.golden import DRAWN, FOLDER, described

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_was_agreed_on(name: str) -> None:
    agreed = (FOLDER / f"{name}.txt").read_text("utf-8").splitlines()
    changed = list(difflib.unified_diff(agreed, DRAWN[name](), "agreed", "drawn", n=0, lineterm=""))
    assert not changed, "\n".join([*changed, "where this is meant: python -m tests.view.timeline.golden"])


def test_every_agreed_picture_is_drawn() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(DRAWN)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda svg: svg.replace("</svg>", '<path class="a" d="M0 0h9v9z"/></svg>'), "path"),
        (lambda svg: svg.replace("launches<", "calls<", 1), "“calls”"),
        (lambda svg: re.sub(r'(<text class="a" x="-16" y=")\d+', r"\g<1>777", svg, count=1), "y=778"),
        (lambda svg: re.sub(r'(<path class="[^"]*" d="M)\d+', r"\g<1>3", svg, count=1), "3,"),
    ],
    ids=["a new mark", "another word", "a moved label", "a moved shape"],
)
def test_a_change_of_a_picture_is_seen(change: object, words: str) -> None:
    trace = queue_of()
    svg = timeline_svg(timeline_doc(trace, findings(trace)))
    other = change(svg)  # type: ignore[operator]
    assert other != svg
    new = [line for line in described(other) if line not in described(svg)]
    assert len(new) == 1
    assert words in new[0]


def test_letters_of_styles_and_tenths_of_pixels_are_no_change() -> None:
    trace = queue_of()
    svg = timeline_svg(timeline_doc(trace, findings(trace)))
    renamed = svg.replace(".a{", ".zz{").replace('class="a"', 'class="zz"')
    assert renamed != svg
    assert described(renamed) == described(svg)
