"""What a job of an operator runs on the stream's thread, and which tensors the operator hands out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfmagic.base.errors import DeviceError
from perfmagic.sim import random
from perfmagic.sim.device import current_lane
from perfmagic.sim.infer import Arguments, Leaf
from perfmagic.sim.operators import Operator, argument, flat, map_tree
from perfmagic.sim.queues import Lane, NotComputedError
from perfmagic.sim.refusals import check_plain, refuse_overlap
from perfmagic.sim.tensor import Buffer, Ref, SimTensor, Spec, become, spec_of
from perfmagic.sim.values import VALUES, rule

_NESTED = {list, tuple}


def real_call(op: Operator, taken: Arguments, index: int, *, fixed: bool) -> Callable[[], Any]:
    """The call on real memory. Random ops get their seed here, at the launch.

    fixed: what the op writes has to keep its shape, as the host knows it already.
    """
    args, kwargs = taken.args, _named_cpu(taken.kwargs)
    call = op.runs
    seeded = _seeding(op, args, kwargs, index) if op.seeded else None

    def run() -> Any:
        __tracebackhide__ = True
        a, k = seeded() if seeded is not None else (args, kwargs)
        # most arguments are plain: what the stream's thread does here, the host cannot do meanwhile
        real = [v.real() if type(v) is Ref else map_tree(v, Ref, Ref.real) if type(v) in _NESTED else v for v in a]
        named = map_tree(k, Ref, Ref.real) if k else k
        result = call(*real, **named)
        if fixed:
            _check_written(op, (a, k), (tuple(real), named))
        return result

    return run


def _check_written(op: Operator, given: tuple[Any, Any], real: tuple[Any, Any]) -> None:
    """Raise DeviceError where a kernel gave an argument another shape: its result would be lost."""
    for place in op.writes:
        for ref, t in zip(flat(argument(place, *given)), flat(argument(place, *real)), strict=True):
            if isinstance(ref, Ref) and not ref.buffer.odd and tuple(t.shape) != ref.spec.size:
                message = f"{op.name} gave its {place[1]} the shape {tuple(t.shape)} where {ref.spec.size} was expected"
                raise DeviceError(message, hint=f"give it a tensor of the shape {tuple(t.shape)}")


def _seeding(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], index: int) -> Callable[[], Any]:
    if op.generator is None:
        raise NotImplementedError(
            f"{op.name} draws random numbers and takes no generator: the simulated device cannot run it without "
            "touching the host's random numbers"
        )
    position, name = op.generator
    seed = random.next_seed(index, argument(op.generator, args, kwargs))
    if position < len(args):
        return lambda: ((*args[:position], random.generator_for(seed), *args[position + 1 :]), kwargs)
    return lambda: (args, {**kwargs, name: random.generator_for(seed)})


def make_body(
    op: Operator, taken: Arguments, index: int, fresh: list[Buffer], written: list[Buffer]
) -> Callable[[], None]:
    """The body of a job: runs the operator and fills the buffers of its results, or notes why they stay empty."""
    run = real_call(op, taken, index, fixed=bool(op.writes))

    def body() -> None:
        __tracebackhide__ = True
        try:
            result = run()
        except BaseException as error:
            # mark new results as failed; also memory to be changed, if the op was not run at all
            skipped = isinstance(error, NotComputedError)
            origin = error.origin if isinstance(error, NotComputedError) else error
            for buffer in (*fresh, *(written if skipped else ())):
                buffer.error = origin
            raise
        if fresh:
            _fill(fresh, result)

    return body


def pass_over(op: Operator, taken: Arguments, index: int, buffers: list[Buffer]) -> None:
    """For an op that is not computed: what it writes has no value. Random ops after it get the seeds they would get."""
    if op.seeded:
        _seeding(op, taken.args, taken.kwargs, index)
    assumed, kept = rule.if_finite(op, taken)
    rule.leave_out([buffer for buffer in buffers if buffer is not kept], assumed)


def _fill(fresh: list[Buffer], result: Any) -> None:
    if type(result) is torch.Tensor:  # nearly always
        fresh[0].fill(result)
        return
    real = [value for value in flat(result) if isinstance(value, torch.Tensor)]  # None: a result that was not wanted
    for buffer, values in zip(fresh, real, strict=True):
        buffer.fill(values)


def _named_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    if kwargs.get("device") is None:
        return kwargs
    return {**kwargs, "device": torch.device("cpu")}


# What an operator hands out: tensors it was given, new ones, and views; in shapes that are true.


def check_bounds(op: Operator, leaf: Leaf, base: Buffer) -> None:
    """Raise RuntimeError, as torch does on other devices, for a view that reaches beyond the memory."""
    if leaf.needs_bytes <= base.spec.storage_bytes:
        return
    spec = leaf.spec
    raise RuntimeError(
        f"{op.name}: sizes {list(spec.size)}, strides {list(spec.stride)} and offset {spec.offset} need "
        f"{leaf.needs_bytes} bytes, and the tensor's memory has {base.spec.storage_bytes}"
    )


def written_by(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Ref]:
    """The tensors on the device that an operator writes in place."""
    leaves = [t for place in op.writes for t in flat(argument(place, args, kwargs))]
    return [t._ref for t in leaves if isinstance(t, SimTensor)]


def check_apart(target: SimTensor) -> None:
    """Raise RuntimeError, as torch does, for a copy into a tensor of which several elements are one in memory."""
    if repeats(target._ref):
        refuse_overlap()


def repeats(ref: Ref) -> bool:
    """Whether it is expanded, so that several of its elements are one in memory."""
    size = ref.spec.size
    return (
        0 in ref.spec.stride
        and 0 not in size
        and any(n > 1 and not step for n, step in zip(size, ref.spec.stride, strict=True))
    )


def resize_results(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], specs: Any) -> bool:
    """Give out= tensors of another size that size, in the memory they have; True if there was one.

    Raises RuntimeError where an op would change the shape of what it works on in place. Raises DeviceError where out=
    would need more memory than it has, unless it has none.
    """
    given = [argument(place, args, kwargs) for place in op.returned or ()]
    small = [
        (t, leaf.spec)
        for t, leaf in zip(given, flat(specs), strict=False)
        if isinstance(t, SimTensor) and t._ref.spec.size != leaf.spec.size
    ]
    if small and not op.fills_out:
        raise RuntimeError(
            f"{op.name}: a result of shape {list(small[0][1].size)} does not fit into {list(small[0][0].shape)}"
        )
    for t, spec in small:
        held = t._ref.buffer
        if held.spec.storage_bytes >= spec.storage_bytes:
            become(t, Ref(spec, held))
        elif held.spec.storage_bytes:  # what else refers to that memory would have to come along
            raise DeviceError(
                f"{op.name}: the simulated device cannot enlarge out= from shape {list(t.shape)} to {list(spec.size)}",
                hint="give it a tensor of that shape, or one without elements",
            )
        else:
            become(t, empty_ref(held.device_index, spec))
    return bool(small)


def take_new_shapes(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """out= tensors whose shape only the kernel knew stand for what it made of them."""
    given = [argument(place, args, kwargs) for place in op.returned or ()]
    for t, real in zip(given, flat(result), strict=False):
        if isinstance(t, SimTensor) and tuple(real.shape) != t._ref.spec.size:
            become(t, new_ref(t._ref.buffer.device_index, real))


def given_back(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tensors an operator was given to write, as it returns them; None if it returns none."""
    if not op.returned:
        return None
    values = [argument(place, args, kwargs) for place in op.returned]
    return values[0] if op.returns_one else tuple(values)


def new_ref(index: int, real: torch.Tensor) -> Ref:
    """A new buffer that holds a real tensor."""
    spec = spec_of(real)
    return Ref(spec, Buffer(index, spec, current_lane(index).stream_id, real))


def empty_ref(index: int, spec: Spec) -> Ref:
    """A new buffer whose memory is still to be written."""
    buffer = Buffer(index, spec, current_lane(index).stream_id)  # first, because the device may be out of memory
    if not VALUES.active or rule.is_kept(buffer):
        buffer.base = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype)
    else:
        rule.leave_out((buffer,))
    return Ref(spec, buffer)


def on_device(real: torch.Tensor, lane: Lane, name: str) -> SimTensor:
    """A new tensor on a stream's device for a real one.  name: of the operator that made it."""
    check_plain(real, name)
    spec = spec_of(real)
    return SimTensor(Ref(spec, Buffer(lane.device.index, spec, lane.stream_id, real)))
