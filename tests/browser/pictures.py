"""Golden pictures of the live view: how they are drawn, and when two of them are the same.

python -m tests.browser.pictures        draws them all again, into tests/data/pictures
"""

import base64
import io
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from perfmagic.results import TimelineResult
from perfmagic.trace.model import Cell, Trace
from tests.browser.chromium import FLAGS, FRESH, HAS_FONTS, OTHER, executable, fonts
from tests.trace.recorded import recorded
from tests.view.timeline.build import queue_of

FOLDER = Path(__file__).resolve().parents[1] / "data" / "pictures"
WIDTH_PX = 860
# Machines smooth letters and edges differently: a pixel at an edge takes some mixture of the colours beside it. A pixel
# therefore counts as another one only if a channel lies outside what the 3 × 3 pixels there span in the other picture.
# A new pixel may do so by 24 of 255, less than the palest tint differs from the ground; a golden one by 72, as a stroke
# of one pixel that falls between two keeps three quarters of its contrast. On one machine no pixel does; a lost number
# of two digits is more than 40.
NEW_STEPS = 24
GOLDEN_STEPS = 72
MOST_OTHER = 40  # pixels of a picture
COLOURS = 256  # no channel of the pictures moves by more than 16 of 255, which is less than NEW_STEPS

OTHER_PIXELS = """async ([golden, drawn, newSteps, goldenSteps]) => {
  const read = async (png) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const g = new OffscreenCanvas(image.width, image.height).getContext('2d');
    g.drawImage(image, 0, 0);
    return g.getImageData(0, 0, image.width, image.height);
  };
  const [a, b] = [await read(golden), await read(drawn)];
  if (a.width !== b.width || a.height !== b.height) return -1;
  const {width, height} = a;
  const spanned = (p, q, x, y, most) => {
    const at = 4 * (y * width + x);
    for (let c = 0; c < 3; c++) {
      let [low, high] = [255, 0];
      for (let v = Math.max(0, y - 1); v <= Math.min(height - 1, y + 1); v++) {
        for (let u = Math.max(0, x - 1); u <= Math.min(width - 1, x + 1); u++) {
          const value = q[4 * (v * width + u) + c];
          if (value < low) low = value;
          if (value > high) high = value;
        }
      }
      if (p[at + c] < low - most || p[at + c] > high + most) return false;
    }
    return true;
  };
  let found = 0;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      found += !spanned(b.data, a.data, x, y, newSteps) || !spanned(a.data, b.data, x, y, goldenSteps);
    }
  }
  return found;
}"""


@dataclass(frozen=True)
class Scene:
    """One picture: whose timeline, in which theme and fonts, and what a person does before it is taken."""

    name: str
    trace: Callable[[], Trace]
    theme: str
    act: Callable[[Any], None] = lambda _tab: None
    fonts: tuple[str, str] = FRESH


def _point_at_an_op(tab: Any) -> None:
    """A selection over part of the queue, and the pointer on a layer of the pile."""
    _drag(tab, 300, 420, y=70)
    _move(tab, 500, 180)


def _zoom_in(tab: Any) -> None:
    """Ten times closer at the middle of a step, one op clicked."""
    _move(tab, 455, 120)
    for _ in range(5):
        tab.keyboard.press("w")
    tab.wait_for_timeout(300)
    box = _plot(tab)
    tab.mouse.click(box["x"] + 430, box["y"] + 205)
    tab.mouse.move(5, 5)


def _search_in_the_burst(tab: Any) -> None:
    """The last tenth of a second, in which the device runs, with the hits of a search."""
    _move(tab, 745, 60)
    for _ in range(8):
        tab.keyboard.press("w")
    tab.keyboard.press("/")
    tab.keyboard.type("norm")
    tab.mouse.move(5, 5)


def _plot(tab: Any) -> dict[str, float]:
    box: dict[str, float] = tab.locator(".pm canvas").bounding_box()
    return box


def _move(tab: Any, x: float, y: float) -> None:
    box = _plot(tab)
    tab.mouse.move(box["x"] + x, box["y"] + y)


def _drag(tab: Any, x0: float, x1: float, *, y: float) -> None:
    _move(tab, x0, y)
    tab.mouse.down()
    _move(tab, x1, y)
    tab.mouse.up()


def _cell() -> Trace:
    """Eleven ops in a queue, without letters that only some machines have a font for."""
    cell = Cell("%%timeline\nfor _ in range(11): y = y @ w\nprint(y.sum().item())")
    return replace(queue_of(), cell=cell)


def _step() -> Trace:
    return recorded("v100_4streams_nccl_step")


SCENES = (
    Scene("cell-light", _cell, "light", _point_at_an_op),
    Scene("cell-dark", _cell, "dark", fonts=OTHER),
    Scene("step-light", _step, "light"),
    Scene("step-zoomed-dark", _step, "dark", _zoom_in),
    Scene("graph-light", lambda: recorded("mi300_sglang_hipgraph"), "light", _search_in_the_burst),
    Scene("graph-dark", lambda: recorded("mi300_sglang_hipgraph"), "dark"),
)


def drawn(browser: Any, scene: Scene, folder: Path) -> bytes:
    """The PNG of a scene: a page of fixed width, one device pixel a CSS pixel, no motion, its fonts."""
    page = TimelineResult(scene.trace()).to_html(folder / f"{scene.name}.html")
    context = browser.new_context(
        viewport={"width": WIDTH_PX + 48, "height": 1400},
        device_scale_factor=1,
        color_scheme=scene.theme,
        reduced_motion="reduce",
        offline=True,
    )
    try:
        tab = context.new_page()
        tab.add_init_script(fonts(*scene.fonts))
        tab.goto(page.as_uri())
        tab.wait_for_selector(".pm canvas")
        tab.wait_for_timeout(400)  # the frame at rest follows after 0.14 s
        scene.act(tab)
        tab.wait_for_timeout(500)
        png: bytes = tab.locator(".pm").screenshot()
        return png
    finally:
        context.close()


def with_palette(png: bytes) -> bytes:
    """The same picture with a palette, in a third of the bytes.

    An entry of the palette is the commonest of the colours that it stands for, so that areas keep their colour exactly.
    """
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB")
    reduced = image.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    pixels = np.column_stack([np.asarray(reduced).reshape(-1), np.asarray(image).reshape(-1, 3)])
    rows, n_pixels = np.unique(pixels, axis=0, return_counts=True)
    by_size = rows[np.argsort(n_pixels)]
    palette = np.zeros((COLOURS, 3), np.uint8)
    palette[by_size[:, 0]] = by_size[:, 1:]  # the last of an entry, the commonest, stays
    reduced.putpalette(palette.tobytes())
    out = io.BytesIO()
    reduced.save(out, "PNG", optimize=True)
    return out.getvalue()


def other_pixels(tab: Any, golden: bytes, new: bytes) -> int:
    """How many pixels of two PNGs are not the same, antialiasing aside; -1 where their sizes differ."""
    texts = [base64.b64encode(png).decode() for png in (golden, new)]
    return int(tab.evaluate(OTHER_PIXELS, [*texts, NEW_STEPS, GOLDEN_STEPS]))


def main() -> int:
    """Draw every golden picture again."""
    from playwright.sync_api import sync_playwright

    found = executable()
    if found is None:
        print("Chromium is not installed", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(FLAGS))
        if not browser.new_page().evaluate(HAS_FONTS):
            print("DejaVu's fonts are not installed (apt-get install fonts-dejavu-core)", file=sys.stderr)
            return 1
        for scene in SCENES:
            target = FOLDER / f"{scene.name}.png"
            target.write_bytes(with_palette(drawn(browser, scene, Path(folder))))
            print(f"{target.relative_to(FOLDER.parents[2])}: {target.stat().st_size / 1000:.0f} kB")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
