"""The browser of the system, and letters that are as wide on every machine."""

from __future__ import annotations

import shutil

FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
# a script for every page: Jupyter's own variables name the fonts, in notebooks and in pages
LIBERATION = """
addEventListener('DOMContentLoaded', () => {
  const style = document.documentElement.style;
  for (const part of ['ui', 'content']) style.setProperty(`--jp-${part}-font-family`, '"Liberation Sans"');
  style.setProperty('--jp-code-font-family', '"Liberation Mono"');
});
"""
HAS_FONTS = """() => {
  const g = document.createElement('canvas').getContext('2d');
  const width = (font) => { g.font = `20px ${font}`; return g.measureText('queued i W').width; };
  return ['Liberation Sans', 'Liberation Mono'].every((name) =>
    width(`"${name}", serif`) === width(`"${name}", cursive`) && width(`"${name}", serif`) !== width('serif'));
}"""


def executable() -> str | None:
    """The path of an installed Chromium or Chrome."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
