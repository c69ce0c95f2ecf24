"""The lines tab of the live timeline: it opens, a line lights its ops, an op its lines, and keys do the same."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmagic.analysis.ranks.ranks import ranks_of
from perfmagic.results import RanksResult, TimelineResult
from perfmagic.trace.model import Cell, Trace
from tests.view.ranks.build import ring
from tests.view.timeline.build import HOSTILE, noisy, queue_of
from tests.view.timeline.lines.build import with_backward

from .conftest import SCREENS
from .test_live_page import INK, opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(200)]

MS_OF_OPS = (12, 15, 32, 51)  # of with_backward: when each op, 2 ms long, began; its span is 100 ms
STEP_2, STEP_3, WORK_11, CELL_2 = "y = x @ x", "step(n - 1)", "z = x + 1", "step(1)"


def lines_of(tab: Any, page: Path) -> list[str]:
    """A page with its lines tab open; gives what it complains about."""
    told = opened(tab, page)
    tab.get_by_role("tab", name="lines").click()
    tab.wait_for_selector(".pm-linebox canvas")
    tab.wait_for_timeout(300)
    return told


def page_of(trace: Trace, folder: Path) -> Path:
    return TimelineResult(trace).to_html(folder / "page.html")


def row(tab: Any, code: str) -> Any:
    """The row of a line by its whole code."""
    return tab.locator(".pm-lines tr", has=tab.get_by_text(code, exact=True))


def rows_that_are(tab: Any, cls: str) -> list[str]:
    return [node.inner_text().strip() for node in tab.locator(f".pm-lines tr.{cls} .pm-code").all()]


def point_at(tab: Any, ms: float) -> None:
    """The pointer on the device's lane of the strip."""
    across = tab.locator(".pm-linebox canvas").bounding_box()
    lanes = tab.locator(".pm-body canvas").bounding_box()
    tab.mouse.move(across["x"] + across["width"] * ms / 100, lanes["y"] + lanes["height"] - 14)
    tab.wait_for_timeout(150)


def ink(tab: Any, which: str = ".pm-body canvas") -> Any:
    return tab.locator(which).evaluate(INK)


def test_the_tab_shows_every_line_with_its_numbers_as_a_table_with_headers(tab: Any, tmp_path: Path) -> None:
    told = lines_of(tab, page_of(with_backward(), tmp_path))
    tab.screenshot(path=SCREENS / "lines-light.png", full_page=True)
    table = tab.get_by_role("table")
    heads = [node.inner_text() for node in table.get_by_role("columnheader").all()]
    assert heads == [
        *("whole cell, ms", "line", "code", "when"),
        *("Python", "waiting", "device", "its backward", "ops"),
    ]
    assert [node.inner_text() for node in table.get_by_role("rowheader").all()][:2] == ["1", "2"]
    cells = [node.inner_text() for node in row(tab, STEP_2).locator("td").all()]
    assert cells[0].strip() == STEP_2
    assert cells[2:] == ["20.0", "", "4.00", "2.00", "2"]
    assert tab.get_by_text("every op counts once").count() == 1
    assert "called from line 2" in tab.locator(".pm-function").first.inner_text()
    assert told == []


def test_pointing_at_a_line_lights_its_ops_without_a_click(tab: Any, tmp_path: Path) -> None:
    told = lines_of(tab, page_of(with_backward(), tmp_path))
    before, strips = ink(tab), ink(tab, ".pm-linebox canvas")
    row(tab, STEP_2).hover()
    tab.wait_for_timeout(200)
    lit = ink(tab)
    assert lit != before
    assert ink(tab, ".pm-linebox canvas") == strips  # the table's strips stay as they are
    assert rows_that_are(tab, "pm-told") == [STEP_2]
    said = tab.locator(".pm-say[aria-live]").inner_text()
    assert said.startswith(
        "step line 2 · Python 20.0\u00a0ms · 2 ops, 4.00\u00a0ms on the device · its backward 2.00\u00a0ms"
    )
    row(tab, WORK_11).hover()
    tab.wait_for_timeout(200)
    assert ink(tab) not in (before, lit)
    tab.mouse.move(5, 5)
    tab.wait_for_timeout(200)
    assert ink(tab) == before
    assert rows_that_are(tab, "pm-told") == []
    assert told == []


def test_pointing_at_an_op_fills_its_line_tints_the_callers_and_dashes_the_forward(tab: Any, tmp_path: Path) -> None:
    told = lines_of(tab, page_of(with_backward(), tmp_path))
    point_at(tab, MS_OF_OPS[2] + 1)
    tab.screenshot(path=SCREENS / "lines-op-light.png", full_page=True)
    assert rows_that_are(tab, "pm-told") == [STEP_2]
    assert rows_that_are(tab, "pm-caller") == [CELL_2, STEP_3]
    assert rows_that_are(tab, "pm-forward") == []
    assert "step line 2, called from step line 3, line 2" in tab.locator(".pm-say[aria-live]").inner_text()
    assert tab.locator(".pm-card").count() == 0  # it would lie over the rows
    point_at(tab, MS_OF_OPS[3] + 1)
    assert rows_that_are(tab, "pm-told") == [CELL_2]
    assert rows_that_are(tab, "pm-forward") == [STEP_2]
    assert "backward of step line 2" in tab.locator(".pm-say[aria-live]").inner_text()
    assert told == []


def test_the_card_of_the_timeline_names_the_line_and_its_callers(tab: Any, tmp_path: Path) -> None:
    told = opened(tab, page_of(with_backward(), tmp_path))
    box = tab.locator(".pm canvas").bounding_box()
    found = set()
    for x in range(int(box["x"]) + 92, int(box["x"] + box["width"]) - 104, 4):
        tab.mouse.move(x, box["y"] + box["height"] - 28)
        if tab.locator(".pm-card").count():
            found.add(tab.locator(".pm-card").inner_text())
    words = "\n".join(found)
    assert re.search(r"queued by\s+step line 2, called from step line 3, line 2", words)
    assert re.search(r"backward of\s+step line 2, called from line 2", words)
    assert told == []


def test_keys_open_the_tab_walk_the_rows_pin_and_clear(tab: Any, tmp_path: Path) -> None:
    told = opened(tab, page_of(with_backward(), tmp_path))
    tab.locator(".pm-body").focus()
    tab.mouse.move(5, 5)
    tab.keyboard.press("l")
    tab.wait_for_selector(".pm-linebox canvas")
    assert tab.get_by_role("tab", name="lines").get_attribute("aria-selected") == "true"
    for key, code in (("ArrowDown", CELL_2), ("ArrowDown", STEP_2), ("Tab", STEP_3), ("ArrowUp", STEP_2)):
        tab.keyboard.press(key)  # the first line of the cell did not run: no stop
        assert rows_that_are(tab, "pm-told") == [code]
    tab.keyboard.press("Enter")
    assert rows_that_are(tab, "pm-pinned") == [STEP_2]
    tab.keyboard.press("ArrowDown")
    assert rows_that_are(tab, "pm-told") == [STEP_3]
    assert rows_that_are(tab, "pm-pinned") == [STEP_2]
    tab.keyboard.press("Escape")
    assert rows_that_are(tab, "pm-pinned") == []
    tab.keyboard.press("?")
    assert "lines and what each cost" in tab.locator(".pm-help").inner_text()
    tab.keyboard.press("Escape")
    tab.keyboard.press("l")
    assert not tab.locator(".pm-lines").is_visible()
    assert told == []


def test_the_window_is_kept_by_switching_and_the_strips_follow_it(tab: Any, tmp_path: Path) -> None:
    told = lines_of(tab, page_of(with_backward(), tmp_path))
    whole = ink(tab, ".pm-linebox canvas")
    numbers = row(tab, STEP_2).inner_text()
    point_at(tab, 12)
    tab.keyboard.press("w")
    tab.wait_for_timeout(500)
    total = tab.locator(".pm-seen").inner_text()
    assert total != "100\u00a0ms"
    assert ink(tab, ".pm-linebox canvas") != whole
    assert row(tab, STEP_2).inner_text() == numbers  # columns are those of the whole
    assert tab.get_by_role("columnheader", name="when, in view").count() == 1
    tab.get_by_role("tab", name="timeline").click()
    assert tab.locator(".pm-seen").inner_text() == total
    tab.get_by_role("tab", name="lines").click()
    tab.keyboard.press("f")
    tab.wait_for_timeout(500)
    assert ink(tab, ".pm-linebox canvas") == whole
    assert told == []


def test_a_line_named_by_a_finding_is_told_of(tab: Any, tmp_path: Path) -> None:
    told = lines_of(tab, page_of(queue_of(), tmp_path))
    tab.locator(".pm-rest").click()  # which opens all findings
    before = ink(tab)
    button = tab.locator(".pm-line:visible").first
    line = button.inner_text()
    button.click()
    tab.mouse.move(5, 5)
    tab.wait_for_timeout(300)
    assert tab.locator(".pm-lines tr.pm-told th").inner_text() == line
    button.click()
    tab.mouse.move(5, 5)
    tab.wait_for_timeout(300)
    assert tab.locator(".pm-lines tr.pm-told").count() == 0
    assert ink(tab) == before
    assert told == []


def test_without_functions_one_line_says_how_to_follow_them(tab: Any, tmp_path: Path) -> None:
    lines_of(tab, page_of(queue_of(), tmp_path))
    assert tab.locator(".pm-note").first.inner_text().startswith("Functions were not followed")
    assert "--lines" in tab.locator(".pm-note").first.inner_text()
    assert tab.locator(".pm-function").count() == 0
    assert tab.locator(".pm-lines tbody tr").count() == 4  # the cell's three, and their sum


def test_a_trace_that_knows_no_lines_has_no_tabs(tab: Any, tmp_path: Path) -> None:
    opened(tab, page_of(noisy(100), tmp_path))
    assert tab.get_by_role("tab").count() == 0
    tab.locator(".pm-body").focus()
    tab.keyboard.press("l")
    assert tab.locator(".pm-lines").count() == 0


@pytest.mark.parametrize("width", [360, 1000, 2200])
def test_it_fits_narrow_and_wide_windows_in_the_dark(chromium: Any, tmp_path: Path, width: int) -> None:
    context = chromium.new_context(viewport={"width": width + 40, "height": 900}, color_scheme="dark")
    tab = context.new_page()
    trace = with_backward()
    lines_of(tab, page_of(replace(trace, cell=Cell("%%timeline\nstep(1)" + " + 0" * 200)), tmp_path))
    tab.screenshot(path=SCREENS / f"lines-{width}-dark.png", full_page=True)
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    code = tab.locator(".pm-code").nth(1)
    assert code.evaluate("(node) => node.scrollWidth > node.clientWidth")
    code.evaluate("(node) => { node.scrollLeft = 120 }")
    tab.wait_for_timeout(200)
    assert code.evaluate("(node) => node.scrollLeft") == 120
    assert sum(map(int, re.findall(r"\d+", row(tab, STEP_2).evaluate("(r) => getComputedStyle(r).color"))[:3])) > 400
    if width > 720:
        across = tab.locator(".pm-linebox canvas").bounding_box()
        box = tab.locator(".pm-body canvas").bounding_box()
        assert across["width"] > width * 0.2
        assert abs(tab.locator(".pm-lines table").bounding_box()["width"] - box["width"]) <= 1
    context.close()


def test_the_strip_stays_while_the_table_scrolls(tab: Any, tmp_path: Path) -> None:
    trace = with_backward()
    long = replace(trace, cell=Cell("\n".join(["%%timeline", "step(1)", *["# more"] * 200])))
    lines_of(tab, page_of(long, tmp_path))
    tab.evaluate("() => window.scrollTo(0, document.documentElement.scrollHeight)")
    tab.wait_for_timeout(300)
    assert tab.locator(".pm-body canvas").bounding_box()["y"] >= 0
    row(tab, STEP_2).hover()
    assert rows_that_are(tab, "pm-told") == [STEP_2]


def test_hostile_code_is_only_text(tab: Any, tmp_path: Path) -> None:
    cell = Cell("%%timeline\n" + HOSTILE + "<img src=x onerror=alert(1)>")
    told = lines_of(tab, page_of(replace(with_backward(), cell=cell), tmp_path))
    assert tab.locator(".pm img").count() == 0
    assert "onerror" in tab.locator(".pm-code").nth(1).inner_text()
    assert told == []


def test_an_opened_rank_has_its_own_tabs(tab: Any, tmp_path: Path) -> None:
    traces = [replace(ring(i), cell=Cell("pass_on(message)")) for i in range(4)]
    found = ranks_of(traces)
    assert found is not None
    results = [TimelineResult(trace, title=f"rank{i}.json") for i, trace in enumerate(traces)]
    told = opened(tab, RanksResult(tuple(results), found).to_html(tmp_path / "page.html"))
    box = tab.locator(".pm canvas").first.bounding_box()
    tab.mouse.click(box["x"] + 300, box["y"] + 30)
    tab.wait_for_selector(".pm-open-rank canvas")
    tab.locator(".pm-open-rank").get_by_role("tab", name="lines").click()
    tab.wait_for_selector(".pm-open-rank .pm-linebox canvas")
    tab.wait_for_timeout(300)
    tab.screenshot(path=SCREENS / "lines-rank.png", full_page=True)
    assert not tab.locator(".pm-open-rank .pm-seen").is_visible()
    assert tab.locator(".pm-open-rank .pm-lines tbody tr").count() > 0
    assert told == []
