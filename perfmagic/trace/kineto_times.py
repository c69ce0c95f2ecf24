"""The times of a file's events as exact int64 nanoseconds, and what cannot be true about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from perfmagic.trace.columns import Bool, Int64
from perfmagic.trace.kineto_decode import EXACT_BELOW_US, Decoded, Event
from perfmagic.units import plural

DAY_NS = 86_400 * 10**9  # no step and no trace is longer: what lies further off is damage
_LIMIT_US = 9e15  # int64 nanoseconds end at 9.2e15 µs


@dataclass
class Times:
    """start_ns, end_ns: of each event, in the file's own clock; 0 where not usable.  usable: it has a place in time."""

    start_ns: Int64
    end_ns: Int64
    usable: Bool


def event_times(decoded: Decoded, wanted: Bool, repairs: list[str]) -> Times:
    """When each event began and ended.

    wanted: the events that some table takes; only these are judged and spoken of in repairs.
    """
    start_ns, has_start = to_ns(decoded.ts_us)
    dur_ns, has_dur = to_ns(decoded.dur_us)
    usable = wanted & has_start & _near_the_others(start_ns, wanted & has_start)
    lost = int((wanted & ~usable).sum())
    if lost:
        repairs.append(f"{plural(lost, 'record')} without a time, or a day away from all others, left out")
    phases = np.array([event.ph[:1] for event in decoded.events])
    _close_pairs(decoded.events, phases, start_ns, dur_ns, has_dur, usable, repairs)
    _mend_durations(phases, start_ns, dur_ns, has_dur, usable, repairs)
    return Times(start_ns, start_ns + dur_ns, usable)


def to_ns(values_us: Sequence[float | Decimal]) -> tuple[Int64, Bool]:
    """Microseconds as whole nanoseconds, and which of them are numbers; what int64 cannot hold becomes its limit.

    Whole and fraction are scaled apart, so that a double stays exact to the nanosecond below 2^43 µs; decimals, which
    the decoder gives for larger times with a fraction, are exact always.
    """
    n = len(values_us)
    approximate = np.fromiter(map(float, values_us), np.float64, n)
    valid = ~np.isnan(approximate)
    approximate = np.clip(np.where(valid, approximate, 0.0), -_LIMIT_US, _LIMIT_US)
    whole = np.floor(approximate)
    ns: Int64 = whole.astype(np.int64) * 1000 + np.rint((approximate - whole) * 1000).astype(np.int64)
    for row in np.flatnonzero((np.abs(approximate) >= EXACT_BELOW_US) & (np.abs(approximate) < _LIMIT_US)).tolist():
        value = values_us[row]
        if isinstance(value, Decimal):
            ns[row] = int((value * 1000).to_integral_value())
    return ns, valid


def _near_the_others(start_ns: Int64, judged: Bool) -> Bool:
    if not judged.any():
        return judged
    time_ns = start_ns.astype(np.float64)  # int64 could overflow in the difference
    near: Bool = np.abs(time_ns - np.median(time_ns[judged])) < DAY_NS
    return near


def _close_pairs(
    events: list[Event], phases: Any, start_ns: Int64, dur_ns: Int64, has_dur: Bool, usable: Bool, repairs: list[str]
) -> None:
    """Give every begin event (B) the time to its end event (E); ends come without a name, the last begun ends first."""
    rows = np.flatnonzero((phases == "B") | (phases == "E"))
    open_rows: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    unmatched = 0
    for row in rows[np.argsort(start_ns[rows], kind="stable")].tolist():
        begun = open_rows[events[row].pid, events[row].tid]
        if phases[row] == "B":
            begun.append(row)
        elif begun:
            first = begun.pop()
            dur_ns[first], has_dur[first] = start_ns[row] - start_ns[first], True
        else:
            unmatched += 1
    left_open = [row for begun in open_rows.values() for row in begun if usable[row]]
    if left_open:
        last_ns = int(start_ns[usable].max())
        dur_ns[left_open], has_dur[left_open] = last_ns - start_ns[left_open], True
        repairs.append(f"{plural(len(left_open), 'begun event')} without an end, ended with the last record")
    if unmatched:
        repairs.append(f"{plural(unmatched, 'end event')} without a beginning, left out")


def _mend_durations(
    phases: Any, start_ns: Int64, dur_ns: Int64, has_dur: Bool, usable: Bool, repairs: list[str]
) -> None:
    spans = usable & ((phases == "X") | (phases == "B"))
    _set_zero(spans & ~has_dur, dur_ns, "without a duration", repairs)
    _set_zero(spans & (dur_ns < 0), dur_ns, "with a negative duration", repairs)
    endless = spans & (dur_ns > DAY_NS)
    dur_ns[~spans] = 0
    if endless.any():
        sane = spans & ~endless
        last_ns = int(max((start_ns + dur_ns)[sane].max(initial=start_ns[endless].max()), start_ns[endless].max()))
        dur_ns[endless] = last_ns - start_ns[endless]
        repairs.append(f"{plural(int(endless.sum()), 'duration')} of more than a day, cut at the end of the records")


def _set_zero(rows: Bool, dur_ns: Int64, what: str, repairs: list[str]) -> None:
    found = int(rows.sum())
    dur_ns[rows] = 0
    if found:
        repairs.append(f"{plural(found, 'record')} {what}, set to 0")
