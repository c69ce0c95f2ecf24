"""The browser of the system, and the fonts in which pictures are drawn."""

import shutil

# the first loads a page of the browser's own for each window; the others are Playwright's, as the last switch counts
OFF = ("PreloadTopChromeWebUI", "AvoidUnnecessaryBeforeUnloadCheckSync", "HttpsUpgrades", "LensOverlay", "MediaRouter")
OFF += ("OptimizationHints", "PaintHolding", "ThirdPartyStoragePartitioning")
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
FLAGS += (f"--disable-features={','.join(OFF)}",)
FRESH = "DejaVu Sans", "DejaVu Sans Mono"  # what a fresh Debian has: fontconfig needs them, so they are everywhere
OTHER = "DejaVu Serif", "DejaVu Sans Mono"
HAS_FONTS = """() => {
  const g = document.createElement('canvas').getContext('2d');
  const width = (font) => { g.font = `20px ${font}`; return g.measureText('queued i W').width; };
  // what stands behind a font that is there does not matter
  return ['DejaVu Sans', 'DejaVu Sans Mono', 'DejaVu Serif'].every((name) =>
    width(`"${name}", serif`) === width(`"${name}", monospace`));
}"""


def fonts(words: str, code: str) -> str:
    """A script for every page: Jupyter's own variables name the fonts, in notebooks and in pages."""
    return f"""
addEventListener('DOMContentLoaded', () => {{
  const style = document.documentElement.style;
  for (const part of ['ui', 'content']) style.setProperty(`--jp-${{part}}-font-family`, '"{words}"');
  style.setProperty('--jp-code-font-family', '"{code}"');
}});
"""


def executable() -> str | None:
    """The path of an installed Chromium or Chrome."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
