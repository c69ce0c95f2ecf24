"""A live timeline inside a self-contained page: the static picture, the data beside it, the script that draws them."""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from pathlib import Path

from perfmagic.trace.model import Trace
from perfmagic.view.page import page
from perfmagic.view.svg.canvas import escaped
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.html import STATIC_CLASS, timeline_html
from perfmagic.view.timeline.picture.timeline import timeline_svg
from perfmagic.view.timeline.wire import Wire, timeline_wire
from perfmagic.view.timeline.words import AT_ONCE, rest_words

# readers that drop the frame drop this too, and then the picture behind it is seen
BEHIND_FRAME = f"<style>iframe+.{STATIC_CLASS}{{display:none}}</style>"
FRAME_PX = 760  # where the height is not estimated, and the most; what is higher scrolls
FURNITURE_PX = 190  # title, first line, bars, trace, axis, legend, margins
LINE_PX, LINE_CHARS = 16, 90  # of findings, in a page of a documentation's width
SCRIPT = Path(__file__).resolve().parents[2] / "static" / "timeline.js"


@lru_cache(maxsize=1)
def script() -> str:
    """The module that draws timelines, as it is built and committed. Raises OSError where the file is absent."""
    return SCRIPT.read_text(encoding="utf-8")


def live_section(doc: TimelineDoc, trace: Trace) -> str:
    """One timeline of a page: the picture for readers without scripts, and the data in elements that are not run."""
    return data_section(timeline_html(doc), timeline_wire(doc, trace))


def data_section(picture: str, wire: Wire) -> str:
    """A live view of a page.  picture: HTML for readers without scripts."""
    # "<" is the only character with which text could end the element it stands in
    header = wire.header_json.replace("<", "\\u003c")
    payload = base64.b64encode(wire.payload).decode()
    return (
        f"<div data-perfmagic-timeline>{picture}"
        f'<script type="application/json">{header}</script><script type="text/plain">{payload}</script></div>'
    )


def live_page(title: str, sections: list[str]) -> str:
    """A page of live timelines: nothing is fetched, and no script runs but the one whose hash the policy names."""
    return page(title, sections, script=script())


def live_frame(title: str, doc: TimelineDoc, trace: Trace) -> str:
    """The page inside a frame that may run its script and nothing else; the picture where a frame is not allowed."""
    return framed_page(title, live_section(doc, trace), timeline_html(doc), height_px=frame_px(doc))


def frame_px(doc: TimelineDoc) -> int:
    """About how high a live timeline is: no page can ask a sandboxed frame. Rather too high than too low."""
    height = re.search(r'viewBox="0 0 \S+ ([0-9.]+)"', timeline_svg(doc, header=False))
    lanes_px = 0.5 * float(height[1]) if height else FRAME_PX  # the picture is drawn at twice its size
    lengths = [len(f.cause) + len(rest_words(f)) for f in doc.findings[:AT_ONCE]]
    findings_px = sum(10 + LINE_PX * -(-length // LINE_CHARS) for length in lengths)
    return round(min(FRAME_PX, FURNITURE_PX + findings_px + lanes_px))


def framed_page(title: str, section: str, picture: str, *, height_px: int = FRAME_PX) -> str:
    """A page of one live view in a frame, and the picture where a frame is not allowed."""
    source = escaped(live_page(title, [section]))
    style = f"width:100%;height:{height_px}px;border:0"
    frame = f'<iframe sandbox="allow-scripts" style="{style}" title="{escaped(title)}" srcdoc="{source}"></iframe>'
    return BEHIND_FRAME + frame + picture
