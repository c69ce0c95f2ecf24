"""Memory in the lines tab of the live timeline: a column that adds up to the peak."""

from pathlib import Path
from typing import Any

import pytest

from tests.view.timeline.lines.build import with_backward
from tests.view.timeline.lines.test_memory_column import with_blocks

from .conftest import SCREENS
from .test_live_lines import lines_of, page_of, row
from .test_live_page import INK, opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(200)]


def test_the_column_of_memory_is_closed_by_the_peak(tab: Any, tmp_path: Path) -> None:
    told = lines_of(tab, page_of(with_blocks(), tmp_path))
    tab.screenshot(path=SCREENS / "lines-memory-light.png", full_page=True)
    table = tab.get_by_role("table")
    assert [node.inner_text() for node in table.get_by_role("columnheader").all()][-1] == "at the peak"

    def last_cell(code: str) -> str:
        return str(row(tab, code).locator("td").last.inner_text()).replace("\u00a0", " ")

    assert (last_cell("step(1)"), last_cell("y = x @ x"), last_cell("z = x + 1")) == ("79.0 kB", "10.0 kB", "4.00 kB")
    sums = [node.inner_text().replace("\u00a0", " ").split("\t") for node in tab.locator(".pm-total").all()]
    assert [cells[-1] for cells in sums] == ["79.0 kB", "16.0 kB", "95.0 kB"]
    assert [cells[-2] for cells in sums[1:]] == ["before the cell", "the peak"]
    row(tab, "y = x @ x").hover()
    tab.wait_for_timeout(150)
    assert "10.0 kB at the peak" in tab.locator(".pm-say[aria-live]").inner_text().replace("\u00a0", " ")
    assert told == []


def test_without_blocks_there_is_no_column_of_memory(tab: Any, tmp_path: Path) -> None:
    lines_of(tab, page_of(with_backward(), tmp_path))
    assert tab.get_by_text("at the peak").count() == 0


def test_the_memory_tab_lights_rows_from_layers_and_layers_from_rows(tab: Any, tmp_path: Path) -> None:
    told = opened(tab, page_of(with_blocks(), tmp_path))
    tab.get_by_role("tab", name="memory").click()
    tab.wait_for_selector(".pm-memory canvas")
    tab.wait_for_timeout(200)
    tab.screenshot(path=SCREENS / "memory-light.png", full_page=True)
    calm = tab.locator(".pm-memory canvas").evaluate(INK)
    rows = tab.locator(".pm-memory tbody tr.pm-ran")
    rows.first.hover()
    tab.wait_for_timeout(150)
    assert tab.locator(".pm-memory canvas").evaluate(INK) != calm  # the other layers are paler
    assert "at the peak" in tab.locator(".pm-memory .pm-say").inner_text()
    box = tab.locator(".pm-memory canvas").bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    tab.wait_for_timeout(150)
    lit = tab.locator(".pm-memory tr.pm-told td:last-child").all_inner_texts()
    assert lit == ["before the cell"]
    tab.get_by_role("button", name="by line").click()
    assert "line 2" in tab.locator(".pm-memory .pm-linekey").inner_text()
    assert tab.locator(".pm-total:visible td").first.inner_text().replace("\u00a0", " ") == "95.0 kB"
    assert told == []
