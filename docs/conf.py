"""The settings of the documentation's site: `make docs`. The source is the whole tree, whose links stay as they are."""

from __future__ import annotations

import sys
from pathlib import Path

import perfmagic

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "perfmagic"
author = "The perfmagic developers"
project_copyright = f"2026, {author}"
release = version = perfmagic.__version__

root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "demos/*.md",
    "demos/*.ipynb",
    "benchmarks/results/*.md",
    "tests/data/traces/PROVENANCE.md",
    "perfmagic/README.md",
    "jupyter-config/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
]
extensions = ["myst_nb", "sphinx.ext.autodoc", "docstrings", "lessons", "public_names", "timelines"]

nb_execution_mode = "off"  # outputs are those that the notebooks hold, which tests compare; lessons.py folds them
nb_merge_streams = True
suppress_warnings = ["mystnb.unknown_mime_type"]  # of several faces of an output the page takes one it can show
myst_heading_anchors = 3  # headings are linked as on the pages of a repository: #several-ranks
myst_enable_extensions = ["dollarmath"]

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
nitpicky = True  # a name in a signature or in a text that leads nowhere is an error

html_theme = "furo"
html_title = f"perfmagic {release}"
html_copy_source = False  # notebooks are on the page already, and a copy of each would double the site
html_show_sourcelink = False
html_static_path = ["extensions/static"]
html_css_files = ["colours.css"]
html_extra_path = ["extensions/index.html"]  # leads from the site's root to its first page
