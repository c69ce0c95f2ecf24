"""What a job of an operator runs on the stream's thread: the real call, and what becomes of its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfmagic.capture.devices.sim import random
from perfmagic.capture.devices.sim.arguments import Arguments
from perfmagic.capture.devices.sim.infer import flat, map_tree
from perfmagic.capture.devices.sim.jobs import NotComputedError
from perfmagic.capture.devices.sim.operators import Operator, argument
from perfmagic.capture.devices.sim.tensor import Buffer, Ref
from perfmagic.errors import DeviceError

_NESTED = {list, tuple}


def real_call(op: Operator, taken: Arguments, index: int, *, fixed: bool) -> Callable[[], Any]:
    """The call on real memory. Random ops get their seed here, at the launch.

    fixed: what the op writes has to keep its shape, as the host has been told of it.
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
    """A kernel that gave an argument another shape has put its result elsewhere: nobody would ever see it."""
    for place in op.writes:
        for ref, t in zip(flat(argument(place, *given)), flat(argument(place, *real)), strict=True):
            if isinstance(ref, Ref) and not ref.buffer.odd and tuple(t.shape) != ref.spec.size:
                raise DeviceError(
                    f"{op.name} gave its {place[1]} the shape {tuple(t.shape)} where {ref.spec.size} was expected",
                    hint=f"give it a tensor of the shape {tuple(t.shape)}",
                )


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


def body_of(
    op: Operator, taken: Arguments, index: int, fresh: list[Buffer], written: list[Buffer]
) -> Callable[[], None]:
    """What fills the buffers of new results, or says why they stay empty."""
    run = real_call(op, taken, index, fixed=bool(op.writes))

    def body() -> None:
        __tracebackhide__ = True
        try:
            result = run()
        except BaseException as error:
            _spoil(fresh, written, error)
            raise
        if fresh:
            _fill(fresh, result)

    return body


def _spoil(fresh: list[Buffer], written: list[Buffer], error: BaseException) -> None:
    """Nothing new was made. Memory that was to be changed keeps what it has, unless the change itself was not run."""
    skipped = isinstance(error, NotComputedError)
    origin = error.origin if isinstance(error, NotComputedError) else error
    for buffer in (*fresh, *(written if skipped else ())):
        buffer.error = origin


def _fill(fresh: list[Buffer], result: Any) -> None:
    real = [value for value in flat(result) if isinstance(value, torch.Tensor)]  # None: a result that was not wanted
    for buffer, values in zip(fresh, real, strict=True):
        buffer.fill(values)


def _named_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    if kwargs.get("device") is None:
        return kwargs
    return {**kwargs, "device": torch.device("cpu")}
