"""Values in arguments that can be changed, and what one place of them is changed to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from perfmagic.capture.same_work.contents import is_tensor, looked_at
from perfmagic.capture.same_work.drawn import is_array, is_floating, size_of
from perfmagic.capture.same_work.values import numbers_in, sampled_every

STRETCH = 16  # part of an array that changes at once
BAD = (math.nan, math.inf, -1e30, 1e30)  # what an input check may reject; for integers, one beyond the range
LESS = 0.75  # times a number


def values_in(value: Any) -> Iterator[Any]:
    """Arrays, numbers, texts, and long lists of such."""
    if _is_value(value):
        yield value
    elif type(value) in (list, tuple, dict):
        for each in value.values() if type(value) is dict else value:
            yield from values_in(each)


def _is_value(value: Any) -> bool:
    return (
        is_array(value)
        or type(value) in (bool, int, float, str, bytes)
        or (
            type(value) is list and (numbers_in(value) is not None or (len(value) > 1 and {*map(type, value)} == {str}))
        )
    )


def changed(values: Sequence[Any], fixed: frozenset[int], k: int, how: Callable[[Any], Any]) -> list[Any] | None:
    """The arguments with their k-th value changed; None if it cannot be."""
    left, new = k, None

    def each(value: Any) -> Any:
        nonlocal left, new
        if not _is_value(value):
            if type(value) is dict:
                return {key: each(v) for key, v in value.items()}
            return type(value)(map(each, value)) if type(value) in (list, tuple) else value
        left -= 1
        if left != -1:
            return value
        new = looked_at(lambda: how(value), None)
        return new

    found = [v if i in fixed else each(v) for i, v in enumerate(values)]
    return None if new is None else found


def disturbed(value: Any, factor: float | None, at: float, *, stretch: bool, seed: int | None = None) -> Any:
    """A value that is changed in one place, or in a stretch; None if it cannot be.

    factor: a multiple of the value's size, inf or NaN; None for a value from elsewhere in it, so that its range stays.
    seed: of the elements of large results that are compared; the place is then one of those.
    """
    if is_array(value):
        return _array(value, factor, at, stretch=stretch, seed=seed)
    if factor is not None:
        return None
    if type(value) in (bool, int, float):
        return _number(value)
    if numbers_in(value) is not None:
        array = _array(np.asarray(value), None, at, stretch=stretch) if len({*map(type, value)}) == 1 else None
        return None if array is None else array.tolist()
    i = int(at * len(value))
    other = next((each for each in [*value[i:], *value[:i]] if each != value[i]), None) if value else None
    if other is None:
        return None
    if isinstance(value, list):
        return [*value[:i], other, *value[i + 1 :]]
    return value[:i] + (bytes([other]) if isinstance(other, int) else other) + value[i + 1 :]


def _number(value: Any) -> Any:
    if type(value) is bool:
        return not value
    if type(value) is int:
        return value - 1 if value > 2 else None
    return value * LESS if value else None


def _array(array: Any, factor: float | None, at: float, *, stretch: bool, seed: int | None = None) -> Any:
    n = size_of(array)
    if n == 0 or (is_tensor(array) and str(array.layout) != "torch.strided"):
        return None
    new = array.detach().clone().contiguous() if is_tensor(array) else np.array(array, order="C")
    flat, i = new.reshape(-1), int(at * n)
    if seed is not None:
        start, step = sampled_every(n, seed)
        i = start + max(0, i - start) // step * step
    wide = stretch and (factor is None or math.isfinite(factor))  # of several infinite values any may come first
    place = slice(i, min(n, i + (max(1, n // STRETCH) if wide else 1)))
    if not is_floating(array):
        return new if factor is None and _whole(flat, place, i) else None
    if factor is None:
        return new if n > 1 and _from_elsewhere(flat, place) else None
    if not np.isfinite(factor):
        flat[place] = factor
    elif stretch:
        flat[place] = flat[place] * factor
    else:
        some = _some(flat)
        size = float((some * some).mean()) ** 0.5 or 1.0
        flat[place] = factor * size * (-1 if float(flat[i]) < 0 else 1)
    return new


def _from_elsewhere(flat: Any, place: slice) -> bool:
    """Put the most distant of some values in one place; reverse a stretch."""
    there = flat[place]
    if len(there) > 1:
        flat[place] = there.flip(0) if is_tensor(there) else there[::-1].copy()
    else:
        some = _some(flat)
        flat[place] = some[int(abs(some - flat[place]).argmax())]
    return True


def _some(flat: Any) -> Any:
    return flat[:: sampled_every(len(flat), 0)[1]]


def _whole(flat: Any, place: slice, i: int) -> bool:
    """Invert booleans; among unsorted integers, replace one by another of them."""
    host = flat.cpu().numpy() if is_tensor(flat) else flat
    if host.dtype.kind == "b":
        flat[place] = ~flat[place]
        return True
    if host.dtype.kind not in "iu" or len(host) < 2 or bool((host[1:] >= host[:-1]).all()):
        return False
    others = np.flatnonzero(host != host[i])
    flat[place] = flat[int(others[(i + len(others) // 3) % len(others)])]  # not an adjacent one
    return True


def with_one(value: Any, bad: float) -> Any:
    """A number or an array with one such value in it; None if that is impossible."""
    if type(value) is float:
        return bad
    if not is_array(value) or size_of(value) == 0 or (is_tensor(value) and value.device.type != "cpu"):
        return None
    kind = str(value.dtype)
    new = value.detach().clone() if is_tensor(value) else value.copy()
    flat = new.reshape(-1)
    if is_floating(value):
        flat[len(flat) // 2] = bad
    elif math.isfinite(bad) and "int" in kind and not (bad < 0 and "uint" in kind):
        flat[len(flat) // 2] = -1 if bad < 0 else flat.max() + 1  # not more: that many may be allocated
    else:
        return None
    return new.reshape(value.shape)
