"""What kind of work each device op is, in few words, for the parts of a comparison."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.timeline.categories import CATEGORY_WORDS, Category, categories
from perfmagic.numerics.grouped import coded
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes

_OF_COPIES = {
    OpClass.HTOD: "copies host to device",
    OpClass.DTOH: "copies device to host",
    OpClass.DTOD: "copies on the device",
    OpClass.PTOP: "copies between devices",
}


def op_categories(trace: Trace, comm_names: str | None = None) -> tuple[tuple[str, ...], Int64]:
    """The categories that occur, and for each device op its place among them; shape of trace.ops.

    They are those of perfmagic.analysis.timeline.categories; copies are told apart by direction.
    """
    kinds = categories(trace, comm_names).astype(np.int64)
    keys, inverse = coded(kinds * len(OpClass) + op_classes(trace, comm_names))
    words = [_words(Category(key // len(OpClass)), OpClass(key % len(OpClass))) for key in keys.tolist()]
    known = tuple(dict.fromkeys(words))
    places = np.array([known.index(word) for word in words], np.int64)
    return known, places[inverse] if words else inverse


def _words(category: Category, op_class: OpClass) -> str:
    return _OF_COPIES.get(op_class, CATEGORY_WORDS[category])
