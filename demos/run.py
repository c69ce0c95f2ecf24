"""Runs a demo notebook in a real kernel, prints what each cell found, keeps it as a notebook and as one page.

python demos/run.py demos/00_tour.ipynb --out build/demo
python demos/run.py demos/00_tour.ipynb --store   # keeps the outputs in the notebook itself; `make format` after it
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

SHOWN_LINES = 12  # of one output; the page has all of them
NO_NETWORK = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'unsafe-inline'; font-src data:\">"
)
NO_PICTURE = "no-stored-picture"
LIGHT = "<style>:root{color-scheme:light}</style>"  # nbconvert's page is light: pictures in it must not turn dark


def main() -> int:
    """Run the notebook named on the command line; 1 when a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    notebook = nbformat.read(options.notebook, as_version=4)
    metadata = notebook.metadata.copy()
    failed = run(notebook, options.notebook.parent)
    if options.store and not failed:
        notebook.metadata = metadata
        nbformat.write(stored(notebook), options.notebook)
        return 0
    tell(notebook)
    options.out.mkdir(parents=True, exist_ok=True)
    executed = options.out / f"{options.notebook.stem}.executed.ipynb"
    nbformat.write(notebook, executed)
    saved = options.out / f"{options.notebook.stem}.html"
    saved.write_text(page(notebook, options.notebook.stem), encoding="utf-8")
    print(f"\nnotebook  {executed}\npage      {saved}  (one file, opens offline)")
    return int(failed)


def run(notebook: nbformat.NotebookNode, folder: Path) -> bool:
    """Execute every cell in a kernel of this very environment; True when one failed."""
    with tempfile.TemporaryDirectory() as private:
        # no kernel or profile of the user's; nobody looks while it runs, so only what remains is shown
        os.environ.update(JUPYTER_DATA_DIR=private, IPYTHONDIR=private, PERFMAGIC_DISPLAY="static")
        client = NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            record_timing=False,
            coalesce_streams=True,
        )
        try:
            client.execute()
        except CellExecutionError:
            return True
    return False


def stored(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without what is of this machine, and without pictures where a cell's tag says so: they are large."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                del output.traceback[:-1]  # the rest names files
            elif NO_PICTURE in cell.metadata.get("tags", ()) and "text/html" in output.get("data", {}):
                output.data["text/html"] = re.sub(r'<img (?:[^>"]|"[^"]*")*>', "", output.data["text/html"])
    return notebook


def tell(notebook: nbformat.NotebookNode) -> None:
    """Print each cell's code and, indented, the text of what it gave."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            print("\n" + "\n".join(line for line in cell.source.splitlines() if line.startswith("#")))
        elif cell.source.strip():
            print("\n" + "\n".join(f"  > {line}" for line in cell.source.splitlines()))
            for output in cell.get("outputs", []):
                print("\n".join(f"    {line}" for line in shortened(text_of(output))))


def text_of(output: nbformat.NotebookNode) -> str:
    """What an output says without pictures."""
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output.traceback))
    return str(output.data.get("text/plain", ""))


def shortened(text: str) -> list[str]:
    """The first lines of a text, and how many were left out."""
    lines = text.rstrip().splitlines()
    if len(lines) <= SHOWN_LINES:
        return lines
    return [*lines[:SHOWN_LINES], f"… {len(lines) - SHOWN_LINES} more lines on the page"]


def page(notebook: nbformat.NotebookNode, title: str) -> str:
    """The notebook as one HTML file that asks the network for nothing, and is not allowed to."""
    body, _ = HTMLExporter(template_name="lab").from_notebook_node(notebook, resources={"metadata": {"name": title}})
    still = re.sub(r"<script\b.*?</script>", "", body, flags=re.DOTALL)  # formulas and diagrams, loaded from elsewhere
    return still.replace("<head>", f"<head>{NO_NETWORK}{LIGHT}", 1)


if __name__ == "__main__":
    sys.exit(main())
