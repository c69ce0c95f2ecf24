"""Makes slides of lessons by nbconvert: a file each, which opens offline.

python demos/slides.py demos/02_automatic_parallelism.ipynb --reveal node_modules/reveal.js --out build/slides

A heading begins a slide, and so does each further paragraph or picture of its part, one below the other. What follows
a question appears at a press of the space bar. Checks and answers of exercises are left out. Notebooks are not changed.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter
from nbformat import NotebookNode
from run import NO_NETWORK

SCRIPTS = "script-src 'unsafe-inline'; "
# a slide may be longer than the screen: it scrolls
STYLE = """<style>
:root { color-scheme: light; --jp-cell-prompt-width: 0px; --jp-code-font-size: 16px; }
.reveal .slides > section > section { max-height: 740px; overflow: hidden auto; text-align: left; }
.reveal h1 { font-size: 2em; }
.reveal pre { width: auto; margin: 0; box-shadow: none; }
.reveal .jp-InputPrompt, .reveal .jp-OutputPrompt { display: none; }
.reveal .slides img { margin: 0; max-height: none; }
</style>"""
BEGIN = "<script>Reveal.initialize({width: 1200, height: 750, hash: true, slideNumber: true});</script>"


def main() -> int:
    """Write the slides of the notebooks on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", type=Path, nargs="+")
    parser.add_argument("--reveal", type=Path, required=True, help="the folder of reveal.js 4, as npm installs it")
    parser.add_argument("--out", type=Path, default=Path("build/slides"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for path in options.notebooks:
        made = options.out / f"{path.stem}.slides.html"
        made.write_text(slides(nbformat.read(path, as_version=4), path.stem, options.reveal), encoding="utf-8")
        print(made)
    return 0


def slides(notebook: NotebookNode, title: str, reveal: Path) -> str:
    """A lesson's slides as one page that asks the network for nothing, and is not allowed to."""
    body, _ = SlidesExporter().from_notebook_node(divided(notebook), resources={"metadata": {"name": title}})
    still = re.sub(r"<script\b.*?</script>|<link [^>]*>", "", body, flags=re.DOTALL)  # all loaded from elsewhere
    dist = reveal / "dist"
    look = "\n".join((dist / name).read_text("utf-8") for name in ("reveal.css", "theme/simple.css"))
    look = re.sub(r"@import [^;]*;", "", look)  # fonts, loaded from elsewhere
    script = f"<script>{(dist / 'reveal.js').read_text('utf-8')}</script>{BEGIN}"
    allowed = NO_NETWORK.replace("default-src 'none'; ", f"default-src 'none'; {SCRIPTS}")
    still = still.replace("<head>", f"<head>{allowed}", 1).replace("</head>", f"<style>{look}</style>{STYLE}</head>", 1)
    return still.replace("</body>", f"{script}</body>", 1)


def divided(notebook: NotebookNode) -> NotebookNode:
    """The notebook with the metadata by which nbconvert makes slides."""
    made = nbformat.from_dict(notebook)
    shown = asked = False  # a picture or a text has its slide already; a question on this slide waits for its answer
    for cell in made.cells:
        tags = set(cell.metadata.get("tags", ()))
        if tags & {"check", "solution"} or cell.metadata.get("jupyter", {}).get("source_hidden"):
            kind = "skip"
        elif cell.cell_type == "markdown":
            kind = "slide" if cell.source.startswith("#") else "subslide"
            shown, asked = False, "predict" in tags or "**Predict" in cell.source
        elif asked and "guess" not in tags:
            kind, shown, asked = "fragment", True, False
        elif shown and cell.get("outputs"):
            kind = "subslide"
        else:
            kind = "-"
            shown = shown or bool(cell.get("outputs"))
        cell.metadata.slideshow = {"slide_type": kind}
    return made


if __name__ == "__main__":
    sys.exit(main())
