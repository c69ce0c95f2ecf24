"""The live view looks as it did: golden pictures, compared pixel by pixel but for antialiasing."""

import base64
from pathlib import Path
from typing import Any

import pytest

from .chromium import HAS_FONTS
from .conftest import SCREENS
from .pictures import FOLDER, MOST_OTHER, SCENES, Scene, drawn, other_pixels

pytestmark = [pytest.mark.browser, pytest.mark.timeout(200)]

MOST_BYTES = 75_000  # of one picture; all of them travel with the repository
MOST_BYTES_TOGETHER = 320_000
# draws a picture again, half a pixel to the right (as other smoothing does), or without a small rectangle
CHANGED = """async ([png, dx, hole]) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = Object.assign(document.createElement('canvas'), {width: image.width, height: image.height});
  const g = canvas.getContext('2d');
  g.drawImage(image, 0, 0);
  g.globalAlpha = 0.5;
  g.drawImage(image, dx, 0);
  g.globalAlpha = 1;
  if (hole) [g.fillStyle] = ['white'], g.fillRect(...hole);
  return canvas.toDataURL('image/png').split(',')[1];
}"""


@pytest.fixture
def fonts(tab: Any) -> None:
    if not tab.evaluate(HAS_FONTS):
        pytest.skip("DejaVu's fonts are not installed (apt-get install fonts-dejavu-core)")


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_the_live_view_looks_as_its_golden_picture(chromium: Any, tab: Any, tmp_path: Path, scene: Scene) -> None:
    png = drawn(chromium, scene, tmp_path)
    (SCREENS / f"golden-{scene.name}.png").write_bytes(png)
    other = other_pixels(tab, (FOLDER / f"{scene.name}.png").read_bytes(), png)
    assert 0 <= other <= MOST_OTHER, (
        f"{other} pixels differ (-1: another size); it looks like build/screens/golden-{scene.name}.png now; "
        "if that is as meant: python -m tests.browser.pictures"
    )


def test_the_golden_pictures_are_small_and_of_known_scenes() -> None:
    sizes = {path.stem: path.stat().st_size for path in FOLDER.glob("*.png")}
    assert set(sizes) == {scene.name for scene in SCENES}
    assert max(sizes.values()) <= MOST_BYTES
    assert sum(sizes.values()) <= MOST_BYTES_TOGETHER


def test_the_comparison_sees_a_lost_number_or_tint_and_passes_over_other_smoothing(tab: Any) -> None:
    png = (FOLDER / "cell-light.png").read_bytes()

    def changed(dx: float, hole: list[int] | None = None) -> bytes:
        made = tab.evaluate(CHANGED, [base64.b64encode(png).decode(), dx, hole])
        return base64.b64decode(made)

    assert other_pixels(tab, png, png) == 0
    assert other_pixels(tab, png, changed(0.5)) <= MOST_OTHER
    assert other_pixels(tab, png, changed(0, [764, 185, 50, 12])) > MOST_OTHER  # of the words "11 launches"
    assert other_pixels(tab, png, changed(0, [340, 255, 36, 8])) > MOST_OTHER  # of the palest queued layer
    assert other_pixels(tab, png, (FOLDER / "cell-dark.png").read_bytes()) != 0
