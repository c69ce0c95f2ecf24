"""Which tensors of the device have values. On a virtual clock an op need not be computed for its time to be known.

A tensor without a value has a shape, a type and counted memory, and no host memory. What it was computed from may have
values: rule.py says what is computed. reads.py refuses what needs a value that is not there.
"""

from __future__ import annotations

from perfmagic.base.errors import DeviceError, OptionError

REAL, SMALL, NONE = "real", "small", "none"


class Values:
    """What the simulated devices of this process compute, and what Python reads where they did not.

    kept: "real": all; "small": ops that take a CPU little time; "none": nothing.
    item: what every read of one missing value gives; None: it is refused.
    active: whether a tensor may be without a value, so that launches have to ask.
    """

    def __init__(self) -> None:
        self.kept, self.active = REAL, False
        self.item: float | None = None

    def choose(self, kept: str | None, item: float | None) -> None:
        """Take over what is given; other values end what item= gave before."""
        if kept is not None:
            self.kept, self.item = kept, None
            self.active = self.active or kept != REAL
        if item is not None:
            self.item = item


VALUES = Values()


def check_values(kept: str | None, item: object, *, virtual: bool) -> None:
    """Raise OptionError for what cannot be meant, DeviceError for values left out on the real clock."""
    if kept not in (None, REAL, SMALL, NONE):
        raise OptionError(f"values={kept!r} is not known", hint='"real", "small" or "none"')
    if item is not None and (isinstance(item, bool) or not isinstance(item, (int, float))):
        raise OptionError(f"item={item!r} is not a number", hint="for example item=0.5")
    if not virtual and (kept in (SMALL, NONE) or item is not None):
        given = f"item={item}" if item is not None else f'values="{kept}"'
        message = f"{given}: on the real clock every op is computed, as its time is measured"
        raise DeviceError(message, hint=f'perfmagic.device(clock="virtual", {given})')
