"""Who decides and what to do, above the lanes of the live view: few lines, and each shows where it is."""

from pathlib import Path
from typing import Any

import pytest

from perfmagic.base import units
from perfmagic.results import TimelineResult
from tests.trace.recorded import real_trace, recorded
from tests.view.timeline.build import queue_of

from .conftest import SCREENS
from .test_live_page import opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(200)]

THREE_AND_ALL = "v100_2021_old_categories"
TRACES = (THREE_AND_ALL, "a100_nccl_rank0of2", "cpu_only_no_device_props", "mi300_resnet_2streams")
# how many lines of words stand above the lanes: words whose middles are less than half a line apart are one
LINES = """() => {
  const end = document.querySelector('.pm-body').getBoundingClientRect().top;
  const walker = document.createTreeWalker(document.querySelector('.pm'), NodeFilter.SHOW_TEXT);
  const middles = [];
  while (walker.nextNode()) {
    if (walker.currentNode.parentElement.closest('style')) continue;
    const range = document.createRange();
    range.selectNode(walker.currentNode);
    for (const box of range.getClientRects())
      if (box.width > 1 && box.bottom <= end) middles.push((box.top + box.bottom) / 2);
  }
  middles.sort((a, b) => a - b);
  return middles.filter((y, i) => i === 0 || y - middles[i - 1] > 6).length;
}"""


def page_of(name: str, tmp_path: Path) -> Path:
    return TimelineResult(real_trace(name)).to_html(tmp_path / "page.html")


def top_of(tab: Any, part: str) -> float:
    return float(tab.locator(part).bounding_box()["y"])


@pytest.mark.parametrize("name", TRACES)
def test_at_most_nine_lines_stand_above_the_lanes(new_tab: Any, tmp_path: Path, name: str) -> None:
    tab = new_tab(948, 800)
    told = opened(tab, page_of(name, tmp_path))
    tab.screenshot(path=SCREENS / f"answers-{name}.png")
    assert 3 <= tab.evaluate(LINES) <= 9
    assert top_of(tab, ".pm-body") <= 400
    assert told == []


def test_a_button_shows_where_an_answer_is_with_its_evidence_and_hides_it_again(new_tab: Any, tmp_path: Path) -> None:
    result = TimelineResult(real_trace(THREE_AND_ALL))
    tab = new_tab(948, 800)
    opened(tab, result.to_html(tmp_path / "page.html"))
    first = result.answers.answers[0]
    evidence, seen = tab.locator(".pm-why").first, tab.locator(".pm-seen")
    whole = seen.text_content()
    assert not evidence.is_visible()
    tab.get_by_role("button", name=f"show: {first.headline}").press("Enter")
    tab.wait_for_timeout(500)
    assert evidence.inner_text().startswith(first.evidence[0][:40])
    assert seen.is_visible()
    assert seen.text_content() != whole
    assert tab.locator(".pm-panel .pm-big").text_content() == units.duration(first.end_ns - first.start_ns)
    assert tab.locator(".pm-top > b").text_content() == whole  # the title is of the whole time
    tab.get_by_role("button", name=f"hide: {first.headline}").press("Enter")
    tab.wait_for_timeout(500)
    assert not evidence.is_visible()
    assert seen.text_content() == whole


def test_all_findings_are_one_key_away(new_tab: Any, tmp_path: Path) -> None:
    result = TimelineResult(recorded("v100_4streams_nccl_step"))
    tab = new_tab(948, 800)
    opened(tab, result.to_html(tmp_path / "page.html"))
    more = tab.locator(".pm-rest")
    assert more.get_attribute("aria-expanded") == "false"
    assert tab.locator(".pm-finding:visible").count() == 0
    more.press("Enter")
    assert more.get_attribute("aria-expanded") == "true"
    assert tab.locator(".pm-finding:visible").count() == len(result.findings)
    more.press("Enter")
    assert tab.locator(".pm-finding:visible").count() == 0


@pytest.mark.parametrize(("width", "below"), [(900, False), (400, True)])
def test_in_a_narrow_window_the_times_stand_below_the_words(
    new_tab: Any, tmp_path: Path, width: int, below: bool
) -> None:
    tab = new_tab(width + 48, 800, color_scheme="dark")
    opened(tab, page_of(THREE_AND_ALL, tmp_path))
    tab.screenshot(path=SCREENS / f"answers-{width}-dark.png")
    words = tab.locator(".pm-action").first.bounding_box()
    times = tab.locator(".pm-figures").first.bounding_box()
    assert (times["y"] >= words["y"] + words["height"]) is below
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_cell_without_answers_says_who_decides_and_what_ran(new_tab: Any, tmp_path: Path) -> None:
    result = TimelineResult(queue_of())
    tab = new_tab(948, 800)
    opened(tab, result.to_html(tmp_path / "page.html"))
    assert result.answers.decides in tab.locator(".pm-top").inner_text()
    assert tab.locator(".pm-about").inner_text() == result.doc.header.about
    assert tab.locator(".pm-action").count() == len(result.answers.answers)
