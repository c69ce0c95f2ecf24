"""Whether the autograd graphs of results give the same gradients: a detached one breaks a training step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perfmagic.base.imported import torch_if_imported
from perfmagic.capture.same_work.contents import is_tensor, looked_at
from perfmagic.capture.same_work.drawn import mapped

OTHERWISE = 0.05  # of a gradient's size


def gradients(out: object, of: Iterable[Any]) -> dict[int, Any]:
    """By id(), the gradient of a result for each tensor that requires one; None if the graph has none.

    Empty if the result has no graph, or a freed one.
    """
    torch, results = torch_if_imported(), list[Any]()
    asking = [each for each in of if is_tensor(each) and each.is_leaf and each.requires_grad]

    def note(value: Any) -> Any:
        if is_tensor(value) and value.grad_fn is not None:
            results.append(value)
        return value

    note(out) if is_tensor(out) else mapped(out, note)
    if not results or not asking:
        return {}
    weights = [torch.linspace(0.5, 1.5, r.numel(), device=r.device).to(r.dtype).reshape(r.shape) for r in results]  # type: ignore[union-attr]
    found = looked_at(lambda: torch.autograd.grad(results, asking, weights, allow_unused=True), ())  # type: ignore[union-attr]
    return dict(zip(map(id, asking), found, strict=False))


def differ(first: Mapping[int, Any], other: Mapping[int, Any]) -> set[int]:
    """The tensors in both whose gradients differ by far, or exist in the first only."""
    return {key for key in first.keys() & other.keys() if looked_at(lambda k=key: _differs(first[k], other[k]), False)}  # type: ignore[misc]


def _differs(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is not None and bool(a.abs().max() > 0)
    a, b = (each.detach().double() for each in (a, b))
    return bool((a - b).norm() > OTHERWISE * a.norm())
