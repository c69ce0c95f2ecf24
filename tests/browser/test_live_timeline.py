"""The live timeline in JupyterLab: it draws, answers keys and pointer, talks to Python, and leaves nothing behind."""

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import SCREENS, Saved
from .notebook import close_documents, open_notebook, run_all, run_code, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

CELLS = (
    "%load_ext perfmagic",
    (  # a collection of torch's objects takes 200 ms, and may fall into a cell
        "import gc, perfmagic, torch\n"
        "device = perfmagic.device('sim', clock='virtual', pace=perfmagic.Pace(kernel_s=1e-3))\n"
        "gc.collect(); gc.freeze()"
    ),
    (
        "%%timeline -o found\nx = torch.randn(64, 64, device=device)\nfor _ in range(40):\n    x = x @ x\n"
        "y = torch.relu(x)\ny.sum().item()"
    ),
    "%%timeline -o second\nz = torch.randn(32, 32, device=device)\nfor _ in range(80): z = z + 1\nz.sum().item()",
)
LIVE = ".jp-OutputArea .pm canvas"
# how many elements of a card have words that do not fit them
CUT_OFF = """(card) => [card, ...card.querySelectorAll('*')]
  .filter((node) => node.clientWidth && node.scrollWidth > node.clientWidth + 1).length"""


@pytest.fixture(scope="module")
def notebook(lab: str, saved: Saved, loaded: Any) -> Iterator[Any]:
    """A notebook whose cells were run in the browser, with two live timelines."""
    write_notebook(saved.folder / "live.ipynb", CELLS)
    tab = loaded
    open_notebook(tab, lab, "live.ipynb")
    run_code(tab, f"import sys; sys.path.insert(0, {str(saved.root)!r})")
    run_all(tab)
    tab.wait_for_function(f"() => document.querySelectorAll({LIVE!r}).length === 2", timeout=60_000)
    tab.wait_for_timeout(400)
    yield tab
    close_documents(tab)


def first(tab: Any) -> Any:
    return tab.locator(".jp-OutputArea .pm").first


def total(tab: Any, number: int = 0) -> str:
    return str(tab.locator(".jp-OutputArea .pm-seen").nth(number).inner_text())


def point_at_lanes(tab: Any) -> tuple[float, float]:
    """Focus the first timeline by a click on the empty axis; gives its plot's corner."""
    canvas = tab.locator(LIVE).first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    tab.mouse.click(box["x"] + 300, box["y"] + 36)
    return box["x"] + 92, box["y"]


def test_both_timelines_are_drawn_and_their_pictures_hidden(notebook: Any) -> None:
    notebook.screenshot(path=SCREENS / "lab-live.png")
    pictures = notebook.locator(".perfmagic-static")
    assert pictures.count() == 2
    assert not any(pictures.nth(i).is_visible() for i in range(2))
    inked = notebook.evaluate(
        """(selector) => [...document.querySelectorAll(selector)].map((c) => {
          const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
          return [seen.has(0x24529c), seen.size > 20];
        })""",
        LIVE,
    )
    assert inked[0] == [True, True]  # matrix kernels ran in the first
    assert inked[1][1]


def test_what_is_pointed_at_of_the_critical_path_is_lit_in_the_lanes(notebook: Any) -> None:
    hues = """(canvas) => {
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      let found = 0;
      for (let i = 0; i < data.length; i += 4)
        found += Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 24;
      return found;
    }"""
    canvas = notebook.locator(LIVE).first
    names = first(notebook).locator(".pm-sharewords .pm-lights")
    title, second = names.first, names.nth(2)
    assert title.inner_text() == "critical path"
    before = canvas.evaluate(hues)
    seen = {}
    for name, node in (("path", title), ("part", second)):
        node.hover()
        notebook.wait_for_timeout(200)
        seen[name] = canvas.evaluate(hues)
        notebook.screenshot(path=SCREENS / f"lab-critical-{name}.png")
    assert seen["part"] < seen["path"] < before  # more of the lanes is pale
    assert first(notebook).locator(".pm-sharewords .pm-lights.pm-off").count() == names.count() - 2
    notebook.mouse.move(2, 2)
    notebook.wait_for_timeout(200)
    assert canvas.evaluate(hues) == before


def test_keys_zoom_the_timeline_and_never_reach_the_notebook(notebook: Any) -> None:
    cells = notebook.locator(".jp-Notebook .jp-Cell").count()
    before = total(notebook)
    point_at_lanes(notebook)
    for key in ("w", "a", "d", "s", "w", "w"):
        notebook.keyboard.press(key)
        notebook.wait_for_timeout(60)
    notebook.wait_for_timeout(300)
    assert total(notebook) != before
    assert notebook.locator(".jp-Notebook .jp-Cell").count() == cells  # `a` would insert a cell
    notebook.keyboard.press("f")
    notebook.wait_for_timeout(300)
    assert total(notebook) == before


SOURCES = "() => [...jupyterapp.shell.currentWidget.content.model.cells].map((cell) => cell.sharedModel.source)"


def rest_on_lanes(tab: Any) -> None:
    """Select the first cell, in command mode, and move the pointer over the first timeline without a click."""
    tab.locator(".jp-Notebook .jp-InputPrompt").first.click()
    canvas = tab.locator(LIVE).first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    tab.mouse.move(box["x"] + 300, box["y"] + 40)


def check_keys_under_the_pointer(tab: Any) -> None:
    """In a running JupyterLab or Notebook 7: handled keys zoom and pan, all others and an editor's go on their way."""
    cells, before = tab.evaluate(SOURCES), total(tab)
    rest_on_lanes(tab)
    assert not tab.evaluate("() => document.querySelector('.pm').contains(document.activeElement)")
    for key in "wadds":
        tab.keyboard.press(key)
    tab.keyboard.press("w")
    tab.wait_for_timeout(400)
    assert total(tab) != before
    assert tab.evaluate(SOURCES) == cells  # `a` would have inserted a cell, `d d` deleted one
    tab.keyboard.press("f")
    tab.wait_for_timeout(400)
    assert total(tab) == before
    tab.keyboard.press("b")  # a key that is the notebook's: a new cell below
    tab.wait_for_timeout(400)
    assert len(tab.evaluate(SOURCES)) == len(cells) + 1
    tab.evaluate("() => jupyterapp.commands.execute('notebook:enter-edit-mode')")
    rest_on_lanes_in_edit_mode(tab)
    assert tab.evaluate("() => document.activeElement.closest('.cm-editor') !== null")
    tab.keyboard.type("wasd=[]/")
    tab.wait_for_timeout(300)
    assert [source.count("wasd=[]/") for source in tab.evaluate(SOURCES)].count(1) == 1
    assert total(tab) == before
    tab.evaluate("() => jupyterapp.commands.execute('notebook:enter-command-mode')")
    tab.evaluate("() => jupyterapp.commands.execute('notebook:delete-cell')")
    tab.wait_for_timeout(300)
    assert tab.evaluate(SOURCES) == cells


def rest_on_lanes_in_edit_mode(tab: Any) -> None:
    box = tab.locator(LIVE).first.bounding_box()
    tab.mouse.move(box["x"] + 310, box["y"] + 42)


def test_keys_work_under_the_pointer_without_a_click_and_never_take_an_editor_s(notebook: Any) -> None:
    check_keys_under_the_pointer(notebook)


def test_letters_typed_into_the_search_reach_neither_lanes_nor_notebook(notebook: Any) -> None:
    cells, before = notebook.evaluate(SOURCES), total(notebook)
    rest_on_lanes(notebook)
    notebook.keyboard.press("/")
    notebook.keyboard.type("adds")
    notebook.wait_for_timeout(300)
    assert first(notebook).locator(".pm-find input").input_value() == "adds"
    assert total(notebook) == before
    assert notebook.evaluate(SOURCES) == cells
    notebook.keyboard.press("Escape")
    notebook.wait_for_timeout(300)
    assert not first(notebook).locator(".pm-find").is_visible()


def test_keys_go_to_the_timeline_under_the_pointer_not_to_the_one_with_the_focus(notebook: Any) -> None:
    point_at_lanes(notebook)  # the first has the focus
    other = notebook.locator(LIVE).nth(1)
    other.scroll_into_view_if_needed()
    box = other.bounding_box()
    notebook.mouse.move(box["x"] + 300, box["y"] + 40)
    before = total(notebook), total(notebook, 1)
    notebook.keyboard.press("w")
    notebook.wait_for_timeout(400)
    assert total(notebook) == before[0]
    assert total(notebook, 1) != before[1]
    notebook.keyboard.press("f")
    notebook.wait_for_timeout(400)


def test_the_other_timeline_does_not_move(notebook: Any) -> None:
    before = total(notebook, 1)
    point_at_lanes(notebook)
    notebook.keyboard.press("w")
    notebook.wait_for_timeout(300)
    assert total(notebook, 1) == before
    notebook.keyboard.press("f")
    notebook.wait_for_timeout(300)


def test_a_dragged_selection_is_a_trace_in_python(notebook: Any) -> None:
    x, y = point_at_lanes(notebook)
    notebook.mouse.move(x + 200, y + 130)
    notebook.mouse.down()
    notebook.mouse.move(x + 500, y + 130, steps=5)
    notebook.mouse.up()
    notebook.wait_for_selector(".pm-panel:visible", timeout=5000)
    notebook.wait_for_timeout(600)
    told = run_code(notebook, "s = found.selection\nprint(len(s.ops) > 5, s.meta.end_ns - s.meta.start_ns)")
    some, length = told.split()
    assert some == "True"
    shown = first(notebook).locator(".pm-big").inner_text()
    assert run_code(notebook, f"from perfmagic import units\nprint(units.duration({length}))").strip() == shown


def test_python_zooms_and_marks(notebook: Any) -> None:
    code = "m = found.trace.meta\nfound.zoom(m.start_ns + 1_000_000, m.start_ns + 3_000_000)\nfound.highlight('mm')"
    assert run_code(notebook, code) == ""
    notebook.wait_for_function("() => document.querySelector('.pm-seen').textContent.startsWith('2.00')", timeout=5000)
    assert " hit" in first(notebook).locator(".pm-find span").inner_text()
    assert run_code(notebook, "found.highlight()") == ""
    notebook.wait_for_timeout(400)
    assert not first(notebook).locator(".pm-find").is_visible()


def test_hovering_tells_the_life_of_an_op(notebook: Any) -> None:
    x, y = point_at_lanes(notebook)
    notebook.keyboard.press("f")
    notebook.keyboard.press("Escape")
    notebook.wait_for_timeout(300)
    height = notebook.locator(LIVE).first.bounding_box()["height"]
    for down in range(20, int(height), 6):  # down through the lanes until an op is met
        notebook.mouse.move(x + 300, y + down)
        card = first(notebook).locator(".pm-card")
        if card.count() and "launched" in card.inner_text():  # a launch has a card of its own
            break
    text = first(notebook).locator(".pm-card").inner_text()
    for word in ("launched", "in the call", "waiting", "ran", "stream"):
        assert word in text
    assert first(notebook).locator(".pm-card").evaluate(CUT_OFF) == 0
    notebook.screenshot(path=SCREENS / "lab-hover.png")


def test_the_plain_wheel_scrolls_the_notebook_and_ctrl_wheel_zooms(notebook: Any) -> None:
    x, y = point_at_lanes(notebook)
    before = total(notebook)
    where = "() => document.querySelector('.pm canvas').getBoundingClientRect().top"
    top = notebook.evaluate(where)
    notebook.mouse.move(x + 300, y + 60)
    notebook.mouse.wheel(0, -200)
    notebook.wait_for_timeout(300)
    notebook.mouse.wheel(0, 60)
    notebook.wait_for_timeout(300)
    assert total(notebook) == before
    assert notebook.evaluate(where) != top
    point_at_lanes(notebook)
    notebook.keyboard.down("Control")
    notebook.mouse.wheel(0, -300)
    notebook.keyboard.up("Control")
    notebook.wait_for_timeout(400)
    assert total(notebook) != before
    point_at_lanes(notebook)
    notebook.keyboard.press("f")
    notebook.wait_for_timeout(300)


def test_running_the_cell_again_closes_the_old_view(notebook: Any) -> None:
    # some objects of torch warn when they are asked for their type
    count = "import warnings\nwarnings.simplefilter('ignore')\n"
    count += "from perfmagic.widget.timeline import TimelineWidget as T\nimport gc\n"
    count += "print(sum(isinstance(o, T) and o.comm is not None for o in gc.get_objects()))"
    before = run_code(notebook, count)
    run_all(notebook)
    for _ in range(40):  # the front end closes it when it gets to that
        if run_code(notebook, count) == before and notebook.locator(LIVE).count() == 2:
            break
        notebook.wait_for_timeout(500)
    assert run_code(notebook, count) == before
    assert notebook.locator(LIVE).count() == 2


def test_clearing_the_output_leaves_no_listener(notebook: Any) -> None:
    point_at_lanes(notebook)
    notebook.evaluate("() => jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    notebook.locator(".pm").first.wait_for(state="detached")
    assert notebook.locator(".pm").count() == 0
    told: list[str] = []
    notebook.on("pageerror", lambda error: told.append(str(error)))
    notebook.keyboard.press("w")
    notebook.evaluate("() => document.body.dataset.jpThemeLight = 'false'")
    notebook.wait_for_timeout(200)
    notebook.evaluate("() => document.body.dataset.jpThemeLight = 'true'")
    assert told == []
