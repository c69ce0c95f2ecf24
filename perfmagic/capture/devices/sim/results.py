"""What an operator hands out: tensors it was given, new ones, and views; in shapes that are true."""

from __future__ import annotations

from typing import Any

import torch

from perfmagic.capture.devices.sim.chosen import current_lane
from perfmagic.capture.devices.sim.infer import Leaf, flat
from perfmagic.capture.devices.sim.lanes import Lane
from perfmagic.capture.devices.sim.operators import Operator, argument
from perfmagic.capture.devices.sim.refusals import check_plain
from perfmagic.capture.devices.sim.tensor import Buffer, Ref, SimTensor, become, spec_of
from perfmagic.errors import DeviceError


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


def resize_results(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], specs: Any) -> bool:
    """Give out= tensors of another size that size, in the memory they have; True if there was one.

    Raises RuntimeError where an op would change the shape of what it works on in place, DeviceError where out= would
    need more memory than it has, unless it has none.
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
            real = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype)
            become(t, new_ref(held.device_index, real))
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
    """Memory of its own for a tensor that is to stand for a real one."""
    spec = spec_of(real)
    return Ref(spec, Buffer(index, spec, current_lane(index).stream_id, real))


def on_device(real: torch.Tensor, lane: Lane, name: str) -> SimTensor:
    """A new tensor on a stream's device for a real one.  name: of the operator that made it."""
    check_plain(real, name)
    spec = spec_of(real)
    return SimTensor(Ref(spec, Buffer(lane.device.index, spec, lane.stream_id, real)))
