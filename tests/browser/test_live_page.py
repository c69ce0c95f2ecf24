"""The self-contained page: live without a network, under a strict policy, whatever the names are."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.cli import main
from perfmagic.results import TimelineResult
from perfmagic.trace.columns import Remark
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.window import window
from perfmagic.view.svg.canvas import WIDTH_PX
from tests.trace.recorded import FOLDER, real, recorded
from tests.view.timeline.build import HOSTILE, queue_of

from .conftest import SCREENS
from .test_live_timeline import CUT_OFF
from .test_saved_pictures import requests_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(200)]


def opened(tab: Any, page: Path) -> list[str]:
    """Open a page offline; gives the list of what it complains about and asks for."""
    told = requests_of(tab)
    tab.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: told.append(str(error)))
    tab.on("dialog", lambda dialog: (told.append(dialog.message), dialog.dismiss()))
    tab.context.set_offline(True)
    tab.goto(page.as_uri())
    tab.wait_for_selector(".pm canvas", timeout=20_000)
    tab.wait_for_timeout(400)
    return told


def test_the_page_is_live_offline_and_asks_for_nothing(tab: Any, tmp_path: Path) -> None:
    page = TimelineResult(recorded("v100_4streams_nccl_step")).to_html(tmp_path / "page.html")
    told = opened(tab, page)
    assert not tab.locator(".perfmagic-static").is_visible()
    tab.screenshot(path=SCREENS / "page-live.png", full_page=True)
    box = tab.locator(".pm canvas").bounding_box()
    tab.mouse.click(box["x"] + 400, box["y"] + 40)
    tab.keyboard.press("/")
    tab.keyboard.type("nccl")
    tab.wait_for_timeout(200)
    assert tab.locator(".pm-find span").inner_text().startswith("24 hits")  # 14 device ops and 10 operators of the host
    tab.keyboard.press("Enter")
    tab.wait_for_timeout(400)
    assert "nccl" in tab.locator(".pm-card h3").inner_text().lower()
    assert told == []


def test_a_plain_page_s_script_cannot_run_in_it(tab: Any, tmp_path: Path) -> None:
    page = TimelineResult(queue_of()).to_html(tmp_path / "page.html")
    text = page.read_text("utf-8").replace("</body>", "<script>document.title = 'taken'</script></body>")
    page.write_text(text, "utf-8")
    told = opened(tab, page)
    assert tab.title() != "taken"
    assert any("Content Security Policy" in line for line in told)


def test_hostile_names_are_only_text(tab: Any, tmp_path: Path) -> None:
    name = HOSTILE + "</script><img src=x onerror=alert(3)><!--"
    result = TimelineResult(queue_of(name=name), title="<script>alert(4)</script>")
    told = opened(tab, result.to_html(tmp_path / "page.html"))
    box = tab.locator(".pm canvas").bounding_box()
    for down in range(60, int(box["height"]), 10):
        tab.mouse.move(box["x"] + 500, box["y"] + down)
    assert tab.locator(".pm img").count() == 0
    assert told == []


def test_two_timelines_of_a_page_are_independent(tab: Any, tmp_path: Path) -> None:
    from perfmagic.view.page import live_page
    from perfmagic.view.timeline.writers import live_section

    results = [TimelineResult(queue_of(n)) for n in (11, 20)]
    page = tmp_path / "two.html"
    page.write_text(live_page("two", [live_section(r.doc, r.trace) for r in results]), "utf-8")
    told = opened(tab, page)
    box = tab.locator(".pm canvas").first.bounding_box()
    tab.mouse.click(box["x"] + 300, box["y"] + 36)
    before = tab.locator(".pm-seen").nth(1).inner_text()
    tab.keyboard.press("w")
    tab.wait_for_timeout(400)
    assert tab.locator(".pm-seen").nth(1).inner_text() == before
    assert tab.locator(".pm-seen").nth(0).inner_text() != before
    assert told == []


@pytest.mark.parametrize("width", [360, 600, 1000])
def test_it_fits_a_narrow_window(new_tab: Any, tmp_path: Path, width: int) -> None:
    tab = new_tab(width + 40, 900, color_scheme="dark")
    opened(tab, TimelineResult(recorded("gp100_gpu_user_annotation")).to_html(tmp_path / "page.html"))
    tab.screenshot(path=SCREENS / f"page-{width}-dark.png", full_page=True)
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_wide_window_is_used_in_full_by_the_live_view_and_never_enlarges_the_letters_of_the_picture(
    chromium: Any, tmp_path: Path
) -> None:
    page = TimelineResult(queue_of()).to_html(tmp_path / "page.html")
    context = chromium.new_context(viewport={"width": 2200, "height": 900})
    tab = context.new_page()
    opened(tab, page)
    assert tab.locator(".pm canvas").bounding_box()["width"] > 2100
    tab.evaluate("() => { document.querySelector('.perfmagic-static').style.display = '' }")
    assert tab.locator(".perfmagic-static img").bounding_box()["width"] == WIDTH_PX
    context.close()


def test_fine_print_takes_one_line_until_it_is_clicked(tab: Any, tmp_path: Path) -> None:
    trace = queue_of()
    sentences = ("The first of three. " * 20, "The second.", "The third.")
    notes = tuple(Remark("tested", sentence) for sentence in sentences)
    noted = replace(trace, meta=replace(trace.meta, notes=notes))
    opened(tab, TimelineResult(noted).to_html(tmp_path / "page.html"))
    fine = tab.locator(".pm-fine")
    assert fine.bounding_box()["height"] < 24
    assert "2 more" in fine.inner_text()
    assert "The third." not in fine.inner_text()
    fine.locator("summary").click()
    assert fine.bounding_box()["height"] > 40
    assert "The second." in fine.inner_text()
    assert "The third." in fine.inner_text()


@pytest.mark.parametrize("y", [72, 200])  # Python's launches and what blocked it; the stream
def test_the_card_of_a_long_name_stands_whole_inside_the_view(tab: Any, tmp_path: Path, y: int) -> None:
    name = "void at::native::" + "vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>" * 6
    opened(tab, TimelineResult(queue_of(name=name)).to_html(tmp_path / "page.html"))
    box, seen = tab.locator(".pm canvas").bounding_box(), 0
    for x in range(int(box["x"]) + 100, int(box["x"] + box["width"]), 40):
        tab.mouse.move(x, box["y"] + y)
        card = tab.locator(".pm-card")
        if not card.count():
            continue
        seen += 1
        assert card.evaluate(CUT_OFF) == 0
        inside, view = card.bounding_box(), tab.locator(".pm").bounding_box()
        assert inside["y"] >= view["y"]
        assert inside["y"] + inside["height"] <= view["y"] + view["height"] + 1
        assert inside["x"] + inside["width"] <= view["x"] + view["width"]
    assert seen > 5


INK = """async (canvas) => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', data));
  return [canvas.width, canvas.height, ...digest];
}"""


def test_lanes_below_the_window_are_painted_as_those_in_it(new_tab: Any, tmp_path: Path) -> None:
    page = TimelineResult(recorded("v100_4streams_nccl_step")).to_html(tmp_path / "page.html")
    found = []
    for height in (200, 1600):
        tab = new_tab(1000, height)
        opened(tab, page)
        tab.wait_for_timeout(1500)  # for what is painted when there is time
        found.append(tab.locator(".pm canvas").evaluate(INK))
    assert found[0] == found[1]


def test_a_frame_that_moves_fills_the_plot_to_its_right_end(tab: Any, tmp_path: Path) -> None:
    opened(tab, TimelineResult(recorded("v100_4streams_nccl_step")).to_html(tmp_path / "page.html"))
    canvas = tab.locator(".pm canvas")
    box = canvas.bounding_box()
    tab.mouse.click(box["x"] + 300, box["y"] + 36)
    for key in "wwsaddws":  # frames in columns of several pixels, on a slow machine; the gutter is as wide as its font
        tab.keyboard.press(key)
        tab.wait_for_timeout(30)
    assert (
        canvas.evaluate(
            """(canvas) => {
          const {data} = canvas.getContext('2d').getImageData(0, 40, canvas.width, canvas.height - 40);
          let empty = 0;
          for (let y = 0; y < canvas.height - 40; y++) {
            for (let x = canvas.width >> 1; x < canvas.width - 150 * devicePixelRatio; x++) {
              empty += data[4 * (y * canvas.width + x) + 3] === 0;
            }
          }
          return empty;
        }"""
        )
        == 0
    )


def cards(tab: Any) -> Iterator[Any]:
    """The card at each of many points of the lanes, where one shows."""
    box = tab.locator(".pm canvas").bounding_box()
    for y in range(int(box["y"]) + 10, int(box["y"] + box["height"]), 14):
        for x in range(int(box["x"]) + 120, int(box["x"] + box["width"]) - 20, 60):
            tab.mouse.move(x, y)
            card = tab.locator(".pm-card")
            if card.count():
                yield card


def first_card_with(tab: Any, *words: str) -> str:
    """The text of the first card that has all the words, whole; "" where none has."""
    for card in cards(tab):
        text = card.inner_text()
        if all(word in text for word in words):
            assert card.evaluate(CUT_OFF) == 0
            return str(text)
    return ""


def test_the_card_of_an_op_says_who_launched_it_with_which_inputs_from_where(tab: Any, tmp_path: Path) -> None:
    trace = read_trace(real("b200_pdl_overlaps_python_stacks"))
    opened(tab, TimelineResult(trace).to_html(tmp_path / "page.html"))
    card = first_card_with(tab, "operator", "inputs", "called in")
    assert re.search(r"operator\s+\w+::\w+", card)
    assert re.search(r"inputs\s+\[\d", card)
    assert re.search(r"called in\s+\w+, \w+\.py line \d+", card)


def test_the_card_of_an_op_of_a_graph_says_how_many_ops_it_carried(tab: Any, tmp_path: Path) -> None:
    trace = recorded("mi300_sglang_hipgraph")
    carried = window(trace, int(trace.calls.start_ns.max()) - 1_000_000, trace.meta.end_ns)
    opened(tab, TimelineResult(carried).to_html(tmp_path / "page.html"))
    card = first_card_with(tab, "in one launch")
    assert re.search(r"graph\s+[\d,]+ ops\s+in one launch", card)


def test_a_finding_about_python_frames_unfolds_their_lane_and_folds_it_again(tab: Any, tmp_path: Path) -> None:
    found = perfmagic.open_trace(real("b200_pdl_overlaps_python_stacks"))
    told = opened(tab, found.to_html(tmp_path / "page.html"))
    gap = next(i for i, one in enumerate(found.findings) if one.frames)
    tab.locator(".pm-rest").click()
    show = tab.locator(".pm-finding").nth(gap).locator(".pm-show")

    def height() -> float:
        tab.wait_for_timeout(400)
        return float(tab.locator(".pm canvas").first.bounding_box()["height"])

    folded = height()
    show.click()
    unfolded = height()
    assert unfolded > folded + 50
    show.click()
    assert height() == folded
    tab.locator(".pm-finding").first.locator(".pm-show").click()  # of another finding
    assert height() == folded
    assert told == []


def test_python_frames_have_a_lane_and_their_card_names_function_file_and_line(tab: Any, tmp_path: Path) -> None:
    told = opened(tab, TimelineResult(recorded("mi300_sglang_hipgraph")).to_html(tmp_path / "page.html"))
    card = first_card_with(tab, "Python frames", "called by")
    assert re.search(r"^\w+ \(\w+\.py:\d+\)\s+Python frames · level \d+ · .+\.py\(\d+\): \w+", card)
    assert re.search(r"ran\s+[\d.]+\s(s|ms|µs|ns)", card)
    assert "Python frames are drawn" in tab.locator(".pm-fine").text_content()
    assert told == []


def test_a_click_on_a_heading_sorts_a_table_by_its_numbers(tab: Any, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(FOLDER / "v100_4streams_nccl_step.json.gz"), "--html", "--out", str(page)]) == 0
    tab.goto(page.as_uri())
    table = tab.locator("table", has=tab.get_by_text("of all kernels"))
    column = "(table) => [...table.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.value))"
    before = table.evaluate(column)
    head = table.locator("th").nth(1)
    head.locator("button").focus()
    tab.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert table.evaluate(column) == sorted(before, reverse=True) != before
    tab.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert table.evaluate(column) == sorted(before)
    summary = table.locator("summary").first
    summary.click()
    assert "void " in summary.locator("xpath=..").inner_text()
