"""The documentation's site: pictures and live timelines paint, nothing is fetched, every link leads somewhere."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from .conftest import ROOT
from .test_saved_pictures import requests_of

pytest.importorskip("sphinx", reason="sphinx is not installed")
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]
NOTEBOOKS = sorted((ROOT / "demos").glob("*.ipynb"))
COLOURS = """() => {
  const canvas = [...document.querySelectorAll('.pm canvas')].find((one) => one.width > 0);
  if (!canvas) return 0;
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return seen.size;
}"""
INK = """async (image) => {
  image.scrollIntoView();
  await image.decode();
  const canvas = document.createElement('canvas');
  const [width, height] = [canvas.width, canvas.height] = [image.clientWidth, image.clientHeight];
  const brush = canvas.getContext('2d');
  brush.drawImage(image, 0, 0, width, height);
  const data = brush.getImageData(0, 0, width, height).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] > 0) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return [width, height, seen.size];
}"""

UNFOLD = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site in a folder of its own: one that others may write to can change under a build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--show-traceback", "--conf-dir", "docs"]
    done = subprocess.run([*command, ".", str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def pictures_of(notebook: Path) -> int:
    """How many pictures the outputs of a notebook hold."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    faces = (output.get("data", {}) for cell in cells for output in cell.get("outputs", []))
    return sum(len(re.findall("<img", "".join(face.get("text/html", "")))) for face in faces)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_picture_of_a_lesson_paints(tab: Any, site: Path, notebook: Path) -> None:
    asked = requests_of(tab)
    tab.context.set_offline(True)
    tab.goto((site / "demos" / f"{notebook.stem}.html").as_uri())
    tab.evaluate(UNFOLD)
    images = tab.locator("article .cell_output img").element_handles()
    assert len(images) == pictures_of(notebook) > 0
    drawn = [image.evaluate(INK) for image in images]
    assert [one for one in drawn if one[0] < 300 or one[1] < 20 or one[2] < 5] == []
    assert asked == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_lesson_shows_a_solution(site: Path, notebook: Path) -> None:
    page = (site / "demos" / f"{notebook.stem}.html").read_text("utf-8")
    written = "".join(unescape(re.sub(r"<[^>]*>", "", page)).split())
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    solutions, checks = (
        ["".join("".join(cell["source"]).split()) for cell in cells if tag in cell["metadata"].get("tags", ())]
        for tag in ("solution", "check")
    )
    assert all(check in written for check in checks)
    assert [one for one in solutions if one in written and one not in "".join(checks)] == []


def test_a_lesson_shows_pictures_after_a_click(tab: Any, site: Path) -> None:
    tab.goto((site / "demos" / "02_automatic_parallelism.html").as_uri())
    lesson = tab.locator("article")
    assert [image for image in lesson.locator(".cell_output img").all() if image.is_visible()] == []
    with_picture = lesson.locator("details.hide", has=tab.locator("img")).first
    with_picture.locator("> summary").click()
    assert with_picture.locator("img").first.is_visible()


def test_the_first_page_is_alive(tab: Any, site: Path) -> None:
    asked = requests_of(tab)
    tab.context.set_offline(True)
    tab.goto((site / "index.html").as_uri())
    tab.wait_for_url("**/docs/index.html")
    frames = tab.locator("article iframe").element_handles()
    assert len(frames) == 1
    for handle in frames:
        handle.scroll_into_view_if_needed()  # a frame out of sight does not paint
        inside = handle.content_frame()
        inside.wait_for_selector(".pm canvas", timeout=20_000)
        inside.wait_for_function(f"({COLOURS})() > 5", timeout=20_000)
    assert not tab.locator("article .perfmagic-static").is_visible()
    assert asked == []


def test_pictures_and_frames_follow_the_colours_that_a_reader_chooses(tab: Any, site: Path) -> None:
    brightness = """(image) => {
      const [canvas, width, height] = [document.createElement('canvas'), image.clientWidth, image.clientHeight];
      [canvas.width, canvas.height] = [width, height];
      const brush = canvas.getContext('2d');
      brush.drawImage(image, 0, 0, width, height);
      const [r, g, b] = brush.getImageData(2, 2, 1, 1).data;
      return r + g + b;
    }"""
    ground = {}
    tab.emulate_media(color_scheme="null")  # what is emulated would hold in frames, whatever is around them
    for theme in ("light", "dark"):
        tab.goto((site / "demos" / "00_tour.html").as_uri())
        tab.evaluate("(theme) => { document.body.dataset.theme = theme; }", theme)
        tab.evaluate(UNFOLD)
        image = tab.locator(".perfmagic-static img").first
        image.scroll_into_view_if_needed()
        tab.wait_for_timeout(300)
        ground[theme] = image.evaluate(brightness)
        # a frame that begins in the moment of the change may miss it: whoever opens the page again sees it
        if not any(_frame_follows(tab, site, theme) for _ in range(4)):
            pytest.fail(f"the frame on a {theme} page never became {theme}")
    assert ground["light"] > 600
    assert ground["dark"] < 200


def _frame_follows(tab: Any, site: Path, theme: str) -> bool:
    """Whether the frame of the docs' first page takes the colours of the page within some seconds."""
    tab.goto((site / "docs" / "index.html").as_uri())
    tab.evaluate("(theme) => { document.body.dataset.theme = theme; }", theme)
    frame = tab.wait_for_selector("article iframe")
    inside = frame.content_frame()
    inside.wait_for_selector(".pm canvas")
    for _ in range(25):
        frame.scroll_into_view_if_needed()  # out of sight a frame hears of no change; pictures above push it there
        if inside.evaluate("getComputedStyle(document.querySelector('.pm')).colorScheme") == theme:
            return True
        tab.wait_for_timeout(300)
    return False


class Page(HTMLParser):
    """The links of a page, what it loads, and the places that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loads.append(given["src"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(given["href"])


def local_links(pages: dict[Path, Page]) -> Iterator[tuple[Path, str, Path, str]]:
    """Each link within the site: its page, as it is written, the file and the place that it leads to."""
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if not parts.scheme:
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                yield path, link, target, unquote(parts.fragment)


def test_every_link_within_the_site_leads_to_its_place(site: Path) -> None:
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    links = list(local_links(pages))
    assert len(links) > 500
    assert [(path.name, link) for path, link, target, _ in links if not target.is_file()] == []
    lost = [
        (path.name, link)
        for path, link, target, place in links
        if place and target in pages and place not in pages[target].places
    ]
    assert lost == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = {load for path in site.rglob("*.html") for load in Page(path).loads}
    assert any("furo" in load for load in loads)
    assert {load.split("?")[0] for load in loads if urlsplit(load).scheme not in ("", "data")} == set()
