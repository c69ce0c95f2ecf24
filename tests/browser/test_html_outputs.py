"""`PERFMAGIC_DISPLAY=html`: the live timeline is in the saved output, wherever a page keeps frames."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.trace.recorded import FOLDER

from .conftest import executed
from .test_docs_site import COLOURS
from .test_saved_pictures import requests_of

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]
CONF = """
extensions = ["myst_nb"]
nb_execution_mode = "off"
html_theme = "furo"
include_patterns = ["*.ipynb"]
root_doc = "page"
suppress_warnings = ["mystnb.unknown_mime_type"]  # of briefs for programs
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook that was executed in this mode, on disk."""
    folder = tmp_path_factory.mktemp("html")
    cells = ("%load_ext perfmagic", f"%trace {FOLDER / 'a100_event_sync_3streams.json.gz'}")
    notebook = executed(cells, folder, "html")
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell("# Page"))
    nbformat.write(notebook, str(folder / "page.ipynb"))
    return folder / "page.ipynb"


def looks_alive(tab: Any, page: Path) -> None:
    """The one frame of a page paints, and the picture behind it is not seen beside it."""
    tab.goto(page.as_uri())
    handle = tab.wait_for_selector("iframe", timeout=60_000)
    handle.scroll_into_view_if_needed()  # a frame out of sight does not paint
    inside = handle.content_frame()
    inside.wait_for_function(f"() => ({COLOURS})() > 5", timeout=60_000)
    assert tab.locator("iframe").count() == 1
    frame_px, content_px = handle.bounding_box()["height"], inside.evaluate("() => document.body.scrollHeight")
    assert content_px <= frame_px < content_px + 250  # no scroll bar, and no page of nothing below it
    assert not tab.locator(".perfmagic-static").first.is_visible()


def test_nbconvert_s_page_is_alive(tab: Any, notebook: Path) -> None:
    command = [sys.executable, "-m", "nbconvert", "--to", "html", notebook.name, "--output", "converted.html"]
    done = subprocess.run(command, cwd=notebook.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tab.context.set_offline(True)  # what nbconvert itself asks for, formulas and diagrams, is not needed
    looks_alive(tab, notebook.with_name("converted.html"))


def test_a_page_of_sphinx_is_alive_and_asks_for_nothing(tab: Any, notebook: Path) -> None:
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    folder = notebook.parent
    (folder / "conf.py").write_text(CONF)
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", ".", "site"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    asked = requests_of(tab)
    looks_alive(tab, folder / "site" / "page.html")
    assert asked == []
