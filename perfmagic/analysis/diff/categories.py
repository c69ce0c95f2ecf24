"""What kind of work each device op is, in few words, for the parts of a comparison."""

from __future__ import annotations

import re

import numpy as np

from perfmagic.numerics.grouped import coded
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes, short_name

_WORDS = {
    OpClass.COMMUNICATION: "communication",
    OpClass.HTOD: "copies host to device",
    OpClass.DTOH: "copies device to host",
    OpClass.DTOD: "copies on the device",
    OpClass.PTOP: "copies between devices",
    OpClass.MEMSET: "memsets",
}
_OF_KERNELS = (
    ("attention", re.compile(r"fmha|flash|attention|attn|mha_", re.IGNORECASE)),
    ("convolutions", re.compile(r"conv(?!ert|ersion)|winograd|[dw]grad|fprop|scudnn|hcudnn", re.IGNORECASE)),
)


def op_categories(trace: Trace, comm_names: str | None = None) -> tuple[tuple[str, ...], Int64]:
    """The categories that occur, and for each device op its place among them; shape of trace.ops."""
    classes = op_classes(trace, comm_names)
    keys, inverse = coded(trace.ops.name.astype(np.int64) * len(OpClass) + classes)
    words = [_category(trace.names[key // len(OpClass)], OpClass(key % len(OpClass))) for key in keys.tolist()]
    known = tuple(dict.fromkeys(words))
    places = np.array([known.index(word) for word in words], np.int64)
    return known, places[inverse] if words else inverse


def _category(name: str, op_class: OpClass) -> str:
    if op_class in _WORDS:
        return _WORDS[op_class]
    plain = short_name(name)
    for words, pattern in _OF_KERNELS:
        if pattern.search(plain):
            return words
    return "matrix products" if op_class == OpClass.MATRIX else "other kernels"
