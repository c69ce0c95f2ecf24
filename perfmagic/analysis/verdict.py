"""What a verdict is: who decides how long a cell takes. perfmagic.analysis.findings.verdict decides it, docs/verdict.md
defines it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from perfmagic.base.language import phrase
from perfmagic.trace.json_form import Amount, Line, Ns

DEVICE_BOUND_FRAC = 0.9  # a device so busy decides, whatever Python does: at most a ninth could be won elsewhere

DEVICE_BOUND = "device-bound"
HOST_BOUND = "host-bound"
LATENCY_BOUND = "latency-bound"
STALLED = "stalled"
START_UP = "start-up"
COPY_BOUND = "copy-bound"
COMMUNICATION_BOUND = "communication-bound"
HOST_TAIL = "host tail"
MIXED = "mixed"
OPEN = "open"
NO_RECORDS = "no device records"
NO_VERDICT = "no verdict"

KINDS = (
    DEVICE_BOUND,
    COPY_BOUND,
    COMMUNICATION_BOUND,
    HOST_BOUND,
    START_UP,
    HOST_TAIL,
    LATENCY_BOUND,
    STALLED,
    MIXED,
    OPEN,
    NO_RECORDS,
    NO_VERDICT,
)
NOT_BUSY_KINDS = (
    HOST_BOUND,
    START_UP,
    HOST_TAIL,
    LATENCY_BOUND,
    STALLED,
    MIXED,
)  # more work in the queue might fill the device


@dataclass(frozen=True)
class Verdict:
    """Who decides how long a cell takes.

    kind: one of the kinds of docs/verdict.md.
    busy_frac: the share of the cell in which the busiest device was busy.
    detail: the numbers behind it, in words.
    lines: lines of the cell, counted as the editor does.
    cost_ns: time that could be won; None where not known.

    Source: docs/verdict.md.
    """

    kind: Annotated[str, msgspec.Meta(pattern=f"^(?:{'|'.join(KINDS)})$")]
    busy_frac: Amount
    detail: str
    lines: tuple[Line, ...] = ()
    cost_ns: Ns | None = None

    @property
    def sentence(self) -> str:
        kind = phrase(self.kind)
        return phrase("{kind}: {detail}", kind=kind, detail=self.detail) if self.detail else kind
