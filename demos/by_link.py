"""Lets links open lessons: puts the links, and a cell that Colab needs, at the beginning of notebooks.

python demos/by_link.py https://github.com/OWNER/NAME demos/*.ipynb
python demos/by_link.py https://github.com/OWNER/NAME class/students/*.ipynb   # after make class OUT=class

The address is that of a public repository with this clone and the notebooks in it, such as a fork of a teacher's.
Notebooks that have links already get new ones.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from urllib.parse import quote

import nbformat
from nbformat import NotebookNode, v4

ROOT = Path(__file__).resolve().parents[1]
TAG = "by-link"
# Of Colab's runtime in June 2026 (its list of packages): Python 3.12, IPython 7.34, torch 2.11, ipywidgets 7.7
WORDS = """[Open in Colab]({colab}) · [Open in Binder]({binder})

On Colab, run the next cell first. It fetches perfmagic and the files of the lessons; torch is there. What differs:

- A GPU runtime has one CUDA device. Parts with several devices use simulated ones, as all parts do without a GPU.
- Traces do not open by a double click. `%trace FILE` opens them.
- Live timelines need Colab's own manager of widgets, which Colab fetches from elsewhere. Pictures need nothing.
- Files and what was installed go with the runtime. *File › Save a copy in Drive* keeps the notebook."""
CODE = """# for Colab; does nothing elsewhere
import sys

if "google.colab" in sys.modules:
    !test -d /content/{name} || git clone --quiet --depth 1 {address} /content/{name}
    %pip install --quiet /content/{name}
    %cd -q /content/{name}/{folder}"""


def main() -> int:
    """Change the notebooks on the command line; 1 for an address that Colab cannot open, or files outside the clone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("notebooks", type=Path, nargs="+")
    options = parser.parse_args()
    known = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", options.address)
    if known is None:
        print(f"{options.address}: must be https://github.com/OWNER/NAME, where Colab can open it", file=sys.stderr)
        return 1
    outside = [str(path) for path in options.notebooks if not path.resolve().is_relative_to(ROOT)]
    if outside:
        print(f"{', '.join(outside)}: must be in {ROOT}, whose repository the links name", file=sys.stderr)
        return 1
    for path in options.notebooks:
        notebook = nbformat.read(path, as_version=4)
        nbformat.write(linked(notebook, known[1], path.resolve().relative_to(ROOT)), path)
    return 0


def linked(notebook: NotebookNode, repository: str, path: Path) -> NotebookNode:
    """The notebook, with its links by its path in a repository OWNER/NAME of GitHub."""
    colab = f"https://colab.research.google.com/github/{repository}/blob/HEAD/{quote(path.as_posix())}"
    binder = f"https://mybinder.org/v2/gh/{repository}/HEAD?labpath={quote(path.as_posix(), safe='')}"
    name = repository.partition("/")[2]
    code = CODE.format(name=name, address=f"https://github.com/{repository}", folder=path.parent.as_posix())
    made = nbformat.from_dict(notebook)
    first = [v4.new_markdown_cell(WORDS.format(colab=colab, binder=binder)), v4.new_code_cell(code)]
    for number, cell in enumerate(first):
        cell.id, cell.metadata.tags = f"{TAG}-{number}", [TAG]  # the same on each run
    made.cells = [*first, *(cell for cell in made.cells if TAG not in cell.metadata.get("tags", ()))]
    return made


if __name__ == "__main__":
    sys.exit(main())
