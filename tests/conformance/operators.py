"""torch's own list of operators, with its samples, run on the CPU and on the simulated device and compared."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="devices are reached through torch")

from torch.utils._pytree import tree_flatten, tree_map  # noqa: E402 - after the skip

DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
DIFFERENTIABLE = (torch.float32, torch.complex64)
# out= tensors: of the right shape, of the right shape in memory with gaps, and without elements
OUTS: dict[str, Callable[[Any, str], Any]] = {
    "out": lambda t, device: torch.zeros(t.shape, dtype=t.dtype, device=device),
    "out with gaps": lambda t, device: torch.zeros((*t.shape, 2), dtype=t.dtype, device=device)[..., 0],
    "empty out": lambda t, device: torch.zeros(0, dtype=t.dtype, device=device),
}

Sample = tuple[Any, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """What one call gave: values (all on the host), or the error it raised."""

    values: Any = None
    error: BaseException | None = None


def operators() -> list[Any]:
    """Every operator torch lists, in its order."""
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def name_of(op: Any) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def samples_of(op: Any, dtype: Any, count: int) -> list[Sample]:
    """The first samples torch gives, on the CPU, with gradients wanted where there can be some."""
    grad = op.supports_autograd and dtype in DIFFERENTIABLE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(islice(op.sample_inputs("cpu", dtype, requires_grad=grad), count))
    return [(s.input, s.args, s.kwargs) for s in found]


def variants_of(op: Any, dtype: Any, sample: Sample) -> Iterator[tuple[str, Callable[[str], Any]]]:
    """Ways to call an operator on a sample, by name; each is given a device."""
    yield "", lambda device: _called(op.op, sample, device, gradients=True)
    if op.inplace_variant:
        yield "in place", lambda device: _called(op.inplace_variant, sample, device, gradients=False)
    if op.supports_out and dtype == torch.float32:
        wanted = outcome(lambda device: _tensors(_plain_call(op.op, sample, device)), "cpu").values
        for name, make in OUTS.items() if wanted else ():
            yield name, lambda device, make=make: _called_with_out(op.op, sample, device, wanted, make)


def outcome(call: Callable[[str], Any], device: str) -> Outcome:
    """What a call gives on a device; what it queued there is done, and what it left failed is forgotten."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = call(device)
            _synchronize(device)
    except Exception as error:  # noqa: BLE001 - any error is an outcome
        with suppress(Exception):
            _synchronize(device)
        return Outcome(error=error)
    return Outcome(values)


def _synchronize(device: str) -> None:
    if device != "cpu":
        torch.get_device_module(device).synchronize()


def difference(here: Any, there: Any, *, values: bool) -> str:
    """How two trees of results differ, empty if they do not.  values: False to compare shapes and types only."""
    ours, theirs = tree_flatten(here)[0], tree_flatten(there)[0]
    if len(ours) != len(theirs):
        return f"{len(ours)} results here, {len(theirs)} there"
    return next(filter(None, (_leaf_difference(a, b, values) for a, b in zip(ours, theirs, strict=True))), "")


def _leaf_difference(a: Any, b: Any, values: bool) -> str:
    if not isinstance(a, torch.Tensor):
        same = a == b or str(a) == str(b) or isinstance(b, torch.device)
        return "" if same or not values else f"{a!r} here, {b!r} there"
    if not isinstance(b, torch.Tensor):
        return f"a tensor here, {type(b).__name__} there"
    if (a.shape, a.dtype, a.layout) != (b.shape, b.dtype, b.layout):
        return f"{tuple(a.shape)} {a.dtype} {a.layout} here, {tuple(b.shape)} {b.dtype} {b.layout} there"
    if not values:
        return ""
    try:
        torch.testing.assert_close(b, a, equal_nan=True)
    except AssertionError as error:
        return str(error).replace("\n", " ")
    return ""


def _called(f: Callable[..., Any], sample: Sample, device: str, *, gradients: bool) -> Any:
    """The results, the arguments as they are afterwards, and the gradients."""
    arguments, keywords = _on(sample, device)
    with torch.set_grad_enabled(gradients):
        result = f(*arguments, **keywords)
    _check_place(result, device)
    found = []
    leaves = [t for t in _tensors((arguments, keywords)) if t.requires_grad]
    ends = [t for t in _tensors(result) if t.requires_grad]
    if gradients and leaves and ends:
        found = torch.autograd.grad(ends, leaves, [torch.ones_like(t) for t in ends], allow_unused=True)
    return tree_map(_to_host, (result, arguments, keywords, list(found)))


def _plain_call(f: Callable[..., Any], sample: Sample, device: str, **options: Any) -> Any:
    arguments, keywords = _on(sample, device)
    with torch.no_grad():
        return f(*arguments, **keywords, **options)


def _called_with_out(
    f: Callable[..., Any], sample: Sample, device: str, wanted: list[Any], make: Callable[[Any, str], Any]
) -> Any:
    made = tuple(make(t, device) for t in wanted)
    out = made[0] if len(made) == 1 else made
    return tree_map(_to_host, (_plain_call(f, sample, device, out=out), out))


def _check_place(result: Any, device: str) -> None:
    """A result on the host, of a call on the device, is none of the device's."""
    astray = {t.device.type for t in _tensors(result)} - {device}
    assert not astray, f"a result is on {astray}"


def _on(sample: Sample, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Fresh arguments on a device: leaves of their own, so that no call sees what another did to them."""

    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            copied = value.detach().clone(memory_format=torch.preserve_format).to(device)
            return copied.requires_grad_(value.requires_grad)
        named = isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu")
        return torch.device(device) if named else value

    first, rest, keywords = tree_map(moved, sample)
    return (first, *rest), keywords


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _to_host(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value
