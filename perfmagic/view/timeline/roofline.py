"""The faces of a roofline: text, and HTML with its picture."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic import units
from perfmagic.analysis.timeline.device_operators import DeviceOperator
from perfmagic.analysis.timeline.roofline import RooflineData
from perfmagic.trace.short_names import short_names
from perfmagic.view.html import framed, image, paragraphs, short
from perfmagic.view.text import table, wrapped
from perfmagic.view.timeline.picture.roofline import roofline_svg, roofline_words

ROWS = 10
HEAD = ("", "time", "achieved", "of its roof", "of the peak", "FLOP/byte")


def roofline_text(data: RooflineData) -> str:
    """The words and the longest operators, as wide as the terminal."""
    rows = [_row(row) for row in data.operators[:ROWS]]
    below = wrapped(f"peaks: {data.source}") if data.source else []
    lines = [*wrapped(f"{data.label}: {roofline_words(data)}"), "", *table(HEAD, rows, shorten=_shortened), *below]
    return "\n".join(line.rstrip() for line in lines)


def roofline_html(data: RooflineData) -> str:
    """The picture as an image, and where its roofs are from; survives sanitisers."""
    words = roofline_words(data)
    head = f'<div style="margin:4px 0"><b>Roofline</b> · {short(words)}</div>'
    return framed(
        head + image(roofline_svg(data), f"Roofline: {words}") + paragraphs([data.source] if data.source else [])
    )


def _shortened(names: Sequence[str], room: int) -> list[str]:
    short = short_names(names, room, kernels=False)
    return [short[name] for name in names]


def _row(row: DeviceOperator) -> tuple[str, ...]:
    name = " ".join(filter(None, (row.name, row.shapes, row.dtypes)))
    return (
        name,
        units.duration(row.total_ns),
        units.rate(row.flop_per_s or 0.0, "FLOP/s"),
        "" if row.roof_frac is None else units.percent(row.roof_frac),
        "" if row.peak_frac is None else units.percent(row.peak_frac),
        units.significant(row.flop_per_byte or 0.0),
    )
