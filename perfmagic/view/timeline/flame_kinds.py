"""The greys of a flame graph, and what each stands for: the same in the picture and in the live view."""

from __future__ import annotations

from perfmagic.analysis.timeline.flame.call_paths import ANNOTATION, LINE, OPERATOR, OTHER, OWN, THREAD

TONES = {THREAD: "rule", OWN: "host1", LINE: "host1", OTHER: "host3", OPERATOR: "host2", ANNOTATION: "host2"}
KEY = (
    (OWN, "your code and libraries"),
    (LINE, "lines"),
    (OTHER, "torch, Python and what is built in"),
    (OPERATOR, "operators"),
    (ANNOTATION, "annotations"),
)
