"""One self-contained HTML page: nothing is fetched, and nothing runs but a script of this package."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from perfmagic.tables import SORTABLE, sort_script
from perfmagic.view.svg.canvas import escaped

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:24px 0;padding:0 24px;font-family:Arial,Helvetica,sans-serif;font-size:13px;"
    "color:#1b1f24;background:#fff}"
    "h1{font-size:15px;font-weight:600}section{margin:0 0 32px 0}"
    "@media(prefers-color-scheme:dark){body{color:#e8eaed;background:#111}}"
)


def page(title: str, bodies: Sequence[str], *, script: str = "") -> str:
    """A page that holds the given pieces of HTML one below the other.

    title: plain text.  bodies: HTML from this package, its foreign text already escaped.  script: a module of this
    package; the policy names its hash, so that no other can run. If left out, a page with tables gets the one that
    sorts them.
    """
    if not script and any(SORTABLE in body for body in bodies):
        script = sort_script()
    policy = POLICY + (f"; script-src '{script_hash(script)}'" if script else "")
    module = f'<script type="module">{script}</script>\n' if script else ""
    sections = "\n".join(f"<section>{body}</section>" for body in bodies)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escaped(title)}</h1>\n{sections}\n{module}</body>\n</html>\n"
    )


def script_hash(source: str) -> str:
    """A script's hash as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
