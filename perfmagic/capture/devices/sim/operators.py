"""What is known of an operator from its schema: looked up once, used at every launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from perfmagic.capture.devices import torch_private
from perfmagic.capture.devices.sim.substitutes import substitute_for

aten = torch.ops.aten
# CUDA, too, takes indices that are on the host
_HOST_INDICES = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}
# torch brings the factor to each device itself, where it thinks that a tensor is: clip_grad_norm_ on two devices
_BRING_FACTOR = {aten.mul_.Tensor, aten._foreach_mul_.Tensor}

# these write arguments their schema does not declare (running statistics)
_UNDECLARED_WRITES = {"aten::native_batch_norm": (3, 4)}

# these take no generator in torch; what runs instead of them takes one by name
_GENERATOR_BY_NAME = dict.fromkeys(
    ("aten::native_dropout", "aten::rand_like", "aten::randn_like", "aten::randint_like"), (1 << 30, "generator")
)

# besides elementwise ops: what fills, what makes a range, and the lists of optimisers
_HOST_SCALARS = (
    "aten::fill", "aten::masked_fill", "aten::index_fill", "aten::linspace", "aten::logspace", "aten::normal",
    "aten::_foreach_", "aten::_fused_",
)  # fmt: skip

Place = tuple[int, str]  # of an argument: position and name


@dataclass(frozen=True, eq=False)  # there is one for each: hashed and compared as an object, which costs nothing
class Operator:
    """One operator.

    name: as in the host lane ("aten::add_").  kernel: as on the device ("add").  writes: arguments changed in place.
    returned: those of them it returns; None for an op that returns something new.  seeded: draws random numbers.
    generator: where its generator goes, None if it takes none.  composite: torch knows of which others it consists.
    takes_host_scalars: a tensor without dimensions may be on the host, as with CUDA.
    takes_host_indices: indices may be on the host.  brings_factor: its factor may be on another device.
    names_device: a device is one of its positional arguments.  fills_out: what it writes are out= tensors.
    runs: what a stream's thread calls on real memory, nearly always func.
    """

    func: Any
    name: str
    namespace: str
    kernel: str
    writes: tuple[Place, ...]
    returned: tuple[Place, ...] | None
    returns_one: bool
    is_view: bool
    reshapes: bool
    seeded: bool
    generator: Place | None
    composite: bool
    takes_host_scalars: bool
    takes_host_indices: bool
    brings_factor: bool
    names_device: bool
    fills_out: bool
    runs: Callable[..., Any]


_operators: dict[int, Operator] = {}  # by id, as the hash of an OpOverload is a call into Python; kept alive by `func`


def operator_of(func: Any) -> Operator:
    """What is known of an operator."""
    known = _operators.get(id(func))
    if known is None:
        known = _operators[id(func)] = _read(func)
    return known


def _read(func: Any) -> Operator:
    schema = torch_private.schema_of(func)
    places = [(i, a.name) for i, a in enumerate(schema.arguments)]
    writes = [p for p, a in zip(places, schema.arguments, strict=True) if a.alias_info and a.alias_info.is_write]
    undeclared = [places[i] for i in _UNDECLARED_WRITES.get(schema.name, ())]
    reshapes = torch.Tag.inplace_view in func.tags
    outs = [a for a in schema.arguments if a.kwarg_only and a.alias_info and a.alias_info.is_write]
    aliases = any(r.alias_info is not None for r in schema.returns)
    return Operator(
        func=func,
        name=schema.name,
        namespace=schema.name.split("::")[0],
        kernel=schema.name.split("::")[-1].rstrip("_"),
        writes=tuple(writes + undeclared),
        returned=_returned(schema, writes),
        returns_one=len(schema.returns) == 1,
        is_view=aliases and not writes,
        reshapes=reshapes,
        seeded=torch.Tag.nondeterministic_seeded in func.tags,
        generator=next((p for p in places if p[1] == "generator"), _GENERATOR_BY_NAME.get(schema.name)),
        composite=torch_private.is_composite(func),
        takes_host_scalars=torch.Tag.pointwise in func.tags or schema.name.startswith(_HOST_SCALARS),
        takes_host_indices=func in _HOST_INDICES,
        brings_factor=func in _BRING_FACTOR,
        names_device=any(not a.kwarg_only and str(a.type) == "Device" for a in schema.arguments),
        fills_out=bool(outs),
        runs=substitute_for(func),
    )


def _returned(schema: Any, writes: list[Place]) -> tuple[Place, ...] | None:
    if not writes or any(r.alias_info is None for r in schema.returns):
        return None
    by_alias = {frozenset(schema.arguments[i].alias_info.before_set): (i, name) for i, name in writes}
    return tuple(by_alias[frozenset(r.alias_info.before_set)] for r in schema.returns)


def argument(place: Place, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The argument at a place, given by position or by name; None if it was left out."""
    position, name = place
    return args[position] if position < len(args) else kwargs.get(name)
