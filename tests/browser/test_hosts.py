"""Front ends with other pages than JupyterLab's: one face is seen, in the colours of the page."""

import base64
from typing import Any

import pytest

from perfmagic.results import TimelineResult
from perfmagic.view.page import drawing_script, script
from tests.view.timeline.build import queue_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(200)]

# where a front end puts an output, from the cell inwards; the last is what a widget gets
LAB = ("jp-Cell", "jp-OutputArea", "jp-OutputArea-child", "jp-OutputArea-output")
NOTEBOOK_6 = ("cell", "output_wrapper", "output", "output_area", "output_subarea")
VS_CODE = ("cell_container", "output_container", "output")
N_OUTER = {LAB: 2, NOTEBOOK_6: 3, VS_CODE: 1}  # of these, how many hold all outputs of the cell
RENDER = """async ([source, header, payload]) => {
  const { default: widget } = await import(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));
  const bytes = Uint8Array.from(atob(payload), (one) => one.charCodeAt(0));
  const given = { header, payload: new DataView(bytes.buffer), asked_ns: [], marked: {} };
  const manager = { get_model: async () => { throw new Error('model not found'); } };
  const model = { get: (name) => given[name], set() {}, save_changes() {}, on() {}, off() {}, widget_manager: manager };
  window.ends = [...document.querySelectorAll('.here')].map((el) => widget.render({ model, el }));
}"""
SEEN = "() => [...document.querySelectorAll('.perfmagic-static')].map((one) => one.offsetParent !== null)"


def nested(classes: tuple[str, ...], inside: str) -> str:
    """Elements in one another."""
    for name in reversed(classes):
        inside = f'<div class="{name}">{inside}</div>'
    return inside


def cell_of(host: tuple[str, ...]) -> str:
    """A cell that printed, showed a picture, then the live view of the same."""
    outer, inner = host[: N_OUTER[host]], host[N_OUTER[host] :]
    faces = ("printed", '<div class="perfmagic-static">the picture</div>', '<div class="here"></div>')
    return nested(outer, "".join(nested(inner, face) for face in faces))


def rendered(tab: Any, page: str) -> None:
    """A page whose places for widgets have the live view."""
    wire = TimelineResult(queue_of()).live().wire()
    tab.set_content(f"<body>{page}</body>")
    tab.evaluate(RENDER, [drawing_script(more=False), wire.header_json, base64.b64encode(wire.payload).decode()])
    n = page.count('"here"')
    tab.wait_for_function(
        f"() => [...document.querySelectorAll('.pm canvas')].filter((o) => o.offsetParent).length === {n}"
    )
    tab.wait_for_timeout(300)


@pytest.mark.parametrize("host", [LAB, NOTEBOOK_6, VS_CODE], ids=["lab", "notebook 6", "vs code"])
def test_each_cell_shows_one_face_and_the_picture_comes_back(tab: Any, host: tuple[str, ...]) -> None:
    rendered(tab, cell_of(host) * 2)
    assert tab.evaluate(SEEN) == [False, False]
    assert tab.get_by_text("printed").count() == 2
    assert all(tab.get_by_text("printed").nth(i).is_visible() for i in range(2))
    tab.evaluate("() => window.ends[0]()")
    assert tab.evaluate(SEEN) == [True, False]


def test_the_picture_stays_where_the_module_that_draws_is_lost(tab: Any) -> None:
    tab.set_content(f"<body>{cell_of(LAB)}</body>")
    with tab.expect_console_message(lambda said: "model not found" in said.text):
        tab.evaluate(RENDER, [script("loader"), "{}", ""])
    assert tab.evaluate(SEEN) == [True]
    assert tab.locator(".here").inner_html() == ""


def test_a_view_placed_by_hand_hides_no_picture_of_others(tab: Any) -> None:
    rendered(tab, '<div class="perfmagic-static">of another result</div><main><div class="here"></div></main>')
    assert tab.evaluate(SEEN) == [True]


def test_the_view_takes_the_colours_of_the_page_and_follows_them(tab: Any) -> None:
    shown = "() => getComputedStyle(document.querySelector('.pm')).colorScheme"
    tab.emulate_media(color_scheme="light")
    rendered(
        tab, '<style>:root.dark{color-scheme:dark}:root.both{color-scheme:light dark}</style><div class="here"></div>'
    )
    assert tab.evaluate(shown) == "light"
    for name, scheme in (("dark", "dark"), ("both", "light"), ("", "light")):
        tab.evaluate("(name) => { document.documentElement.className = name; }", name)
        tab.wait_for_function(f"() => ({shown})() === '{scheme}'")
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function(f"() => ({shown})() === 'dark'")
