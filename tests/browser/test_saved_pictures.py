"""What remains when the kernel is gone: the pictures of a saved notebook and of the saved pages, in a real browser."""

import importlib.util
from pathlib import Path
from typing import Any

import nbformat
import pytest

from .conftest import ROOT, SCREENS, Saved

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

WIDTHS = "() => [...document.images].map(i => i.complete ? i.clientWidth : 0)"
TIMELINE_CELL = "jupyterapp.shell.currentWidget?.content?.model?.cells?.get(2)"
WIDE = "() => [...document.images].filter(i => i.complete && i.clientWidth > 500).length >= 1"


def requests_of(tab: Any) -> list[str]:
    """A list that fills with every address the page asks for, the page itself and data: left out."""
    asked: list[str] = []
    tab.on("request", lambda r: asked.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    return asked


def test_jupyterlab_shows_the_picture_of_an_untrusted_notebook(lab: str, saved: Saved, tab: Any) -> None:
    tab.goto(f"{lab}/lab/tree/{saved.notebook.name}?reset")
    tab.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)
    tab.wait_for_function(f"() => {TIMELINE_CELL}", timeout=60_000)
    assert tab.evaluate(f"() => {TIMELINE_CELL}.trusted") is False
    tab.locator(".jp-OutputArea-output img").first.scroll_into_view_if_needed(timeout=60_000)
    tab.wait_for_function(WIDE, timeout=60_000)
    tab.screenshot(path=SCREENS / "lab-untrusted.png")
    assert tab.locator("text=Error displaying widget").count() == 0
    assert tab.locator("text=simulated device").count() >= 1


def test_the_self_contained_page_opens_offline(saved: Saved, tab: Any) -> None:
    asked = requests_of(tab)
    tab.context.set_offline(True)
    tab.goto(saved.page.as_uri())
    tab.wait_for_selector(".pm canvas")
    tab.wait_for_timeout(300)
    tab.screenshot(path=SCREENS / "page.png", full_page=True)
    drawn = tab.evaluate("() => Math.max(0, ...[...document.querySelectorAll('canvas, img')].map(e => e.clientWidth))")
    assert drawn > 500
    assert asked == []
    assert "simulated device" in saved.page.read_text()


def test_the_notebook_as_a_page_opens_offline(saved: Saved, tab: Any) -> None:
    spec = importlib.util.spec_from_file_location("demo_run", ROOT / "demos" / "run.py")
    assert spec.loader is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    target = Path(saved.folder) / "notebook.html"
    target.write_text(run.page(nbformat.read(str(saved.notebook), as_version=4), "saved"), encoding="utf-8")
    asked, told = requests_of(tab), []
    tab.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    tab.context.set_offline(True)
    tab.goto(target.as_uri())
    tab.wait_for_function(WIDE, timeout=60_000)
    tab.screenshot(path=SCREENS / "notebook-page.png", full_page=True)
    assert max(tab.evaluate(WIDTHS)) > 500
    assert asked == []
    assert told == []
