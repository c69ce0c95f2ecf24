"""The live view for everyone: screen readers, forced colours, pages set from right to left, fingers, any font."""

import base64
from pathlib import Path
from typing import Any

import pytest

from perfmagic.results import TimelineResult
from perfmagic.view.ranks.picture import ranks_svg
from perfmagic.view.svg.palette import TONES, Tone
from perfmagic.view.timeline.picture.timeline import timeline_svg
from tests.frontend.test_source import npm  # noqa: F401 — a fixture: the pinned tools, installed
from tests.trace.recorded import recorded
from tests.view.ranks.build import four_ranks
from tests.view.ranks.build import result as ranks_result

from .conftest import ROOT, SCREENS
from .test_live_page import opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

AXE = ROOT / "perfmagic" / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
# every text that a canvas draws from here on, and where its ends lie in the canvas, in CSS pixels
WRITTEN = """() => {
  const real = CanvasRenderingContext2D.prototype.fillText;
  window.written = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const m = this.measureText(text), t = this.getTransform();
    const upright = t.b === 0;
    const [x0, x1] = [x - m.actualBoundingBoxLeft, x + m.actualBoundingBoxRight];
    if (upright) window.written.push([text, (t.a * x0 + t.e) / devicePixelRatio, (t.a * x1 + t.e) / devicePixelRatio]);
    real.call(this, text, x, y);
  };
}"""
PIXELS = """async ([png, box]) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const g = new OffscreenCanvas(image.width, image.height).getContext('2d');
  g.drawImage(image, 0, 0);
  const {data} = g.getImageData(...(box.length ? box : [0, 0, image.width, image.height]));
  return Array.from({length: data.length / 4}, (_, i) => [...data.slice(4 * i, 4 * i + 3)]);
}"""
FONT = """(family) => addEventListener('DOMContentLoaded', () =>
  document.documentElement.style.setProperty('--jp-ui-font-family', family))"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A step on four streams, with waits of Python and idle time of the device."""
    folder = tmp_path_factory.mktemp("everyone")
    return TimelineResult(recorded("v100_4streams_nccl_step")).to_html(folder / "page.html")


@pytest.mark.usefixtures("npm")
def test_axe_finds_no_fault(new_tab: Any, page: Path) -> None:
    tab = new_tab(bypass_csp=True)
    opened(tab, page)
    tab.evaluate(AXE.read_text("utf-8"))
    found = tab.evaluate("async () => (await axe.run()).violations.map((v) => [v.id, v.nodes.map((n) => n.html)])")
    assert found == []


def test_the_keyboard_s_op_is_announced_with_its_times(tab: Any, page: Path) -> None:
    opened(tab, page)
    tab.locator(".pm-body").focus()
    said = []
    for key in ("ArrowRight", "ArrowRight", "["):
        tab.keyboard.press(key)
        said.append(tab.get_by_role("status").inner_text())
    assert len(set(said)) == 3
    name = tab.locator(".pm-card h3").inner_text()
    assert said[2].startswith(name)
    for words in ("ran ", "launched ", "in the call ", "waiting "):
        assert words in said[0]
        assert words in said[1]
    live = tab.get_by_role("status")
    assert live.evaluate("(node) => node.getBoundingClientRect().width") == 1  # heard, and not seen


def test_each_button_that_shows_a_finding_says_which(tab: Any, page: Path) -> None:
    opened(tab, page)
    tab.locator(".pm-rest").click()
    names = tab.locator(".pm-show:visible").evaluate_all("(all) => all.map((node) => node.getAttribute('aria-label'))")
    assert len(names) > 3
    assert len(set(names)) == len(names)
    tab.get_by_role("button", name="show: exposed copies").click()
    assert tab.get_by_role("button", name="hide: exposed copies").inner_text() == "hide ◂"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colours_keep_the_bars_and_readable_words(new_tab: Any, page: Path, scheme: str) -> None:
    tab = new_tab(forced_colors="active", color_scheme=scheme)
    opened(tab, page)
    tab.screenshot(path=SCREENS / f"forced-colours-{scheme}.png", full_page=True)
    drawn = tab.locator(".pm-shares i, .pm-key i").evaluate_all(
        "(all) => all.map((n) => [getComputedStyle(n).forcedColorAdjust, getComputedStyle(n).background])"
    )
    assert len(drawn) > 10
    assert {adjust for adjust, _ in drawn} == {"none"}
    blank = new_tab()
    # the first is the time before the first op
    bar = colours(blank, tab.locator(".pm-shares i").nth(1).screenshot(), 5, 3, 1, 1)
    assert bar == [rgb(TONES["comp"], scheme)]
    labels = colours(blank, tab.locator(".pm canvas").screenshot(), 20, 60, 90, 300)
    darkest, lightest = min(labels), max(labels)
    assert max(lightest) - min(darkest) > 180  # the words beside the lanes stand out


def test_a_page_from_right_to_left_keeps_numbers_before_their_units(tab: Any, page: Path, tmp_path: Path) -> None:
    turned = tmp_path / "rtl.html"
    turned.write_text(page.read_text("utf-8").replace('<html lang="en">', '<html lang="ar" dir="rtl">'), "utf-8")
    opened(tab, turned)
    tab.locator(".pm-rest").click()
    tab.screenshot(path=SCREENS / "page-rtl.png", full_page=True)
    number_and_unit = """(node) => {
      const range = (from, to) => {
        const r = document.createRange();
        r.setStart(node.firstChild, from);
        r.setEnd(node.firstChild, to);
        return r.getBoundingClientRect().left;
      };
      return [range(0, 1), range(node.textContent.length - 2, node.textContent.length)];
    }"""
    for shown in (".pm-top b >> nth=0", ".pm-sharewords b >> nth=0", ".pm-cost:has-text('ms') >> nth=0"):
        number, unit = tab.locator(shown).evaluate(number_and_unit)
        assert number < unit, shown
    tab.locator(".pm").evaluate("(node) => { node.style.display = 'none' }")
    tab.evaluate("document.querySelector('.perfmagic-static').style.display = ''")
    number, unit = tab.locator(".perfmagic-static b").first.evaluate(number_and_unit)
    assert number < unit


def test_a_tap_shows_the_card_of_what_it_meets_and_a_tap_beside_hides_it(new_tab: Any, page: Path) -> None:
    tab = new_tab(has_touch=True)
    opened(tab, page)
    box = tab.locator(".pm canvas").bounding_box()
    seen = set()
    for down in range(40, int(box["height"]) - 20, 12):
        tab.touchscreen.tap(box["x"] + 380, box["y"] + down)
        tab.wait_for_timeout(30)
        if tab.locator(".pm-card").count():
            seen.add(tab.locator(".pm-card h3").inner_text())
            down_of_card = down
    assert len(seen) > 3
    title = tab.locator(".pm-top b").first.bounding_box()
    for beside in (
        (box["x"] + 380, box["y"] + 42),  # the axis
        (box["x"] + 30, box["y"] + down_of_card),  # a lane's name
        (box["x"] + box["width"] - 20, box["y"] + down_of_card),  # its number
        (title["x"] + 5, title["y"] + 5),
        (5, 5),  # the page
    ):
        tab.touchscreen.tap(box["x"] + 380, box["y"] + down_of_card)
        tab.wait_for_timeout(100)
        assert tab.locator(".pm-card").count() == 1
        tab.touchscreen.tap(*beside)
        tab.wait_for_timeout(100)
        assert tab.locator(".pm-card").count() == 0, beside


@pytest.mark.parametrize("family", ["", "DejaVu Sans", "DejaVu Sans Mono"], ids=["as installed", "Debian's", "wider"])
@pytest.mark.parametrize("width", [760, 1000, 1900])
def test_no_label_beside_the_lanes_is_cut_in_any_font(new_tab: Any, page: Path, family: str, width: int) -> None:
    tab = new_tab()
    written = drawn_words(tab, page, family, width)
    labels = [text for text, x0, _ in written if x0 < 130]
    for whole in ("main thread", "launches", "communication", "compute", "stream 15"):
        assert whole in labels, sorted(set(labels))
    assert [text for text, x0, x1 in written if x0 < -0.5 or x1 > width - 47.5] == []


@pytest.mark.parametrize("family", ["DejaVu Sans", "DejaVu Sans Mono"])
def test_no_number_of_a_rank_is_cut_in_any_font(new_tab: Any, tmp_path: Path, family: str) -> None:
    page = ranks_result().to_html(tmp_path / "ranks.html")
    written = drawn_words(new_tab(), page, family, 1000)
    assert any(text.startswith(("computes", "waits")) for text, _, _ in written)
    assert [text for text, x0, x1 in written if x0 < -0.5 or x1 > 1000 - 47.5 or text.endswith("…")] == []


def drawn_words(tab: Any, page: Path, family: str, width: int) -> list[tuple[str, float, float]]:
    """The upright words of the lanes, with where each begins and ends."""
    tab.set_viewport_size({"width": width, "height": 1000})
    tab.add_init_script(f"({WRITTEN})()")
    if family:
        tab.add_init_script(f"({FONT})('\"{family}\"')")
    opened(tab, page)
    found: list[tuple[str, float, float]] = tab.evaluate("window.written")
    return found


def rgb(tone: Tone, scheme: str) -> list[int]:
    text = tone.light if scheme == "light" else tone.dark
    return [int(text[i : i + 2], 16) for i in (1, 3, 5)]


def colours(blank: Any, png: bytes, *box: int) -> list[list[int]]:
    """Red, green and blue of each pixel of a screenshot, or of a box (x, y, width, height).  blank: an empty tab."""
    found: list[list[int]] = blank.evaluate(PIXELS, [base64.b64encode(png).decode(), list(box)])
    return found


GROUND = {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}


@pytest.mark.parametrize(("system", "notebook"), [("light", "dark"), ("dark", "light")])
def test_a_frame_and_a_picture_follow_the_notebook_s_theme_not_the_system_s(
    new_tab: Any, tmp_path: Path, system: str, notebook: str
) -> None:
    tab, blank = new_tab(color_scheme=system), new_tab()
    result = TimelineResult(recorded("v100_4streams_nccl_step"))
    live = result.live()
    page = tmp_path / "notebook.html"
    body = f'<body data-jp-theme-light="{str(notebook == "light").lower()}">'
    page.write_text(f"<!DOCTYPE html>{body}{live.frame_html()}{live.picture_html()}</body>", "utf-8")
    tab.goto(page.as_uri())
    frame = tab.frame_locator("iframe")
    frame.locator(".pm canvas").wait_for()
    for theme in (notebook, system, notebook):
        tab.evaluate("(light) => { document.body.dataset.jpThemeLight = light }", str(theme == "light").lower())
        tab.wait_for_timeout(500)
        ground = frame.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor")
        assert ground == GROUND[theme]
        picture = tab.locator(".perfmagic-static img:visible")
        pixel = colours(blank, picture.screenshot(), 1, 1, 1, 1)
        assert f"rgb({', '.join(map(str, pixel[0]))})" == GROUND[theme]
    tab.screenshot(path=SCREENS / f"frame-{notebook}-on-{system}.png")


OUTSIDE = """(family) => {
  for (const one of document.querySelectorAll('svg, text')) one.setAttribute('font-family', family);
  const {width} = document.querySelector('svg').viewBox.baseVal;
  const ends = [...document.querySelectorAll('text')].map((one) => {
    const {x, width} = one.getBBox(), {a, e} = one.getCTM(), scale = document.querySelector('svg').getCTM().a;
    return [one.textContent, (x * a + e) / scale, ((x + width) * a + e) / scale, one.hasAttribute('transform')];
  });
  return [ends.length, ends.filter(([, from, to, turned]) => !turned && (from < -3 || to > width + 3))];
}"""


@pytest.mark.parametrize("family", ["Arial,Helvetica,sans-serif", "DejaVu Sans Condensed"], ids=["Debian's", "another"])
@pytest.mark.parametrize("name", ["timeline", "ranks"])
def test_no_word_of_a_static_picture_leaves_it(tab: Any, family: str, name: str) -> None:
    if name == "ranks":
        drawn = ranks_svg(four_ranks())
    else:
        result = TimelineResult(recorded("v100_4streams_nccl_step"))
        drawn = timeline_svg(result.doc)
        assert ">communication<" in drawn
    tab.set_content(drawn)
    n, outside = tab.evaluate(OUTSIDE, family)
    assert n > 20
    assert outside == []
