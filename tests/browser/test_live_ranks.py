"""Several ranks on one page: one screen, one axis, one window for all, and rows that open."""

import re
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.cli import main
from perfmagic.trace.formats.chrome import write_chrome
from tests.trace.recorded import eight_ranks
from tests.view.ranks.build import ranks, result

from .conftest import SCREENS, Saved
from .notebook import open_notebook, run_all, write_notebook
from .test_live_answers import LINES
from .test_live_page import opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(200)]

EIGHT = eight_ranks()
ROW_PX, GAP_PX, AXIS_PX = 36, 8, 17  # layout.ts


def click_rank(tab: Any, i: int) -> None:
    box = tab.locator(".pm canvas").first.bounding_box()
    tab.mouse.click(box["x"] + 300, box["y"] + AXIS_PX + i * (ROW_PX + GAP_PX) + ROW_PX / 2)
    tab.wait_for_timeout(500)


def windows(tab: Any) -> list[str]:
    """What each view says it shows: the length in its first line."""
    return [node.inner_text() for node in tab.locator(".pm-seen").all()]


def widths(tab: Any) -> list[tuple[float, float]]:
    boxes = [canvas.bounding_box() for canvas in tab.locator(".pm canvas").all()]
    return [(box["x"], box["width"]) for box in boxes]


def test_eight_ranks_fit_one_screen_and_ask_for_nothing(tab: Any, tmp_path: Path) -> None:
    for i, trace in ranks(8).traces.items():
        write_chrome(trace, tmp_path / f"rank{i}.json")
    page = tmp_path / "page.html"
    assert main(["report", *(str(tmp_path / f"rank{i}.json") for i in range(8)), "--html", "--out", str(page)]) == 0
    tab.set_viewport_size({"width": 1280, "height": 900})
    told = opened(tab, page)
    tab.screenshot(path=SCREENS / "page-ranks.png", full_page=True)
    assert tab.evaluate("document.documentElement.scrollHeight") <= 900
    assert tab.locator(".pm canvas").count() == 1  # one axis
    assert not tab.locator(".perfmagic-static").is_visible()
    assert told == []


def test_a_row_opens_to_the_rank_s_lanes_and_closes_again(tab: Any, tmp_path: Path) -> None:
    told = opened(tab, result().to_html(tmp_path / "page.html"))
    click_rank(tab, 2)
    assert [node.get_attribute("data-rank") for node in tab.locator(".pm-open-rank").all()] == ["2"]
    click_rank(tab, 0)
    assert [node.get_attribute("data-rank") for node in tab.locator(".pm-open-rank").all()] == ["0", "2"]
    assert tab.locator(".pm canvas").count() == 3
    assert len(set(widths(tab))) == 1  # their plots lie under each other
    tab.locator(".pm-open-rank .pm-rank-head button").first.click()
    tab.wait_for_timeout(200)
    assert [node.get_attribute("data-rank") for node in tab.locator(".pm-open-rank").all()] == ["2"]
    click_rank(tab, 2)
    assert tab.locator(".pm-open-rank").count() == 0
    assert told == []


def test_zooming_one_view_moves_all_of_them(tab: Any, tmp_path: Path) -> None:
    told = opened(tab, result().to_html(tmp_path / "page.html"))
    click_rank(tab, 1)
    click_rank(tab, 3)
    first = windows(tab)
    assert len(set(first)) == 1
    assert len(first) == 3
    box = tab.locator(".pm canvas").first.bounding_box()
    tab.mouse.move(box["x"] + 500, box["y"] + 60)
    tab.keyboard.press("w")  # over the rows
    tab.wait_for_timeout(500)
    zoomed = windows(tab)
    assert len(set(zoomed)) == 1
    assert zoomed != first
    inner = tab.locator(".pm-open-rank canvas").last
    inner.scroll_into_view_if_needed()
    box = inner.bounding_box()
    tab.mouse.move(box["x"] + 500, box["y"] + 60)
    tab.keyboard.down("Control")
    tab.mouse.wheel(0, -400)  # over the lanes of one rank
    tab.keyboard.up("Control")
    tab.wait_for_timeout(500)
    again = windows(tab)
    assert len(set(again)) == 1
    assert again != zoomed
    tab.keyboard.press("f")
    tab.wait_for_timeout(500)
    fitted = windows(tab)
    assert len(set(fitted)) == 1
    assert fitted != first  # it opens on the first cause, not on all
    assert told == []


def test_at_most_nine_lines_stand_above_eight_ranks(tab: Any, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": 948, "height": 800})
    ranks = perfmagic.open_traces(EIGHT).ranks
    told = opened(tab, ranks.to_html(tmp_path / "page.html"))
    tab.screenshot(path=SCREENS / "answers-ranks.png")
    assert 3 <= tab.evaluate(LINES) <= 9
    assert ranks.answers.decides in tab.locator(".pm-top").inner_text()
    assert tab.locator(".pm-action").count() == len(ranks.answers.answers) >= 2
    assert tab.locator(".pm-finding:visible").count() == 0
    tab.get_by_role("button", name=f"show: {ranks.answers.answers[0].headline}").press("Enter")
    tab.wait_for_timeout(500)
    assert tab.locator(".pm-why").first.inner_text().startswith("rank ")
    assert told == []


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_in_jupyterlab_the_ranks_open_zoom_together_and_are_in_the_colours_of_the_theme(
    desk: Any, lab: str, saved: Saved, theme: str
) -> None:
    cells = ("%load_ext perfmagic", f"import perfmagic\nperfmagic.open_traces({str(EIGHT)!r}).ranks")
    write_notebook(saved.folder / "ranks.ipynb", cells)
    told: list[str] = []
    desk.on("pageerror", lambda error: told.append(str(error)))
    open_notebook(desk, lab, "ranks.ipynb")
    desk.evaluate("(theme) => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    try:
        run_all(desk)
        desk.wait_for_selector(".pm canvas")
        desk.evaluate("() => document.querySelector('.pm').scrollIntoView()")
        desk.wait_for_timeout(800)
        assert "Python decides on every rank" in desk.locator(".pm-top").first.inner_text()
        late = desk.locator(".pm-finding", has_text="rank 7 takes")
        click_rank(desk, 7)
        desk.wait_for_selector(".pm-open-rank canvas")
        assert desk.locator(".pm-open-rank").get_attribute("data-rank") == "7"
        desk.screenshot(path=SCREENS / f"lab-ranks-{theme.split()[1].lower()}.png")
        whole = windows(desk)
        desk.locator(".pm-rest").first.click()
        late.locator(".pm-show").click()  # 2,770 µs of work, and 6 % to both sides
        desk.wait_for_timeout(500)
        shown = windows(desk)
        assert len(set(shown)) == 1 != len(set(whole) | set(shown))
        assert shown[0].startswith("3.10")
        ground = desk.evaluate("() => getComputedStyle(document.querySelector('.pm')).color")
        light = sum(map(int, re.findall(r"\d+", ground)[:3])) < 384
        assert light is (theme == "JupyterLab Light")
        assert told == []
    finally:
        # the theme is the server's, which other tests use
        desk.evaluate("() => jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")


def test_pointing_at_a_collective_says_what_each_rank_did_in_it(tab: Any, tmp_path: Path) -> None:
    told = opened(tab, result().to_html(tmp_path / "page.html"))
    box = tab.locator(".pm canvas").first.bounding_box()
    plot = box["width"] - 92 - 104  # layout.ts: without the column_widths
    comm_px = AXIS_PX + (5 + 14 + 5) / 36 * ROW_PX  # rank_bands.ts: the middle of the communication of the first row
    tab.mouse.move(box["x"] + 92 + plot * 0.15, box["y"] + comm_px)  # 600 µs of 4 ms: rank 0 waits since 320
    tab.wait_for_timeout(300)
    card = tab.locator(".pm-card").inner_text().replace("\u00a0", " ")
    assert "came last" in card
    assert card.split("came last")[1].split()[:2] == ["rank", "2"]
    assert "waits 500 µs" in card
    assert "moves data for 180 µs" in card
    tab.mouse.move(box["x"] + 92 + plot * 0.02, box["y"] + comm_px)  # nothing communicates there
    tab.wait_for_timeout(200)
    assert not tab.locator(".pm-card").is_visible()
    assert told == []
