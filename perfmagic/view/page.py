"""One self-contained HTML page: nothing is fetched, and nothing runs but a script of this package."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from perfmagic.base.tables import NUMBER_STYLE, SORTABLE, sort_script
from perfmagic.base.terminal import escaped

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:24px 0;padding:0 24px;font-family:Arial,Helvetica,sans-serif;font-size:13px;"
    "color:#1b1f24;background:#fff}"
    "h1{font-size:15px;font-weight:600}section{margin:0 0 32px 0}"
    f"td{{{NUMBER_STYLE}}}"
    "@media(prefers-color-scheme:dark){body:not([data-jp-theme-light=true]){color:#e8eaed;background:#111}}"
    "body[data-jp-theme-light=false]{color:#e8eaed;background:#111}"  # of a frame, as the notebook around it says
    "body[data-jp-theme-light=false],[data-jp-theme-light=false] img{color-scheme:dark}"
    "body[data-jp-theme-light=true],[data-jp-theme-light=true] img{color-scheme:light}"
)


def page(title: str, bodies: Sequence[str], *, script: str = "") -> str:
    """A page that holds the given pieces of HTML one below the other.

    title: plain text.  bodies: HTML from this package, its foreign text already escaped.  script: a module of this
    package, if one draws. A page with tables gets the one that sorts them. The policy names their hashes, so that no
    other can run.
    """
    scripts = [script] if script else []
    if any(SORTABLE in body for body in bodies):
        scripts.append(sort_script())
    hashes = "".join(f" '{script_hash(each)}'" for each in scripts)
    policy = POLICY + (f"; script-src{hashes}" if scripts else "")
    modules = "".join(f'<script type="module">{each}</script>\n' for each in scripts)
    # a fourth of the page of a thousand ranks was this attribute; quotes in foreign text are escaped
    sections = "\n".join(f"<section>{body}</section>" for body in bodies).replace(f' style="{NUMBER_STYLE}"', "")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escaped(title)}</h1>\n{sections}\n</main>\n{modules}</body>\n</html>\n"
    )


def script_hash(source: str) -> str:
    """A script's hash as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


# What stands around pictures and live views in a notebook.

STATIC_CLASS = "perfmagic-static"  # by which a live timeline finds the picture it stands in for
# a picture as an image asks for the theme of its element: the notebook's, which need not be the system's
AS_THE_NOTEBOOK = "".join(
    f"[data-jp-theme-light={light}] .{STATIC_CLASS} img{{color-scheme:{scheme}}}"
    for light, scheme in (("true", "light"), ("false", "dark"))
)
# A live view whose kernel is gone becomes in JupyterLab and Notebook 7 an output of text alone: "Loading widget..."
# or "Error displaying widget: model not found". Below the picture that only worries. What a cell prints or shows itself
# has elements of its own or is rendered HTML, and is never hidden. In an untrusted notebook this element is dropped,
# but so is such text.
ONLY_THE_PICTURE = (
    f"<style>{AS_THE_NOTEBOOK}.jp-OutputArea-child:has(>.jp-OutputArea-output>.{STATIC_CLASS})+.jp-OutputArea-child"
    ">.jp-OutputArea-output:not(:has(*),.jp-RenderedHTMLCommon){display:none}</style>"
)


# A live timeline inside a self-contained page: the static picture, the data beside it, the script that draws them.

# readers that drop the frame drop this too, and then the picture behind it is seen
BEHIND_FRAME = f"<style>iframe+.{STATIC_CLASS}{{display:none}}</style>"
FRAME_PX = 760  # where the height is not estimated, and the most; what is higher scrolls
STATIC = Path(__file__).resolve().parents[1] / "static"


@lru_cache
def script(name: str) -> str:
    """A script as it is built and committed. Raises OSError where the file is absent.

    name: timeline, the module that draws; more, what stands behind it for several ranks and memory; loader,
    what runs both in a notebook; frame, what tells frames the notebook's theme.
    """
    return (STATIC / f"{name}.js").read_text(encoding="utf-8").strip()


def drawing_script(*, more: bool) -> str:
    """The module that draws timelines.  more: with what few results need."""
    return script("timeline") + (script("more") if more else "")


_SLOT = "data-perfmagic-timeline"
_MORE = f'{_SLOT}="more"'


class LiveData(Protocol):
    """The data of a live view: what a script reads as JSON, the numbers as bytes, whether it takes `more`."""

    @property
    def needs_more(self) -> bool: ...

    @property
    def header_json(self) -> str: ...

    @property
    def payload(self) -> bytes: ...


def data_section(picture: str, live_data: LiveData) -> str:
    """A live view of a page.  picture: HTML for readers without scripts."""
    # "<" is the only character with which text could end the element it stands in
    header = live_data.header_json.replace("<", "\\u003c")
    payload = base64.b64encode(live_data.payload).decode()
    return (
        f"<div {_MORE if live_data.needs_more else _SLOT}>{picture}"
        f'<script type="application/json">{header}</script><script type="text/plain">{payload}</script></div>'
    )


def live_page(title: str, sections: list[str]) -> str:
    """A page of live timelines: nothing is fetched, and no script runs but those whose hashes the policy names."""
    return page(title, sections, script=drawing_script(more=any(_MORE in section for section in sections)))


def framed_page(title: str, section: str, picture: str, *, height_px: int = FRAME_PX) -> str:
    """A page of one live view in a frame, and the picture where a frame is not allowed."""
    source = escaped(live_page(title, [section]))
    style = f"width:100%;height:{height_px}px;border:0"
    allowed = f'sandbox="allow-scripts" style="{style}" title="{escaped(title)}"'
    frame = f'<iframe data-perfmagic-frame {allowed} srcdoc="{source}"></iframe>'
    return f"{BEHIND_FRAME}{frame}{picture}<script>{script('frame')}</script>"
