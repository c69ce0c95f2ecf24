"""A simulated device's pace as a recording keeps it, "paced: matmul ≥ 3 ms, copies 12 GB/s", for other languages."""

from __future__ import annotations

import re

from perfmagic.base.language import chained, phrase

PACES = {
    "paced": "paced: {paces}",
    "pace reached in part": "pace reached in part: {paces}",
    "pace not reached": "pace not reached: {paces}",
}
OF_WHAT = {
    "other kernels": "other kernels {rate}",
    "kernels": "kernels {rate}",
    "copies": "copies {rate}",
    "link": "link {rate}",
    "pageable": "pageable {rate}",
}
_PART = re.compile(rf"({'|'.join(OF_WHAT)}) (.+)")


def translatable_pace(pace: str) -> str:
    """The same text with its words known; as it is where it has another form."""
    kind, _, rest = pace.partition(": ")
    if kind not in PACES:
        return pace
    in_turn = (chained("{a}, {b}", map(_part, paces.split(", "))) for paces in rest.split("; then "))
    words = phrase(PACES[kind], paces=chained("{a}; then {b}", in_turn))
    return words if words == pace else pace


def _part(part: str) -> str:
    match = _PART.fullmatch(part)
    if match is None:
        return part
    rates = (phrase("half") if rate == "half" else rate for rate in match[2].split(" and "))
    return phrase(OF_WHAT[match[1]], rate=chained("{a} and {b}", rates))
