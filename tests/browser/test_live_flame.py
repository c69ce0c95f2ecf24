"""Where Python was in a selection of the live view: the numbers of t.flame(), with pointer, keyboard and reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfmagic.analysis.timeline.flame.call_paths import THREAD, CallPath
from perfmagic.base import units
from perfmagic.results import TimelineResult
from perfmagic.results.flame import FlameResult
from tests.frontend.test_source import npm  # noqa: F401 — a fixture: the pinned tools, installed
from tests.trace.recorded import real_trace

from .conftest import SCREENS
from .test_everyone import AXE
from .test_live_page import opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(200)]

STACKS, OPERATORS = "b200_pdl_overlaps_python_stacks", "v100_2021_old_categories"
BOX = "[role=treeitem]"


def shown(tab: Any, name: str, tmp_path: Path) -> TimelineResult:
    """A page whose first answer is shown, with the flame graph of its time."""
    result = TimelineResult(real_trace(name))
    assert opened(tab, result.to_html(tmp_path / "page.html")) == []
    tab.locator(".pm-answer .pm-show").first.click()
    tab.locator(".pm-why").first.get_by_role("button", name="Where Python was").click()
    tab.wait_for_selector(BOX)
    return result


def words_of(path: CallPath, flame: FlameResult) -> str:
    thread = next(row for row in flame.data.paths if row.thread == path.thread)
    share = units.percent(path.total_ns / thread.total_ns)
    alone = f"itself · {units.plural(path.n_calls, 'call')}"
    if path.kind == THREAD:
        alone = "outside of all that is recorded"
    times = f"{units.duration(path.total_ns)}, {share} of the selection · {units.duration(path.self_ns)} {alone}"
    return f"{path.name}: {times}"


def titles(tab: Any) -> list[str]:
    return [str(title) for title in tab.locator(BOX).evaluate_all("(all) => all.map((box) => box.title)")]


@pytest.mark.parametrize("name", [STACKS, OPERATORS])
def test_an_answer_s_time_has_the_paths_of_t_flame(new_tab: Any, tmp_path: Path, name: str) -> None:
    tab = new_tab(900, 900)
    flame = shown(tab, name, tmp_path).flame(answer=1, by_thread=True)
    tab.locator(".pm-flame").screenshot(path=SCREENS / f"flame-{name}.png")
    expected = [words_of(path, flame) for path in flame.data.paths]
    found = titles(tab)
    assert len(found) > 40
    assert set(found) - set(expected) == set()
    wide = [
        words
        for words, path in zip(expected, flame.data.paths, strict=True)
        if path.total_ns * 50 > flame.data.total_ns
    ]
    above = tab.locator(".pm-crumbs button").evaluate_all("(all) => all.map((name) => name.title)")
    assert set(wide) - set(found) - set(above) == set()


def test_a_click_zooms_to_a_path_and_escape_shows_all_again(new_tab: Any, tmp_path: Path) -> None:
    tab = new_tab(900, 900)
    shown(tab, STACKS, tmp_path)
    whole = titles(tab)
    inner = tab.locator(BOX).nth(5)
    name = inner.get_attribute("title")
    inner.hover()
    assert tab.locator(".pm-flame .pm-say").inner_text() == name
    inner.click()
    zoomed = titles(tab)
    assert zoomed[0] == name
    assert 1 < len(zoomed) < len(whole)
    box, graph = (tab.locator(part).first.bounding_box() for part in (BOX, ".pm-tree"))
    assert abs(box["width"] - graph["width"]) < 1
    tab.keyboard.press("Escape")
    assert titles(tab) == whole
    assert tab.locator(".pm-panel").is_visible()  # the selection stays


def test_arrows_walk_from_path_to_path_and_enter_zooms(new_tab: Any, tmp_path: Path) -> None:
    tab = new_tab(900, 900)
    shown(tab, STACKS, tmp_path)
    tab.locator(BOX).first.focus()
    window = tab.locator(".pm-about").inner_text()
    walked = []
    for key in ("ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp"):
        tab.keyboard.press(key)
        walked.append(tab.evaluate("document.activeElement.title"))
    assert walked[0] == walked[2] != walked[1]
    assert walked[3] == titles(tab)[0]
    assert tab.locator(f'{BOX}[tabindex="0"]').count() == 1
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.title") == walked[0] == titles(tab)[0]
    assert tab.locator(".pm-about").inner_text() == window  # the lanes did not take the keys


def test_a_dragged_selection_has_a_graph_of_its_own_time(new_tab: Any, tmp_path: Path) -> None:
    tab = new_tab(900, 900)
    shown(tab, STACKS, tmp_path)
    first = titles(tab)
    tab.locator(".pm-answer .pm-show").first.click()
    assert not tab.locator(".pm-flame").is_visible()
    box = tab.locator(".pm-body canvas").bounding_box()
    tab.mouse.move(box["x"] + 300, box["y"] + 200)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 420, box["y"] + 200, steps=3)
    tab.mouse.up()
    assert tab.locator(BOX).count() > 10  # it stays open
    assert titles(tab) != first
    thread = tab.locator(".pm-crumbs button").first
    assert f": {tab.locator('.pm-big').inner_text()}, " in thread.get_attribute("title")


@pytest.mark.usefixtures("npm")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_in_an_open_graph(new_tab: Any, tmp_path: Path, scheme: str) -> None:
    tab = new_tab(900, 900, color_scheme=scheme, bypass_csp=True)
    shown(tab, STACKS, tmp_path)
    tab.screenshot(path=SCREENS / f"flame-{scheme}.png", full_page=True)
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    tab.evaluate(AXE.read_text("utf-8"))
    found = tab.evaluate("async () => (await axe.run()).violations.map((v) => [v.id, v.nodes.map((n) => n.html)])")
    assert found == []
