"""Numbers and lists as people read them: the only module that turns a quantity into text.

Three significant digits, one unit a value, a no-break space before the unit, thousands with commas
(source: the project's visual rules). Fractions stay fractions in objects and become percent only here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

NBSP = "\u00a0"

_TIME_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_BYTE_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))


_PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))


_rough = ContextVar("rough", default=False)


@contextmanager
def rough_times(*, wanted: bool = True) -> Iterator[None]:
    """Lengths of time inside are written with two digits, as those of a model.  wanted: if not, as they were."""
    before = _rough.set(wanted or _rough.get())
    try:
        yield
    finally:
        _rough.reset(before)


def are_rough() -> bool:
    """Whether this is inside rough_times()."""
    return _rough.get()


def duration(ns: float) -> str:
    """A length of time in its natural unit: 1_190_000 → "1.19 ms"; see rough_times."""
    return rough_duration(ns) if _rough.get() else _scaled(float(ns), _TIME_UNITS)


def rough_duration(ns: float) -> str:
    """A length of time that is known to two digits: 124_300_000 → "120 ms"."""
    return _scaled(float(f"{ns:.1e}"), _TIME_UNITS, 2)


def duration_s(seconds: float) -> str:
    """A length of time given in seconds: 0.0029 → "2.90 ms"."""
    return duration(seconds * 1e9)


def duration_like(ns: float, step_ns: float, *, unit_of_ns: float | None = None, unit: bool = True) -> str:
    """A length of time with just the decimals a step needs: (1_240_000, 100_000) → "1.2 ms", for axes and intervals.

    unit_of_ns: the time whose unit is used, ns itself by default.  unit: False for the bare number in that unit.
    """
    like = abs(ns if unit_of_ns is None else unit_of_ns)
    name, factor = next(((n, f) for n, f in _TIME_UNITS if like >= f * 0.9995), _TIME_UNITS[-1])
    decimals = 0
    while decimals < 9 and step_ns / factor * 10**decimals < 1 - 1e-9:
        decimals += 1
    number = f"{ns / factor:,.{decimals}f}"
    return f"{number}{NBSP}{name}" if unit else number


def size(count_bytes: float) -> str:
    """A number of bytes, in powers of ten: 92_928 → "92.9 kB"."""
    return _scaled(float(count_bytes), _BYTE_UNITS)


_BYTES_OF = {name.lower(): factor for name, factor in _BYTE_UNITS}
_BYTES_OF |= {f"{prefix}ib": 1024.0**power for power, prefix in enumerate("kmgt", 1)}


def rough_size(count_bytes: float) -> str:
    """A number of bytes that is known to two digits: 32_874_700_000 → "33 GB"."""
    return _scaled(float(f"{count_bytes:.1e}"), _BYTE_UNITS, 2)


def bytes_of(given: str | int) -> int | None:
    """A number of bytes as people write it: "1.2 GB", "512MiB" or a plain number; None for what cannot be read."""
    if isinstance(given, int) and not isinstance(given, bool):
        return given if given >= 0 else None
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)\s*", given) if isinstance(given, str) else None
    factor = _BYTES_OF.get(match[2].lower()) if match else None
    return None if match is None or factor is None else round(float(match[1]) * factor)


def bandwidth(count_bytes: float, ns: float) -> str:
    """Bytes moved per time: (12e9, 1e9) → "12.0 GB/s"."""
    return f"{size(count_bytes / ns * 1e9)}/s"


def rate(per_second: float, unit: str) -> str:
    """So many of a unit in a second, in powers of ten: (1.2e12, "FLOP/s") → "1.20 TFLOP/s"."""
    table = tuple((f"{prefix}{unit}", factor) for prefix, factor in _PREFIXES)
    if per_second < 1:
        return f"{significant(per_second)}{NBSP}{unit}"
    return _scaled(per_second, table)


def tokens_per_s(value: float) -> str:
    """Tokens in a second, with three significant digits and thousands: 7_702 → "7,700 tokens/s"."""
    rounded = float(f"{value:.3g}")
    return f"{count(rounded) if rounded >= 100 else significant(value)}{NBSP}tokens/s"


def count(n: float) -> str:
    """A whole number with thousands: 15632 → "15,632"."""
    return f"{round(n):,}"


def percent(fraction: float) -> str:
    """A share as whole percent that never hides a rest: 0.004 → "<1 %", 0.997 → ">99 %"."""
    if 0 < fraction < 0.01:
        number = "<1"
    elif 0.995 <= fraction < 1:
        number = ">99"
    else:
        number = f"{fraction * 100:.0f}"
    return f"{number}{NBSP}%"


def percent_known(fraction: float, digits: int = 2) -> str:
    """A share with the given number of significant digits: 0.014 → "1.4 %", 0.01 → "1 %"."""
    return f"{significant(fraction * 100, digits).removesuffix('.0')}{NBSP}%"


def within(fraction: float) -> str:
    """A band to both sides: 0.01 → "± 1 %"."""
    return f"±{NBSP}{percent_known(fraction, 1)}"


def known_within(ns: float, bound_ns: float) -> str:
    """A time and its uncertainty, where that is above 1 %: "1.20 ms ± 84.0 µs"."""
    return duration(ns) + (f" ±{NBSP}{duration(bound_ns)}" if bound_ns > abs(ns) / 100 else "")


def given_s(seconds: float) -> str:
    """A time as it was given, without added digits: 2.0 → "2 s"."""
    return f"{seconds:g}{NBSP}s"


def signed(ns: float) -> str:
    """A difference of two times, with its sign: -21_000_000 → "−21.0 ms", 2_000_000 → "+2.00 ms"."""
    return f"{_sign(ns)}{duration(abs(ns))}"


def signed_percent(fraction: float) -> str:
    """A difference as a share, with its sign and two digits: -0.168 → "−17 %", 0.0042 → "+0.42 %"."""
    return f"{_sign(fraction)}{significant(abs(fraction) * 100, 2)}{NBSP}%"


def _sign(value: float) -> str:
    return "−" if value < 0 else "+" if value > 0 else ""


def plural(n: int, one: str, many: str | None = None) -> str:
    """A counted noun: (1, "launch", "launches") → "1 launch", 3 → "3 launches"."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def every(n: int, one: str) -> str:
    """All of them: "the rank", "both ranks", "all 4 ranks"."""
    return f"the {one}" if n == 1 else f"both {one}s" if n == 2 else f"all {count(n)} {one}s"


def significant(value: float, digits: int = 3) -> str:
    """A plain number with the given number of significant digits and no exponent: 96.04 → "96.0"."""
    if value == 0:
        return "0"
    decimals = digits - 1
    magnitude = abs(float(f"{value:.{digits - 1}e}"))  # rounded first: 9.996 has the decimals of 10.0
    while magnitude >= 10 and decimals > 0:
        magnitude /= 10
        decimals -= 1
    while magnitude < 1 and decimals < 12:
        magnitude *= 10
        decimals += 1
    return f"{value:.{decimals}f}"


def _scaled(value: float, table: tuple[tuple[str, float], ...], digits: int = 3) -> str:
    smallest = table[-1]
    for unit, factor in table:
        # 0.9995 and more rounds up to the next unit, so that 999.7 µs reads 1.00 ms and not 1000 µs
        if abs(value) >= factor * 0.9995 and unit != smallest[0]:
            return f"{significant(value / factor, digits)}{NBSP}{unit}"
    return f"{value:.0f}{NBSP}{smallest[0]}"
