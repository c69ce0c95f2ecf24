"""A double click on a trace in the file browser of JupyterLab or Notebook 7 opens its live timeline."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfmagic.results import TimelineResult
from tests.trace.formats.nsight_made import h100, small
from tests.trace.formats.test_xplane import gpu, host
from tests.trace.formats.xspaces import space
from tests.trace.recorded import real
from tests.view.ranks.build import ranks

from .conftest import SCREENS
from .notebook import CURRENT, write_notebook
from .server import jupyter_server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

STEP = "v100 训练 100%.pt.trace.json.gz"
PAINTED = """() => {
  const node = window.jupyterapp?.shell.currentWidget?.node;
  const canvas = [...(node?.querySelectorAll('.perfmagic-document .pm canvas') ?? [])].find((one) => one.width > 0);
  if (!canvas) return false;
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < pixels.length; i += 4 * 97) seen.add((pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2]);
  return seen.size > 5;
}"""
TABS = "() => [...document.querySelectorAll('#jp-main-dock-panel .lm-TabBar-tabLabel')].map((e) => e.textContent)"
INK = "() => getComputedStyle(document.querySelector('.perfmagic-document .pm')).color"
SOURCES = f"() => {CURRENT}.content.model.sharedModel.cells.map((cell) => cell.source)"


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with traces of each kind, a damaged one, plain JSON, a notebook, and a job of four ranks."""
    root = tmp_path_factory.mktemp("traces")
    step = real("v100_4streams_nccl_step")
    shutil.copy(step, root / STEP)
    shutil.copy(step, root / "plain.json.gz")
    (root / "damaged.pt.trace.json").write_text('{"traceEvents": 5}')
    (root / "settings.json").write_text('{"a": 1}')
    (root / "books").mkdir()
    write_notebook(root / "books" / "book.ipynb", ("1 + 1",))
    (root / "run").mkdir()
    for number, trace in ranks(4).traces.items():
        TimelineResult(trace).save(root / "run" / f"rank{number}.npz")
    shutil.copy(root / "run" / "rank0.npz", root / "one.npz")
    shutil.copy(h100(), root / "two.sqlite")
    small(root / "alone.sqlite")
    (root / "vm.xplane.pb").write_bytes(space(gpu(), host()))
    return root


@pytest.fixture(scope="module")
def server(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with jupyter_server(traces, tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture(scope="module")
def loaded(server: str, chromium: Any) -> Iterator[Any]:
    """JupyterLab on that folder, loaded once."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1000}, device_scale_factor=1)
    tab = context.new_page()
    open_lab(tab, f"{server}/lab")
    yield tab
    context.close()


def open_lab(tab: Any, address: str) -> None:
    tab.goto(f"{address}?reset")
    tab.wait_for_selector(".jp-DirListing-item", timeout=120_000)


def double_click(tab: Any, name: str) -> None:
    tab.dblclick(f".jp-DirListing-item:has-text('{name}')")
    tab.wait_for_function(f"(name) => {CURRENT}?.context?.path === name", arg=name, timeout=60_000)


@pytest.mark.parametrize("name", [STEP, "plain.json.gz", "one.npz", "alone.sqlite", "two.sqlite", "vm.xplane.pb"])
def test_a_double_click_paints_the_timeline(desk: Any, name: str) -> None:
    double_click(desk, name)
    desk.wait_for_function(PAINTED, timeout=60_000)
    if name == STEP:
        desk.screenshot(path=SCREENS / "double-click.png")


def test_the_contents_of_a_trace_do_not_go_through_the_contents_api(desk: Any) -> None:
    asked: list[str] = []
    desk.on("request", lambda request: asked.append(request.url))
    double_click(desk, "plain.json.gz")
    desk.wait_for_function(PAINTED, timeout=60_000)
    of_file = [url for url in asked if "/api/contents/plain.json.gz" in url]
    assert of_file
    assert [url for url in of_file if "content=0" not in url and "/checkpoints" not in url] == []


def test_the_timeline_is_loaded_with_the_first_trace_from_a_name_with_a_hash(tab: Any, server: str) -> None:
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    open_lab(tab, f"{server}/lab")
    assert [url for url in asked if "perfmagic/static/remoteEntry." in url]
    assert [url for url in asked if "perfmagic/static/timeline." in url] == []
    double_click(tab, "one.npz")
    tab.wait_for_function(PAINTED, timeout=60_000)
    assert [url for url in asked if "perfmagic/static/timeline." in url]


def test_a_damaged_file_says_what_is_wrong_with_it(desk: Any) -> None:
    double_click(desk, "damaged.pt.trace.json")
    trouble = desk.wait_for_selector(".perfmagic-trouble", timeout=60_000).inner_text()
    assert "does not open as a timeline" in trouble
    assert "traceEvents" in trouble
    desk.screenshot(path=SCREENS / "double-click-damaged.png")


def test_plain_json_opens_as_before_and_as_a_timeline_by_open_with(desk: Any) -> None:
    offered = "(name) => jupyterapp.docRegistry.preferredWidgetFactories(name).map((one) => one.name)"
    factories = desk.evaluate(offered, "settings.json")
    assert factories[0] == "JSON"
    assert "Timeline" in factories
    assert desk.evaluate(offered, STEP)[0] == "Timeline"


def test_tabs_come_back_after_a_reload_and_keep_their_timelines(tab: Any, server: str) -> None:
    layout = f"{server}/lab/workspaces/reloaded"  # one that no other tab saves
    open_lab(tab, layout)
    double_click(tab, "one.npz")
    tab.wait_for_function(PAINTED, timeout=60_000)
    tab.evaluate("() => jupyterapp.commands.execute('perfmagic:open-folder', {path: 'run'})")
    tab.wait_for_function(PAINTED, timeout=60_000)
    tab.wait_for_timeout(3000)  # JupyterLab saves its layout a second after a change
    tab.goto(layout)
    tab.wait_for_selector(".perfmagic-document", state="attached", timeout=60_000)
    tab.wait_for_function(PAINTED, timeout=60_000)
    assert {"one.npz", "run"} <= set(tab.evaluate(TABS))


def test_a_folder_of_ranks_opens_from_its_menu_on_one_axis(desk: Any) -> None:
    desk.click(".jp-DirListing-item:has-text('run')", button="right")
    desk.click(".lm-Menu-item:has-text('Open as Timeline of Ranks')")
    desk.wait_for_function(PAINTED, timeout=60_000)
    assert "rank 3" in desk.inner_text(".perfmagic-document") or "ranks" in desk.inner_text(".perfmagic-document")
    desk.screenshot(path=SCREENS / "double-click-ranks.png")


def test_the_timeline_follows_the_theme(desk: Any) -> None:
    double_click(desk, STEP)
    desk.wait_for_function(PAINTED, timeout=60_000)
    before = desk.evaluate(INK)
    try:
        desk.evaluate("() => jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
        desk.wait_for_function(f"(before) => ({INK})() !== before", arg=before, timeout=30_000)
        desk.wait_for_selector("#jupyterlab-splash", state="detached", timeout=30_000)
        desk.screenshot(path=SCREENS / "double-click-dark.png")
    finally:
        desk.evaluate("() => jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")


def test_the_button_adds_a_cell_that_opens_the_trace_to_the_notebook_used_last(desk: Any) -> None:
    desk.evaluate("async () => { await jupyterapp.commands.execute('docmanager:open', {path: 'books/book.ipynb'}); }")
    desk.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)
    double_click(desk, STEP)
    desk.click(f"#{desk.evaluate(f'() => {CURRENT}.id')} .perfmagic-insert")
    desk.wait_for_function(f"() => {CURRENT}.context.path === 'books/book.ipynb'", timeout=30_000)
    cell = f"%load_ext perfmagic\n%trace '../{STEP}'"
    desk.wait_for_function(f"(cell) => ({SOURCES})().includes(cell)", arg=cell, timeout=30_000)


def test_notebook_7_which_has_no_tabs_offers_none_for_a_folder(tab: Any, server: str) -> None:
    tab.goto(f"{server}/tree")
    tab.click(".jp-DirListing-item:has-text('run')", button="right", timeout=120_000)
    tab.wait_for_selector(".lm-Menu-item:has-text('Rename')")
    assert not tab.locator(".lm-Menu-item:has-text('Open as Timeline of Ranks')").is_visible()


def test_notebook_7_opens_it_too(tab: Any, server: str) -> None:
    tab.goto(f"{server}/tree")
    tab.wait_for_selector(".jp-DirListing-item", timeout=120_000)
    with tab.context.expect_page(timeout=60_000) as opened:
        tab.dblclick(".jp-DirListing-item:has-text('plain.json.gz')")
    opened.value.wait_for_function(PAINTED, timeout=120_000)
    opened.value.screenshot(path=SCREENS / "double-click-notebook.png")
