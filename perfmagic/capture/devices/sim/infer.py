"""What an operator will return, known from shapes alone: torch's meta kernels, remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfmagic.capture.devices.sim.refusals import check_plain
from perfmagic.capture.devices.sim.tensor import Ref, Spec, spec_of, view_of

_CACHE_ENTRIES = 8192  # a training step has some hundred; shapes that never repeat must not pile up
_cache: dict[Any, Any] = {}


class UnknownResultError(Exception):
    """The result cannot be known without the values, or torch has no meta kernel; `why` is what torch said."""


class Leaf:
    """The spec of one result, in a tree of results; needs_bytes: of memory, from its start to the last element."""

    __slots__ = ("needs_bytes", "spec")

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        last = spec.offset + sum((n - 1) * step for n, step in zip(spec.size, spec.stride, strict=True))
        self.needs_bytes = 0 if 0 in spec.size else (last + 1) * spec.dtype.itemsize


def infer_or_raise(func: Any, args: Any, kwargs: dict[str, Any], key: tuple[Any, ...] | None) -> Any:
    """As infer, for ops whose result never depends on values: what torch says is the user's error."""
    __tracebackhide__ = True
    try:
        return infer(func, args, kwargs, key)
    except UnknownResultError as unknown:
        error = unknown.__cause__ or unknown
    raise error.with_traceback(None)


def infer(func: Any, args: Any, kwargs: dict[str, Any], key: tuple[Any, ...] | None) -> Any:
    """What func would return, as Leafs, in the same tuples and lists.

    args, kwargs: with Refs for tensors on the device.  key: what the result depends on, None if that is not known.
    Raises UnknownResultError where the shape depends on values, and for shapes that do not fit (the real op says why).
    """
    if key is not None:
        known = _cache.get(key)
        if known is not None:
            return known[0]
    try:
        result = func(*_on_meta(args), **_on_meta(_named_meta(kwargs)))
    except (NotImplementedError, RuntimeError, IndexError) as error:
        raise UnknownResultError from error
    specs = map_tree(result, torch.Tensor, lambda t: _leaf(t, func))
    if key is not None:
        if len(_cache) >= _CACHE_ENTRIES:
            _cache.clear()
        _cache[key] = (specs,)
    return specs


def _leaf(t: torch.Tensor, func: Any) -> Leaf:
    check_plain(t, func.name())
    return Leaf(spec_of(t))


def map_tree(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """value with everything of a kind changed, through tuples, lists and dicts."""
    __tracebackhide__ = True
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        return tuple(map_tree(v, kind, change) for v in value)
    if isinstance(value, list):
        return [map_tree(v, kind, change) for v in value]
    if isinstance(value, dict):
        return {k: map_tree(v, kind, change) for k, v in value.items()}
    return value


def meta_of(ref: Ref) -> torch.Tensor:
    """A tensor without memory that looks like a tensor on the device."""
    storage = torch.UntypedStorage(ref.spec.storage_bytes, device="meta")  # type: ignore[no-untyped-call]
    return view_of(storage, ref.spec, device="meta")


def _on_meta(value: Any) -> Any:
    return map_tree(map_tree(value, Ref, meta_of), torch.Tensor, lambda t: t.to("meta"))


def _named_meta(kwargs: dict[str, Any]) -> dict[str, Any]:
    changed = {k: v for k, v in kwargs.items() if k not in ("generator", "pin_memory")}
    if changed.get("device") is not None:
        changed["device"] = torch.device("meta")
    return changed


def flat(value: Any) -> list[Any]:
    """What is in a tree of tuples and lists, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in flat(v)]
    return [value]
