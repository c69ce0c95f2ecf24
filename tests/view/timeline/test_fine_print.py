"""Below a timeline stands one line about how far its record can be believed; the rest opens on demand."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

from perfmagic.base.terminal import columns
from perfmagic.results import TimelineResult
from perfmagic.view.report.writers import report_text
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.picture.timeline import timeline_svg
from perfmagic.view.timeline.text import timeline_text
from perfmagic.view.timeline.writers import timeline_html

from .build import doc_of, queue_of

NOTES = ("the first note", "the second <note>", "the third note")


def doc(*notes: str) -> TimelineDoc:
    return replace(doc_of(queue_of()), trust=notes)


def last_line(document: TimelineDoc) -> str:
    return timeline_text(document).splitlines()[-1].replace("\u00a0", " ")


def test_one_note_stands_alone_in_every_form() -> None:
    document = doc(NOTES[0])
    assert last_line(document) == NOTES[0]
    assert NOTES[0] in timeline_html(document)
    assert f">{NOTES[0]}</div>" in timeline_html(document)
    assert NOTES[0] in [text.text for text in ET.fromstring(timeline_svg(document)).iter() if text.text]


def test_of_several_the_text_has_the_first_and_says_where_the_others_are() -> None:
    assert last_line(doc(*NOTES)) == "the first note · 2 more notes in .trust"


def test_a_long_note_is_cut_to_the_width_of_a_terminal_and_steers_none() -> None:
    line = last_line(doc("long " * 60 + "\x1b[31m", "another"))
    assert columns(line) <= 100
    assert line.endswith(" · 1 more note in .trust")
    assert "\x1b" not in last_line(doc("\x1b[31m red"))


def test_the_html_opens_the_others_without_a_script() -> None:
    html = timeline_html(doc(*NOTES)).replace("\u00a0", " ")
    (summary, rest) = re.findall(r"<details[^>]*><summary>(.*?)</summary>(.*?)</details>", html)[-1]
    assert summary == "the first note · 2 more notes"
    assert "the second &lt;note&gt;<br>the third note" in rest
    tags = set(re.findall(r"<([a-z0-9]+)", html))
    assert tags <= {"div", "b", "br", "table", "tr", "td", "img", "details", "summary"}  # kept by notebooks' sanitisers


def test_a_picture_that_stands_alone_has_one_line() -> None:
    texts = [element.text or "" for element in ET.fromstring(timeline_svg(doc(*NOTES))).iter()]
    assert [text.replace("\u00a0", " ") for text in texts if "note" in text] == [
        "the first note · 2 more notes in .trust and in the report"
    ]


def test_a_report_in_a_terminal_has_a_line_for_each_note() -> None:
    document = doc(*NOTES)
    assert report_text(document, TimelineResult(queue_of()).to_dict()).splitlines()[-3:] == [*NOTES]
