"""Which forward a backward belongs to: both carry the number of one autograd node."""

from __future__ import annotations

import numpy as np

from perfmagic.trace.columns import NONE, Int64


def forward_rows(number: Int64, at_ns: Int64, wanted: Int64, before_ns: Int64) -> Int64:
    """For each wanted number the row of the latest forward with that number that began before; NONE without one.

    number, at_ns: of the forwards.  wanted, before_ns: of the backwards. Each thread counts for itself, so that a
    number may come twice: the latest is taken.
    """
    order = np.lexsort((at_ns, number))
    number, at_ns = number[order], at_ns[order]
    low = np.searchsorted(number, wanted, side="left")
    high = np.searchsorted(number, wanted, side="right")
    found = np.full(len(wanted), NONE, np.int64)
    for i in np.flatnonzero(high > low).tolist():
        at = int(low[i]) + int(np.searchsorted(at_ns[low[i] : high[i]], before_ns[i], side="left")) - 1
        if at >= low[i]:
            found[i] = order[at]
    return found
