"""The times of a file's events as exact int64 nanoseconds; impossible times are repaired."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from perfmagic.trace.columns import Bool, Float64, Int64
from perfmagic.trace.kineto.decode import EXACT_BELOW_US
from perfmagic.trace.remarks import Remark
from perfmagic.units import plural

DAY_NS = 86_400 * 10**9  # no step and no trace is longer: what lies further off is damage
_FEW = 1000
# below it, a double times 1000 is off by less than a quarter: two roundings of 2^-53 of 2^50 ns
_EXACT_PRODUCT_US = 2.0**50 / 1000
_LIMIT_US = 9e15  # int64 nanoseconds end at 9.2e15 µs
LIMIT_NS = 9 * 10**18


@dataclass
class Times:
    """When some records began and how long they took, in the file's own clock; repaired in place.

    has_start, has_dur: the file says so.  spans: records that take time.  usable: it has a place in time.
    repaired: its duration is not the file's.
    """

    start_ns: Int64
    dur_ns: Int64
    has_start: Bool
    has_dur: Bool
    spans: Bool
    usable: Bool
    repaired: Bool

    @property
    def end_ns(self) -> Int64:
        return self.start_ns + self.dur_ns


@dataclass(frozen=True)
class PairEnd:
    """A begin event (B) or an end event (E).

    place: its process and thread.  row: of the times, of a beginning that some table took.
    """

    start_ns: int
    place: tuple[Any, Any]
    begins: bool
    row: int = -1


def repair_times(times: Times, pairs: Sequence[PairEnd], repairs: list[Remark]) -> None:
    """Leave out records without a time, end begun events, cut impossible durations; adds to repairs what was repaired.

    pairs: begin and end events in the order of the file.
    """
    times.usable &= times.has_start & _near_the_others(times.start_ns, times.has_start)
    lost = int((~times.usable).sum())
    if lost:
        words = f"{plural(lost, 'record')} without a time, or a day away from all others, left out"
        repairs.append(Remark("no_time", words, {"n_records": lost}))
    _close_pairs(pairs, times, repairs)
    _repair_durations(times, repairs)


def to_ns(values_us: Sequence[float | Decimal] | Float64) -> tuple[Int64, Bool]:
    """Microseconds as whole nanoseconds, and which of them are numbers; what int64 cannot hold becomes LIMIT_NS.

    Doubles stay exact to the nanosecond below 2^43 µs; decimals are exact always.
    """
    approximate = np.array(values_us, np.float64)
    valid = ~np.isnan(approximate)
    if not valid.all():
        approximate[~valid] = 0.0
    if np.abs(approximate).max(initial=0.0) < _EXACT_PRODUCT_US:
        product: Int64 = np.rint(approximate * 1000).astype(np.int64)
        return product, valid
    approximate = np.clip(approximate, -_LIMIT_US, _LIMIT_US)
    # whole and fraction scaled apart
    whole = np.floor(approximate)
    ns: Int64 = whole.astype(np.int64) * 1000
    if (whole != approximate).any():
        ns += np.rint((approximate - whole) * 1000).astype(np.int64)
    if isinstance(values_us, np.ndarray):
        return ns, valid
    large = (np.abs(approximate) >= EXACT_BELOW_US) & (np.abs(approximate) < _LIMIT_US)
    for row in np.flatnonzero(large).tolist():
        value = values_us[row]
        if isinstance(value, Decimal):
            ns[row] = int((value * 1000).to_integral_value())
    return ns, valid


def digits_matter(values_us: Float64) -> bool:
    """Whether doubles may have lost nanoseconds: large ones with a fraction. Of few, none may have one by chance."""
    large = values_us[np.abs(values_us) >= EXACT_BELOW_US]  # not true of NaN
    return bool(len(large) and (len(large) < _FEW or (large != np.floor(large)).any()))


def _near_the_others(start_ns: Int64, judged: Bool) -> Bool:
    if not judged.any():
        return judged
    time_ns = start_ns.astype(np.float64)  # int64 could overflow in the difference
    near: Bool = np.abs(time_ns - np.median(time_ns[judged])) < DAY_NS
    return near


def _close_pairs(pairs: Sequence[PairEnd], times: Times, repairs: list[Remark]) -> None:
    """Give each begin event its duration. End events have no name: the last begun event ends first."""
    open_events: dict[tuple[Any, Any], list[PairEnd]] = defaultdict(list)
    unmatched = 0
    for event in sorted(pairs, key=lambda event: event.start_ns):
        begun = open_events[event.place]
        if event.begins:
            begun.append(event)
        elif begun:
            first = begun.pop()
            if first.row >= 0:
                times.dur_ns[first.row], times.has_dur[first.row] = event.start_ns - first.start_ns, True
        else:
            unmatched += 1
    rows = [event.row for begun in open_events.values() for event in begun if event.row >= 0]
    left_open = [row for row in rows if times.usable[row]]
    if left_open:
        last_ns = int(times.start_ns[times.usable].max())
        times.dur_ns[left_open], times.has_dur[left_open] = last_ns - times.start_ns[left_open], True
        times.repaired[left_open] = True
        words = f"{plural(len(left_open), 'begun event')} without an end, ended with the last record"
        repairs.append(Remark("no_end", words, {"n_events": len(left_open)}))
    if unmatched:
        words = f"{plural(unmatched, 'end event')} without a beginning, left out"
        repairs.append(Remark("no_beginning", words, {"n_events": unmatched}))


def _repair_durations(times: Times, repairs: list[Remark]) -> None:
    spans, start_ns, dur_ns = times.usable & times.spans, times.start_ns, times.dur_ns
    without, negative, endless = spans & ~times.has_dur, spans & (dur_ns < 0), spans & (dur_ns > DAY_NS)
    times.repaired |= without | negative | endless
    _set_zero(without, dur_ns, "no_duration", "without a duration", repairs)
    _set_zero(negative & ~without, dur_ns, "negative_duration", "with a negative duration", repairs)
    endless &= ~without
    dur_ns[~spans] = 0
    if endless.any():
        sane = spans & ~endless
        last_ns = int(max((start_ns + dur_ns)[sane].max(initial=start_ns[endless].max()), start_ns[endless].max()))
        dur_ns[endless] = last_ns - start_ns[endless]
        n = int(endless.sum())
        words = f"{plural(n, 'duration')} of more than a day, cut at the end of the records"
        repairs.append(Remark("endless_duration", words, {"n_records": n}))


def _set_zero(rows: Bool, dur_ns: Int64, kind: str, what: str, repairs: list[Remark]) -> None:
    found = int(rows.sum())
    dur_ns[rows] = 0
    if found:
        repairs.append(Remark(kind, f"{plural(found, 'record')} {what}, set to 0", {"n_records": found}))
