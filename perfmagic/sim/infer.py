"""What an operator will return: torch's meta kernels tell it from shapes alone, and a cache keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import torch

from perfmagic.base.clock import VIRTUAL
from perfmagic.base.kinds import KernelTime, OpKind
from perfmagic.base.work import Inputs, flop_of, is_counted
from perfmagic.sim import torch_private
from perfmagic.sim.device import NAME, device_of, sim_device
from perfmagic.sim.log import CallInputs
from perfmagic.sim.operators import Operator, argument, flat, map_tree, shapes_by
from perfmagic.sim.pace import Model, Pace
from perfmagic.sim.refusals import check_plain
from perfmagic.sim.tensor import Buffer, FarTensor, Ref, SimTensor, Spec, beside, spec_of, view_of

_CACHE_ENTRIES = 8192  # a training step has some hundred; shapes that never repeat must not accumulate
_cache: dict[Any, Known] = {}


class Known:
    """What is known of all calls with one key, each computed on first use.

    specs: what infer gives, in a tuple; empty before.  inputs: as a record has them.
    time: the model that was asked, whether it may use TF32, and what it says.
    """

    __slots__ = ("inputs", "specs", "time")

    def __init__(self) -> None:
        self.specs: tuple[Any, ...] = ()
        self.inputs: CallInputs | None = None
        self.time: tuple[Model, bool, KernelTime] | None = None


class UnknownResultError(Exception):
    """The result depends on values, or torch has no meta kernel. Its cause is torch's error."""


class Leaf:
    """The spec of one result, in a tree of results; needs_bytes: of memory, from its start to the last element."""

    __slots__ = ("needs_bytes", "spec")

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        last = spec.offset + sum((n - 1) * step for n, step in zip(spec.size, spec.stride, strict=True))
        self.needs_bytes = 0 if 0 in spec.size else (last + 1) * spec.dtype.itemsize


def infer_or_raise(taken: Arguments, *, kept: bool = True) -> Any:
    """As infer, for ops whose result never depends on values: torch's error is the user's."""
    __tracebackhide__ = True
    specs = (taken.found or taken.known()).specs if kept else ()
    try:
        return specs[0] if specs else infer(taken, kept=kept)
    except UnknownResultError as unknown:
        error = unknown.__cause__ or unknown
    raise error.with_traceback(None)


def infer(taken: Arguments, *, kept: bool = True) -> Any:
    """What a call would return, as Leafs, in the same tuples and lists.

    kept: whether what its key says decides that: then known() has it from now on.
    Raises UnknownResultError where the shape depends on values, and for shapes that do not fit (the real op says why).
    """
    func = taken.op.func
    try:
        result = shapes_by(func)(*_on_meta(taken.args), **_on_meta(_named_meta(taken.kwargs)))
    except (NotImplementedError, RuntimeError, IndexError) as error:
        raise UnknownResultError from error
    specs = map_tree(result, torch.Tensor, lambda t: _leaf(t, func))
    if kept:
        taken.known().specs = (specs,)
    return specs


def _leaf(t: torch.Tensor, func: Any) -> Leaf:
    check_plain(t, func.name())
    return Leaf(spec_of(t))


def meta_of(ref: Ref) -> torch.Tensor:
    """A meta tensor with the spec of a tensor on the device."""
    storage = torch.UntypedStorage(ref.spec.storage_bytes, device="meta")  # type: ignore[no-untyped-call]
    return view_of(storage, ref.spec, device="meta")


def _on_meta(value: Any) -> Any:
    return map_tree(map_tree(value, Ref, meta_of), torch.Tensor, lambda t: t.to("meta"))


def _named_meta(kwargs: dict[str, Any]) -> dict[str, Any]:
    changed = {k: None if k == "generator" else v for k, v in kwargs.items() if k != "pin_memory"}
    if changed.get("device") is not None:
        changed["device"] = torch.device("meta")
    return changed


# The arguments of a launch, and which simulated device it belongs to.


class Arguments:
    """The arguments of one call, taken apart in one pass.

    args, kwargs: as a job holds them, with Refs for tensors on the device.  refs: those.  host: other tensors.
    key: all that the result's shape depends on, and what a record writes of the call.  found: known(), once asked.
    """

    __slots__ = ("args", "found", "host", "key", "kwargs", "op", "refs")

    def __init__(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.op = op
        self.found: Known | None = None
        self.refs: list[Ref] = []
        self.host: list[torch.Tensor] = []
        self.key: list[Any] = [op]
        self.args: tuple[Any, ...] = tuple([self._convert(a) for a in args])
        self.kwargs = {name: self._named(name, value) for name, value in kwargs.items()} if kwargs else kwargs

    def known(self) -> Known:
        """What is known of calls with that key."""
        if self.found is None:
            key = tuple(self.key)
            self.found = _cache.get(key)
            if self.found is None:
                if len(_cache) >= _CACHE_ENTRIES:
                    _cache.clear()
                self.found = _cache[key] = Known()
        return self.found

    def inputs(self) -> CallInputs:
        """What a record writes of the call."""
        known = self.known()
        if known.inputs is None:
            known.inputs = inputs_of(self.op, self.args, self.kwargs)
        return known.inputs

    def _named(self, name: str, value: Any) -> Any:
        self.key.append(name)
        return self._convert(value)

    def _convert(self, value: Any) -> Any:
        kind = type(value)
        if kind is SimTensor or kind is FarTensor:
            ref: Ref = value._ref
            self.refs.append(ref)
            self.key.append(ref.spec)
            return ref
        if kind is list or kind is tuple:
            if value and type(value[0]) is int:  # and the rest: sizes and the like
                self.key.append(tuple(value))
                return value
            self.key.append((kind, len(value)))
            return kind([self._convert(v) for v in value])
        if isinstance(value, torch.Tensor):
            self.key.append((tuple(value.shape), value.stride(), value.dtype))
            self.host.append(value)
            runs_now = VIRTUAL and not value.requires_grad
            return value if runs_now else value.detach().clone()  # as it is now: on the real clock the op runs later
        # the value of a factor never decides a shape, and some change at every step (Adam's bias correction)
        is_factor = kind is float and self.refs and not self.op.has_values
        self.key.append(kind if is_factor or kind is torch.Generator else (kind, value))
        return value


def check_devices(op: Operator, taken: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError, as torch does, where tensors of two devices, or of host and device, would meet.

    A tensor without dimensions may be on the host where CUDA takes one, and so may indices; what an op writes may not.
    """
    __tracebackhide__ = True
    if len(taken.refs) < 2 and not taken.host:
        return
    places = {ref.buffer.device_index for ref in taken.refs}
    if len(places) > 1:
        places = _place(taken.refs)
    if len(places) > 1:
        _refuse_mix(op, *(f"sim:{place}" for place in sorted(places)[:2]))
    if not taken.host or not taken.refs:
        return
    elsewhere = [t for t in taken.host if t.dim() or not op.takes_host_scalars]
    if op.takes_host_indices:
        values = args[2] if len(args) > 2 else kwargs.get("values", args[0])
        elsewhere = [t for t in (args[0], values) if _is_host(t) and (t is args[0] or t.dim())]
    elsewhere += [t for place in op.writes for t in flat(argument(place, args, kwargs)) if _is_host(t)]
    if elsewhere:
        _refuse_mix(op, f"sim:{min(places)}", str(elsewhere[0].device))


def _is_host(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, SimTensor)


def _refuse_mix(op: Operator, first: str, second: str) -> NoReturn:
    __tracebackhide__ = True
    raise RuntimeError(f"{op.kernel}: expected all tensors to be on the same device, but found {first} and {second}")


def _place(refs: list[Ref]) -> set[int]:
    """Place unplaced buffers on the device of the others; returns the devices of all. Bytes are not counted again."""
    places = {ref.buffer.device_index for ref in refs if not ref.buffer.unplaced}
    for ref in refs:
        if ref.buffer.unplaced and len(places) == 1:
            ref.buffer.device_index, ref.buffer.unplaced = min(places), False
    return places


def brought(target: Any, factor: SimTensor) -> torch.Tensor:
    """A factor of one element on the device of what it multiplies."""
    home = target if isinstance(target, SimTensor) else target[0]
    return factor if factor.dim() or factor.device == home.device else factor.to(home.device)


def device_index(kwargs: dict[str, Any], taken: Arguments) -> int:
    """The device an op runs on."""
    device = kwargs.get("device")
    if taken.refs and (device is None or torch.device(device).index is None):
        return taken.refs[0].buffer.device_index
    index = sim_device(device_of(device)).index
    if index or device is None:
        return index
    # torch's own code says sim:0 for all of them: in a function about a tensor on another device, and in a gradient
    if not beside.index and taken.refs and torch_private.in_backward():
        return taken.refs[0].buffer.device_index
    return beside.index


def is_elsewhere(kwargs: dict[str, Any]) -> bool:
    """Whether the result is wanted on a device that is not simulated."""
    device = kwargs.get("device")
    return device is not None and torch.device(device).type != NAME


def is_unplaced(index: int, taken: Arguments) -> bool:
    """Whether a gradient formula makes it. Nothing says for which tensor such a formula runs."""
    return index == 0 and not taken.refs and torch_private.in_backward()


# What a launch has to do, for a pace that is a rate: floating-point operations, and bytes read and written.

# these write their first argument and do not read it
_FILL = frozenset({"copy", "fill", "uniform", "normal", "random", "bernoulli", "exponential", "eye"})


def least_s(pace: Pace, op: Operator, taken: Arguments, fresh: Sequence[Buffer]) -> float:
    """Least seconds of a kernel by its work. fresh: new results."""
    flop = flop_of(op.name, taken.inputs().read) if is_counted(op.name) else None
    return pace(op.kernel, OpKind.KERNEL, moved_bytes(op, taken, fresh), flop, _dtype(taken))


def _dtype(taken: Arguments) -> str:
    """The type that a kernel computes with: of its first floating-point input."""
    dtype = next((ref.spec.dtype for ref in taken.refs if ref.spec.dtype.is_floating_point), None)
    return "" if dtype is None else str(dtype).removeprefix("torch.")


def moved_bytes(op: Operator, taken: Arguments, fresh: Sequence[Buffer]) -> int:
    """The bytes of all that an operator reads and writes: the least that a kernel moves if nothing is in a cache."""
    written, read = _written_refs(op, taken), list(taken.refs)
    if op.fills_out or op.kernel in _FILL:
        for ref in written:  # once: what an op also reads is given to it twice
            read.remove(ref)
    return _bytes([ref.spec for ref in (*read, *written)]) + _bytes([buffer.spec for buffer in fresh])


def _written_refs(op: Operator, taken: Arguments) -> list[Ref]:
    given = [value for place in op.writes for value in flat(argument(place, taken.args, taken.kwargs))]
    return [value for value in given if isinstance(value, Ref)]


def _bytes(specs: Iterable[Spec]) -> int:
    """The bytes of tensors. An expanded view is no larger than the memory it is a view of."""
    return sum(min(math.prod(spec.size) * spec.dtype.itemsize, spec.storage_bytes) for spec in specs)


# What a GPU's model says of a call: the same for the same shapes.


def modelled(model: Model, taken: Arguments, fresh: Sequence[Buffer]) -> KernelTime:
    """How long a kernel takes on the GPU of a model.  fresh: new results."""
    known, tf32 = taken.found or taken.known(), torch_private.allows_tf32(taken.op.kernel)
    if known.time is None or known.time[0] is not model or known.time[1] != tf32:
        known.time = model, tf32, _time_of(model, taken, fresh, tf32=tf32)
    return known.time[2]


def _time_of(model: Model, taken: Arguments, fresh: Sequence[Buffer], *, tf32: bool) -> KernelTime:
    op, results = taken.op, [buffer.spec for buffer in fresh]
    if op.fills_out:
        results += [ref.spec for ref in _written_refs(op, taken)]
    types = tuple(_TYPES.get(spec.dtype, "") for spec in results)
    outputs = Inputs(tuple(tuple(spec.size) for spec in results), types)
    moved, strided = moved_bytes(op, taken, fresh), _is_strided(taken, results)
    written = {name for _, name in op.writes} if op.fills_out else ()  # is no input
    read = {name: value for name, value in taken.kwargs.items() if name not in written}
    inputs = inputs_of(op, taken.args, read).read
    return model.kernel(op.name, inputs, outputs, moved, tf32=tf32, strided=strided)


def _is_strided(taken: Arguments, results: Sequence[Spec]) -> bool:
    """Whether elements cannot be read and written in the order of memory: broadcast, transposed or sliced tensors."""
    specs = [ref.spec for ref in taken.refs if math.prod(ref.spec.size) > 1] + list(results)
    largest = max((math.prod(spec.size) for spec in specs), default=0)
    whole = [spec for spec in specs if math.prod(spec.size) == largest]
    return len(whole) < len(specs) or any(spec.stride != whole[0].stride or not is_dense(spec) for spec in whole)


def is_dense(spec: Spec) -> bool:
    """Whether a tensor's elements lie one behind the other, in any order of its dimensions."""
    expected = 1
    for step, n in sorted((step, n) for step, n in zip(spec.stride, spec.size, strict=True) if n > 1):
        if step != expected:
            return False
        expected *= n
    return True


def is_channels_last(spec: Spec) -> bool:
    """Whether the channels of images lie side by side; a tensor with one channel or one place is both."""
    return len(spec.size) > 3 and spec.size[1] > 1 and spec.stride[1] == 1 and math.prod(spec.size[2:]) > 1


def are_alike(specs: Sequence[Spec]) -> bool:
    """Whether tensors have the same type, and their elements the same dense order."""
    first = specs[0]
    same = all((s.dtype, s.size, s.stride) == (first.dtype, first.size, first.stride) for s in specs[1:])
    return same and is_dense(first)


FUSED_ATTENTION = "_scaled_dot_product_flash_attention"


def is_fused(query: Any, key: Any, value: Any, mask: Any, dropout_p: float) -> bool:
    """Whether torch takes a fused kernel on that GPU. Source: sdp_utils.cpp of torch 2.13, for CUDA."""
    model = sim_device(device_of(query.device)).model
    kinds = _fused_kinds(model, query.dtype, mask is not None, query.shape[-1]) if model is not None else []
    shares_heads = query.shape[1:2] != key.shape[1:2]  # flash alone has that; with dropout it is not computed here
    allowed = ("flash" in kinds and not (shares_heads and dropout_p)) or ("efficient" in kinds and not shares_heads)
    fits = query.dim() == key.dim() == value.dim() == 4 and query.shape[-1] == value.shape[-1]
    return allowed and fits and query.numel() > 0 < key.numel() and not (mask is not None and mask.requires_grad)


def _fused_kinds(model: Model, dtype: torch.dtype, masked: bool, head_size: int) -> list[str]:
    """The fused kernels that the GPU of a model has and the program allows, the one that torch takes first."""
    cuda: Any = torch.backends.cuda
    allowed = {"flash": cuda.flash_sdp_enabled, "efficient": cuda.mem_efficient_sdp_enabled}
    kinds = model.fused_attention(str(dtype), masked=masked, head_size=head_size)
    return [kind for kind in kinds if allowed[kind]()]


def attention_name(model: Model, name: str, taken: Arguments) -> str:
    """What the kernel of attention is called: it is computed as flash attention, whichever torch takes there."""
    query = taken.refs[0].spec
    kinds = _fused_kinds(model, query.dtype, taken.kwargs.get("attn_mask") is not None, query.size[-1])
    return name.replace("_flash_", "_efficient_") if kinds[:1] == ["efficient"] else name


# The inputs of a call as a record of torch's profiler writes them.


_TYPES = {
    torch.float64: "double", torch.float32: "float", torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16",
    torch.float8_e4m3fn: "c10::Float8_e4m3fn", torch.float8_e5m2: "c10::Float8_e5m2",
    torch.int64: "long int", torch.int32: "int", torch.int16: "short int", torch.int8: "signed char",
    torch.uint8: "unsigned char", torch.bool: "bool", torch.complex64: "c10::complex<float>",
    torch.complex128: "c10::complex<double>",
}  # fmt: skip
_known_inputs: dict[Any, CallInputs] = {}


def inputs_of(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallInputs:
    """The inputs of a call, read once for each signature.  args, kwargs: of the call, or as a job holds them."""
    has_values = op.has_values
    key: list[Any] = [op]
    for value in args:
        _add_to_key(key, value, has_values)
    for name, value in kwargs.items():
        key.append(name)
        _add_to_key(key, value, has_values)
    signature = tuple(key)
    known = _known_inputs.get(signature)
    if known is None:
        if len(_known_inputs) >= _CACHE_ENTRIES:
            _known_inputs.clear()
        known = _known_inputs[signature] = _written(op, args, kwargs)
    return known


def _add_to_key(key: list[Any], value: Any, has_values: bool) -> None:
    kind = type(value)
    if kind is SimTensor or kind is FarTensor:
        key.append(value._ref.spec)
    elif kind is Ref:
        key.append(value.spec)
    elif kind is list or kind is tuple:
        if value and type(value[0]) is int:
            key.append(tuple(value) if has_values else kind)
            return
        key.append(len(value))
        for one in value:
            _add_to_key(key, one, has_values)
    elif isinstance(value, torch.Tensor):
        key.append((value.shape, value.dtype))
    else:
        key.append((kind, value) if has_values else kind)


def _written(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallInputs:
    """Every input of the schema is in a record, those that were left out with their defaults."""
    inputs = [
        args[at] if at < len(args) else kwargs.get(argument.name, argument.default_value)
        for at, argument in enumerate(torch_private.schema_of(op.func).arguments)
    ]
    shapes, dtypes = (json.dumps(list(map(write, inputs))) for write in (_dims, _type))
    values = json.dumps(list(map(_value, inputs))) if op.has_values else ""
    return CallInputs(Inputs.read(shapes, dtypes, values), shapes, dtypes, values)


def _dims(value: Any) -> list[Any]:
    """The shape of a tensor, those of a list of tensors; [] for anything else."""
    if isinstance(value, (list, tuple)) and any(isinstance(one, (Ref, torch.Tensor)) for one in value):
        return [_dims(one) for one in value]
    return list(_shape(value))


def _type(value: Any) -> str:
    """The type of a tensor in C++, of a list that of its first tensor, which the profiler leaves out."""
    if isinstance(value, (list, tuple)):
        return next((_type(one) for one in value if isinstance(one, (Ref, torch.Tensor))), "ScalarList")
    if isinstance(value, (int, float)):
        return "Scalar"
    dtype = value.spec.dtype if isinstance(value, Ref) else value.dtype if isinstance(value, torch.Tensor) else None
    return "" if dtype is None else _TYPES.get(dtype, str(dtype))


def _value(value: Any) -> str:
    return "" if value is None or isinstance(value, (Ref, torch.Tensor)) else str(value)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.spec.size if isinstance(value, Ref) else value.shape if isinstance(value, torch.Tensor) else ())
