"""One self-contained HTML page: nothing is fetched, nothing runs."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic.view.canvas import escaped

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:24px auto;padding:0 16px;max-width:1000px;font-family:Arial,Helvetica,sans-serif;font-size:13px;"
    "color:#1b1f24;background:#fff}"
    "h1{font-size:15px;font-weight:600}section{margin:0 0 32px 0}"
    "@media(prefers-color-scheme:dark){body{color:#e8eaed;background:#111}}"
)


def page(title: str, bodies: Sequence[str]) -> str:
    """A page that holds the given pieces of HTML one below the other.

    title: plain text.  bodies: HTML from this package, its foreign text already escaped.
    """
    sections = "\n".join(f"<section>{body}</section>" for body in bodies)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escaped(title)}</h1>\n{sections}\n</body>\n</html>\n"
    )
