"""What a reader sees of live timelines elsewhere: without a kernel, as a page, in a frame, in Notebook 7."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from .conftest import SCREENS, Saved, executed
from .notebook import (
    close_documents,
    open_in_notebook_7,
    open_notebook,
    open_without_kernel,
    run_all,
    run_code,
    save,
    shut_down,
    write_notebook,
)
from .test_live_timeline import CELLS, LIVE, check_keys_under_the_pointer

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

BELOW = "print('below')"
BROKEN = re.compile(r"(?i)error|loading widget|traceback|exception|undefined")
# of each output, from the top: what it says, how much room it takes, and of its pictures the real width and the height
OUTPUTS = """() => [...document.querySelectorAll('.jp-OutputArea-child')].map((output) => ({
  text: output.innerText.trim(),
  height: output.getBoundingClientRect().height,
  pictures: [...output.querySelectorAll('img')].map((i) => [i.naturalWidth, i.getBoundingClientRect().height]),
}))"""
INKED = """(canvas) => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return seen.has(0x24529c) && seen.size > 20;
}"""  # matrix kernels are drawn, and other things
# notes in every frame the heights of the first picture's output and of the live view in the same cell: views are loaded
# one by one, and a later cell's may be there first
WATCH = """() => {
  window.frames_seen = [];
  const height = (node) => node?.closest('.jp-OutputArea-child')?.getBoundingClientRect().height ?? 0;
  const look = () => {
    if (!window.frames_seen) return;
    const picture = document.querySelector('.perfmagic-static');
    const seen = [height(picture), height(picture?.closest('.jp-OutputArea').querySelector('.pm'))];
    if (`${seen}` !== `${window.frames_seen.at(-1)}`) window.frames_seen.push(seen);
    requestAnimationFrame(look);
  };
  look();
}"""


@pytest.fixture(scope="module")
def ran(lab: str, saved: Saved, loaded: Any) -> list[list[float]]:
    """remains.ipynb: run in JupyterLab, live, saved, its kernel ended. Gives what was seen frame by frame."""
    write_notebook(saved.folder / "remains.ipynb", (*CELLS, BELOW))
    tab = loaded
    open_notebook(tab, lab, "remains.ipynb")
    run_code(tab, f"import sys; sys.path.insert(0, {str(saved.root)!r})")
    tab.evaluate(WATCH)
    run_all(tab)
    tab.wait_for_function(f"() => document.querySelectorAll({LIVE!r}).length === 2", timeout=60_000)
    tab.wait_for_timeout(1000)
    seen: list[list[float]] = tab.evaluate("frames_seen")
    tab.evaluate("() => { window.frames_seen = null; }")
    assert tab.locator(".perfmagic-static").count() == 2  # what is watched is there, hidden
    save(tab)
    close_documents(tab)
    return seen


def copy_of(saved: Saved, name: str) -> str:
    """The same notebook with another word in it, so that the server never signed it; gives its name."""
    book = nbformat.read(str(saved.folder / name), as_version=4)
    book.cells[-1].source = "print('other')"
    nbformat.write(book, str(saved.folder / f"copy-of-{name}"))
    return f"copy-of-{name}"


def trusted(tab: Any) -> bool:
    cell = "jupyterapp.shell.currentWidget?.content?.model?.cells?.get(2)"
    tab.wait_for_function(f"() => {cell} !== undefined")  # the notebook may be shown before its cells are there
    return bool(tab.evaluate(f"() => {cell}.trusted"))


def check(tab: Any, pictures: int, screen: str) -> None:
    """Every picture is seen, nothing is broken, nothing takes room and shows nothing."""
    tab.wait_for_timeout(3000)  # for whoever still wants to load something, or gives up
    tab.screenshot(path=SCREENS / screen)
    outputs = tab.evaluate(OUTPUTS)
    seen = [picture for output in outputs for picture in output["pictures"]]
    assert len(seen) == pictures
    assert all(width > 0 and height > 100 for width, height in seen), seen
    assert [o["text"] for o in outputs if BROKEN.search(o["text"])] == []
    assert [o for o in outputs if not o["text"] and not o["pictures"] and o["height"] > 1] == []


def test_the_picture_gives_way_in_the_very_frame_in_which_the_live_view_is_there(ran: list[list[float]]) -> None:
    # the picture may never be seen alone: on a busy machine the view can be there before the next frame
    assert any(view > 100 and picture == 0 for picture, view in ran), ran
    assert [(picture, view) for picture, view in ran if picture and view] == []
    first = next(i for i, seen in enumerate(ran) if any(seen))
    assert [seen for seen in ran[first:] if not any(seen)] == []


@pytest.mark.usefixtures("ran")
def test_a_trusted_notebook_without_a_kernel_shows_the_pictures(lab: str, saved: Saved, desk: Any) -> None:
    assert "application/vnd.jupyter.widget-view+json" in (saved.folder / "remains.ipynb").read_text()
    open_without_kernel(desk, lab, "remains.ipynb")
    assert trusted(desk)
    assert desk.evaluate("jupyterapp.shell.currentWidget.sessionContext.session") is None
    check(desk, 2, "remains-trusted.png")


@pytest.mark.usefixtures("ran")
def test_an_untrusted_notebook_without_a_kernel_shows_the_pictures(lab: str, saved: Saved, desk: Any) -> None:
    open_without_kernel(desk, lab, copy_of(saved, "remains.ipynb"))
    assert not trusted(desk)
    assert desk.evaluate("jupyterapp.shell.currentWidget.sessionContext.session") is None
    check(desk, 2, "remains-untrusted.png")


@pytest.mark.usefixtures("ran")
def test_a_trusted_notebook_with_a_new_kernel_shows_the_pictures(lab: str, desk: Any) -> None:
    open_notebook(desk, lab, "remains.ipynb")
    assert trusted(desk)
    check(desk, 2, "remains-new-kernel.png")


@pytest.mark.usefixtures("ran")
def test_as_a_page_a_notebook_saved_by_jupyterlab_shows_the_pictures(saved: Saved, tab: Any, tmp_path: Path) -> None:
    open_as_page(tab, saved.folder / "remains.ipynb", tmp_path)
    check(tab, 2, "remains-page-lab.png")


def test_as_a_page_a_notebook_with_its_widgets_state_shows_the_pictures(tab: Any, tmp_path: Path) -> None:
    notebook = executed(CELLS, tmp_path, "widget")
    assert notebook.metadata.widgets
    nbformat.write(notebook, str(tmp_path / "state.ipynb"))
    asked = open_as_page(tab, tmp_path / "state.ipynb", tmp_path)
    assert any("html-manager" in address for address in asked)  # the page would load what draws widgets
    check(tab, 2, "remains-page-state.png")


def open_as_page(tab: Any, notebook: Path, folder: Path) -> list[str]:
    """Convert with nbconvert and open it where nothing else can be reached; gives the addresses asked for in vain."""
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--output-dir", str(folder), str(notebook)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    asked: list[str] = []
    tab.route(re.compile("^(?!file:|data:)"), lambda route: (asked.append(route.request.url), route.abort()))
    tab.goto((folder / f"{notebook.stem}.html").as_uri())
    return asked


def test_what_a_cell_shows_after_the_picture_is_never_hidden(tab: Any, tmp_path: Path) -> None:
    cells = (
        CELLS[0],
        "import torch\nfrom IPython.display import HTML",
        "%%timeline\ntorch.ones(3)\nHTML('kept whole')",
    )
    notebook = executed(cells, tmp_path, "widget")
    cell = notebook.cells[2]
    picture, _, own = cell.outputs
    assert "<style>" in picture.data["text/html"]
    cell.outputs = [picture, own]  # a front end that knows no widgets leaves them out
    nbformat.write(notebook, str(tmp_path / "kept.ipynb"))
    open_as_page(tab, tmp_path / "kept.ipynb", tmp_path)
    assert tab.get_by_text("kept whole", exact=True).is_visible()


def test_in_a_frame_the_timeline_lives_and_where_frames_are_dropped_its_picture_is_seen(
    lab: str, saved: Saved, desk: Any
) -> None:
    cells = (f"{CELLS[0]}\n%perfmagic display html", *CELLS[1:3], BELOW)
    write_notebook(saved.folder / "framed.ipynb", cells)
    open_notebook(desk, lab, "framed.ipynb")
    run_code(desk, f"import sys; sys.path.insert(0, {str(saved.root)!r})")
    run_all(desk)
    check_live_frame(desk, "framed.png")
    save(desk)
    close_documents(desk)

    open_without_kernel(desk, lab, "framed.ipynb")
    assert trusted(desk)
    check_live_frame(desk, "framed-reopened.png")
    close_documents(desk)

    open_without_kernel(desk, lab, copy_of(saved, "framed.ipynb"))
    assert not trusted(desk)
    assert desk.locator("iframe").count() == 0
    check(desk, 1, "framed-untrusted.png")


def check_live_frame(tab: Any, screen: str) -> None:
    """The frame's timeline is drawn, a key and a drag change it, and no key gets out of it."""
    frame = tab.frame_locator(".jp-OutputArea iframe")
    canvas = frame.locator(".pm canvas")
    canvas.wait_for(timeout=30_000)
    tab.wait_for_timeout(500)
    assert not tab.locator(".perfmagic-static").is_visible()
    assert canvas.evaluate(INKED)
    cells, before = tab.locator(".jp-Notebook .jp-Cell").count(), frame.locator(".pm-seen").inner_text()
    zoom_with_keys(tab, canvas)
    assert frame.locator(".pm-seen").inner_text() != before
    assert tab.locator(".jp-Notebook .jp-Cell").count() == cells  # `a` would insert a cell
    box = canvas.bounding_box()
    tab.mouse.move(box["x"] + 300, box["y"] + 130)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 500, box["y"] + 130, steps=5)
    tab.mouse.up()
    frame.locator(".pm-panel").wait_for(timeout=5000)
    tab.screenshot(path=SCREENS / screen)


def zoom_with_keys(tab: Any, canvas: Any) -> None:
    """Focus a timeline by a click on its axis, then type."""
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    tab.mouse.click(box["x"] + 300, box["y"] + 36)
    for key in ("w", "a", "d", "s", "w", "w"):
        tab.keyboard.press(key)
        tab.wait_for_timeout(60)
    tab.wait_for_timeout(300)


def test_in_notebook_7_the_timeline_lives_and_keeps_its_keys(lab: str, saved: Saved, tab: Any) -> None:
    pytest.importorskip("notebook", reason="Notebook 7 is not installed")
    write_notebook(saved.folder / "seven.ipynb", (*CELLS[:3], BELOW))
    open_in_notebook_7(tab, lab, "seven.ipynb")
    run_code(tab, f"import sys; sys.path.insert(0, {str(saved.root)!r})")
    run_all(tab)
    canvas = tab.locator(LIVE)
    canvas.wait_for(timeout=60_000)
    tab.wait_for_timeout(500)
    assert canvas.evaluate(INKED)
    assert not tab.locator(".perfmagic-static").is_visible()
    sources = "[...jupyterapp.shell.currentWidget.content.model.cells].map((cell) => cell.sharedModel.source)"
    cells, before = tab.evaluate(sources), tab.locator(".pm-seen").inner_text()
    zoom_with_keys(tab, canvas)
    tab.keyboard.press("d")
    tab.keyboard.press("d")  # twice would delete the cell
    tab.wait_for_timeout(300)
    tab.screenshot(path=SCREENS / "notebook-7.png")
    assert tab.locator(".pm-seen").inner_text() != before
    assert tab.evaluate(sources) == cells
    tab.keyboard.press("f")
    tab.wait_for_timeout(400)
    tab.locator(".jp-Notebook .jp-Cell").last.click()
    check_keys_under_the_pointer(tab)
    shut_down(tab)
