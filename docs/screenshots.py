"""Draws the pictures that README and docs show: cells in a real JupyterLab, a recorded step, a report of several ranks.

make screenshots        or, for some of them: python docs/screenshots.py hero syncbench

Letters are DejaVu Sans and Mono on every machine, so that a picture wraps and cuts the same words everywhere.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for the driving of JupyterLab, which the tests share

from perfmagic.api.opening import open_trace  # noqa: E402  the checkout's own, after its path is known
from perfmagic.cli import main as command  # noqa: E402
from perfmagic.view.timeline.picture.timeline import timeline_svg  # noqa: E402
from tests.browser.chromium import FLAGS, FRESH, HAS_FONTS, executable, fonts  # noqa: E402
from tests.browser.notebook import open_notebook, run_all, write_notebook  # noqa: E402
from tests.browser.pictures import with_palette  # noqa: E402
from tests.browser.server import jupyter_server  # noqa: E402
from tests.trace.recorded import eight_ranks  # noqa: E402

DOCS = ROOT / "docs"
STEP = ROOT / "tests" / "data" / "traces" / "v100_4streams_nccl_step.json.gz"
RANKS = eight_ranks()
EDGE_PX = 12
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
SETUP = """%load_ext perfmagic
import torch, perfmagic
device = perfmagic.device("sim", pace=perfmagic.Pace(by_name={"mm": 4e-3, "sum": 1e-3}))
x = torch.randn(64, 64, device=device)
w = torch.randn(64, 64, device=device) / 8"""
# twice, as the first call of each op is slower; the second is the picture
HERO = """%%timeline
y = x
for _ in range(12):
    y = y @ w      # only queued: Python goes on at once
loss = y.sum()
loss.item()        # here Python waits for the device"""
SYNCBENCH = """%%syncbench
for _ in range(4):
    x @ w"""
LEARNER = """%load_ext perfmagic
import torch, perfmagic
device = perfmagic.device("sim")
layers = torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)
net = torch.nn.Sequential(*layers).to(device)
optimizer = torch.optim.Adam(net.parameters())
x = torch.randn(1024, 256, device=device)"""
MEMORY = """%%memory
out = net(x)
loss = (out - x).square().mean()
loss.backward()
optimizer.step()
optimizer.zero_grad()"""
TWO_DEVICES = """%load_ext perfmagic
import torch, perfmagic
first, second = perfmagic.devices(2, kind="sim", pace="matmul=10ms, copy=500MB/s")
w = torch.rand(64, 64, device=first)
v = torch.rand(64, 64, device=second)
batches = [torch.rand(32, 64).pin_memory() for _ in range(3)]"""
GRAPH = """%%graph
for batch in batches:
    hidden = torch.relu(batch.to(first, non_blocking=True) @ w)
    output = hidden.to(second, non_blocking=True) @ v
    print(output.mean().item())"""
ONLY_THE_CELL = """
  .jp-cell-toolbar, .jp-cell-menu, .jp-Collapser { display: none !important; }
  .jp-Cell { border: 0 !important; box-shadow: none !important; }
  .jp-Notebook.jp-mod-commandMode .jp-Cell.jp-mod-active.jp-mod-selected { background: transparent !important; }
"""


@contextmanager
def tab_of(browser: Any, theme: str, width: int, height: int = 1000, *, scale: float = 1.5) -> Iterator[Any]:
    """A page of a browser in a theme.  scale: device pixels a CSS pixel."""
    size = {"width": width, "height": height}
    context = browser.new_context(
        viewport=size, device_scale_factor=scale, color_scheme=theme, reduced_motion="reduce", locale="en-GB"
    )
    try:
        tab = context.new_page()
        tab.add_init_script(fonts(*FRESH))
        yield tab
    finally:
        context.close()


def write(name: str, png: bytes) -> None:
    """Save docs/NAME.png with a palette; print how large it is."""
    target = DOCS / f"{name}.png"
    target.write_bytes(with_palette(png))
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")


def draw_cell(
    browser: Any, address: str, folder: Path, name: str, cells: tuple[str, str], themes: tuple[str, ...]
) -> None:
    """docs/NAME-THEME.png: the second run of a cell, in JupyterLab.  cells: the set-up and the cell."""
    setup, source = cells
    write_notebook(folder / f"{name}.ipynb", (setup, source, source))
    for theme in themes:
        with tab_of(browser, theme, 1180, 1600) as tab:
            open_notebook(tab, address, f"{name}.ipynb")
            set_theme = "(theme) => jupyterapp.commands.execute('apputils:change-theme', {theme})"
            tab.evaluate(set_theme, THEMES[theme])
            tab.evaluate("() => jupyterapp.commands.execute('application:set-mode', {mode: 'single-document'})")
            tab.evaluate("() => jupyterapp.shell.collapseLeft()")
            tab.add_style_tag(content=ONLY_THE_CELL)
            run_all(tab)
            cell = tab.locator(".jp-Notebook .jp-CodeCell").nth(2)
            cell.scroll_into_view_if_needed()
            tab.wait_for_timeout(1500)  # for the live view, and for the frame at rest
            tab.mouse.move(5, 5)
            write(f"{name}-{theme}", cell.screenshot())
            tab.evaluate("async () => { await jupyterapp.shell.currentWidget.sessionContext.shutdown() }")


def hero(browser: Any) -> None:
    """docs/hero-light.png and hero-dark.png: a cell with its live timeline."""
    in_jupyterlab(browser, "hero", HERO, themes=("light", "dark"))


def syncbench(browser: Any) -> None:
    """docs/syncbench-light.png: a cell with its benchmark."""
    in_jupyterlab(browser, "syncbench", SYNCBENCH)


def memory(browser: Any) -> None:
    """docs/memory-light.png: a cell with what held its memory."""
    in_jupyterlab(browser, "memory", MEMORY, LEARNER)


def graph(browser: Any) -> None:
    """docs/graph-light.png: a cell with what its operators need."""
    in_jupyterlab(browser, "graph", GRAPH, TWO_DEVICES)


def in_jupyterlab(
    browser: Any, name: str, source: str, setup: str = SETUP, themes: tuple[str, ...] = ("light",)
) -> None:
    """The pictures of a cell, from a JupyterLab of their own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "notebooks"
        folder.mkdir()
        os.environ["PYTHONPATH"] = str(ROOT)  # of the kernel
        with jupyter_server(folder, Path(place)) as address:
            draw_cell(browser, address, folder, name, (setup, source), themes)


def step(browser: Any) -> None:  # noqa: ARG001  one of the pictures; this one needs no browser
    """docs/v100-step.svg: a training step, whole."""
    (DOCS / "v100-step.svg").write_text(timeline_svg(open_trace(STEP).doc), encoding="utf-8")


def ranks(browser: Any) -> None:
    """docs/ranks-light.png: a report of several ranks: all on one axis."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "ranks.html"
        job = Path(folder) / "step"
        job.mkdir()
        for number, path in enumerate(sorted(RANKS.glob("*.json.gz"))):  # their own names hold a time and are long
            shutil.copyfile(path, job / f"rank{number}.json.gz")
        if command(["report", str(job), "--html", "--out", str(page)]):
            raise RuntimeError(f"no report of {RANKS}")
        with tab_of(browser, "light", 1180, 1400) as tab:
            tab.goto(page.as_uri())
            tab.wait_for_selector(".pm canvas")
            tab.wait_for_timeout(800)
            box = tab.locator(".pm").first.bounding_box()
            clip = {"x": 0, "y": 0, "width": 1180, "height": box["y"] + box["height"] + EDGE_PX}
            write("ranks-light", tab.screenshot(clip=clip))


PICTURES: dict[str, Callable[[Any], None]] = {
    "hero": hero,
    "syncbench": syncbench,
    "memory": memory,
    "graph": graph,
    "step": step,
    "ranks": ranks,
}


def main(names: list[str]) -> int:
    """Draw the named pictures, all by default."""
    from playwright.sync_api import sync_playwright

    found = executable()
    if found is None:
        print("Chromium is not installed (apt-get install chromium)", file=sys.stderr)
        return 1
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(FLAGS))
        if not browser.new_page().evaluate(HAS_FONTS):
            print("DejaVu's fonts are not installed (apt-get install fonts-dejavu-core)", file=sys.stderr)
            return 1
        for name in names or list(PICTURES):
            PICTURES[name](browser)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
