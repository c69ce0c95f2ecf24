"""Which memory every operator of a cell reads and writes, noted beside the recording.

While the cell runs, an operator costs a tuple of numbers for each of its tensors: no tensor is kept, and no memory.
What the numbers mean is worked out when the cell has ended. Allocations and views are left out: they touch no data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from perfmagic.base.clock import reader, thread_reader
from perfmagic.capture.devices import torch_private
from perfmagic.trace.columns import SeenOp, SeenOps, Use

LIMIT_OPS = 100_000  # each takes 1 kB until the cell has ended

# (argument's place, storage, bytes of an element, offset, size, stride); offset and stride in elements
_Piece = tuple[Any, float, int, int, Any, Any]
_Note = Callable[[Iterable[tuple[Any, Any]], list[_Piece]], None]
_Row = tuple[Any, list[_Piece], list[_Piece], int, int, int]


@dataclass
class _Lost:
    """Operators of which nothing is known.

    beyond: the limit.  unread: whose tensors do not say which memory they have.
    """

    beyond: int = 0
    unread: int = 0


class OpLog:
    """A resource that records each operator between acquire() and give_back(), in order of its end."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._devices: dict[float, tuple[str, object]] = {}  # of each storage, and what keeps its number
        self._lost = _Lost()
        self._mode = _noting(self._rows, _reader(self._devices), self._lost)

    def acquire(self) -> None:
        self._mode.__enter__()

    def give_back(self) -> None:
        torch_private.leave_dispatch_mode(self._mode)

    def read(self, shift_ns: int) -> SeenOps:
        """What was noted, by start; shift_ns: from perf_counter to the time of the trace. Call only once."""
        numbers: dict[float, int] = {}
        plans: dict[Any, _Plan] = {}
        ops = []
        for func, used, made, start_ns, end_ns, thread in sorted(self._rows, key=lambda row: row[3]):
            plan = plans.get(func)
            if plan is None:
                plan = plans[func] = _plan(func)
            if plan.is_empty or (plan.views and _all_inside(made, used) and not plan.writes):
                continue
            uses = tuple(_uses(plan, used, made, numbers))
            wrote = [piece for piece in used if piece[0] in plan.writes] + made
            touched = [*wrote, *used]
            device = self._devices[touched[0][1]][0] if touched else "cpu"
            source = self._source(used, device) if plan.copies else ""
            shape = tuple(int(n) for n in wrote[0][4]) if wrote else ()
            begin_ns, stop_ns = start_ns + shift_ns, end_ns + shift_ns
            ops.append(
                SeenOp(plan.name, begin_ns, stop_ns, thread, uses, device, source, shape, has_result=bool(wrote))
            )
        self._rows.clear()
        self._devices.clear()
        return SeenOps(tuple(ops), self._lost.beyond, self._lost.unread)

    def _source(self, used: list[_Piece], device: str) -> str:
        """Where a copy came from; "" within one device."""
        sources = [self._devices[piece[1]][0] for piece in used]
        return next((item for item in reversed(sources) if item != device), "")


def _noting(rows: list[_Row], pieces: _Note, lost: _Lost) -> Any:
    """The mode that writes a row for each operator."""
    now_ns, this_thread, limit = reader(), thread_reader(), LIMIT_OPS

    class Noting(torch_private.dispatch_mode()):  # type: ignore[misc]  # the class is made when it is first wanted
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            __tracebackhide__ = True  # a traceback ends at the user's line
            start_ns = now_ns()
            out = func(*args, **kwargs) if kwargs else func(*args)
            end_ns = now_ns()
            if len(rows) >= limit:
                lost.beyond += 1
                return out
            used: list[_Piece] = []
            made: list[_Piece] = []
            try:
                pieces(enumerate(args), used)
                if kwargs:
                    pieces(kwargs.items(), used)
                pieces(((None, out),), made)
            except Exception:  # noqa: BLE001 - what a foreign kind of tensor does not tell is no fault of the cell
                lost.unread += 1
                return out
            rows.append((func, used, made, start_ns, end_ns, this_thread()))
            return out

    return Noting()


def _reader(devices: dict[float, tuple[str, object]]) -> _Note:
    """What adds the pieces of memory of all tensors among some values, each after its place, also in lists.

    devices: of each storage, which it fills.
    """
    tensor, plain, strided = torch.Tensor, frozenset({torch.Tensor, torch.nn.Parameter}), torch.strided
    number_of, hold = torch_private.storage_number, torch_private.number_holder()

    def pieces(values: Iterable[tuple[Any, Any]], into: list[_Piece]) -> None:
        for place, value in values:
            kind = type(value)
            if kind in plain and value.layout is strided and not value.is_nested:
                storage = value.untyped_storage()
                number = number_of(storage)
                if number not in devices:
                    devices[number] = (str(value.device), hold(storage))
                into.append((place, number, value.dtype.itemsize, value.storage_offset(), value.shape, value.stride()))
            elif kind is list or kind is tuple:
                pieces([(place, item) for item in value], into)
            elif isinstance(value, tensor):
                _other(devices, pieces, (place, value), into)

    return pieces


def _other(
    devices: dict[float, tuple[str, object]], pieces: _Note, placed: tuple[Any, Any], into: list[_Piece]
) -> None:
    """The same for a tensor on the simulated device, or a tensor that wraps others."""
    place, t = placed
    ref = getattr(t, "_ref", None)
    if ref is not None:
        held, spec = t._held, ref.spec
        number = -float(held) if held is not None else -0.5
        if number not in devices:
            devices[number] = (str(t.device), None)  # a number that is given once
        into.append((place, number, spec.dtype.itemsize, spec.offset, spec.size, spec.stride))
        return
    parts = torch_private.inner_tensors(t)
    if len(parts) != 1 or parts[0] is not t:
        pieces([(place, part) for part in parts], into)
        return
    with suppress(RuntimeError, NotImplementedError):  # of an opaque library: what it needs is not known
        storage = t.untyped_storage()
        number = torch_private.storage_number(storage)
        devices.setdefault(number, (str(t.device), torch_private.number_holder()(storage)))
        if t.is_nested:  # it has no shape: all of its memory
            into.append((place, number, 1, 0, (storage.nbytes(),), (1,)))
        else:
            into.append((place, number, t.dtype.itemsize, t.storage_offset(), t.shape, t.stride()))


@dataclass(frozen=True)
class _Plan:
    """What the schema of an operator says.

    writes: places and names of arguments that are written.  replaced: of those, what is overwritten without a look.
    shape_only: of the inputs only the shapes matter.  views: its results may be views.  is_empty: it touches no data.
    """

    name: str
    writes: frozenset[Any] = frozenset()
    replaced: frozenset[Any] = frozenset()
    shape_only: bool = False
    views: bool = False
    is_empty: bool = False
    copies: bool = False


_NO_DATA = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "set_"}
    | {"lift_fresh", "lift", "_efficientzerotensor", "record_stream", "is_same_size"}
)
_OVERWRITE = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_", "geometric_"}
    | {"log_normal_", "_foreach_copy_", "_foreach_zero_", "eye_", "trunc_normal_"}
)
_COPIES = frozenset({"copy_", "_to_copy", "_foreach_copy_"})


def _plan(func: Any) -> _Plan:
    schema = getattr(func, "_schema", None)
    if schema is None:  # an operator of higher order: it reads what it is given
        return _Plan(str(getattr(func, "__name__", func)))
    namespace, _, name = schema.name.rpartition("::")
    written: set[Any] = set()
    out: set[Any] = set()
    for place, argument in enumerate(schema.arguments):
        alias = argument.alias_info
        in_place = alias is not None and alias.is_write
        # operations between ranks say nothing of what they write
        if in_place or (namespace == "c10d" and name.endswith("_") and "Tensor" in str(argument.type)):
            written |= {place, argument.name}
            out |= {place, argument.name} if argument.kwarg_only else set()
    replaced = out | ({0, schema.arguments[0].name} if name in _OVERWRITE else set())
    return _Plan(
        name,
        frozenset(written),
        frozenset(replaced),
        shape_only=name.endswith("_like") or name.startswith("new_"),
        views=name == "_unsafe_view"
        or any(item.alias_info is not None and not item.alias_info.is_write for item in schema.returns),
        is_empty=name in _NO_DATA or namespace in ("profiler", "prim"),
        copies=name in _COPIES,
    )


def _all_inside(made: Iterable[_Piece], used: Iterable[_Piece]) -> bool:
    """Whether all results lie in the memory of inputs."""
    storages = {piece[1] for piece in used}
    return all(piece[1] in storages for piece in made)


def _uses(plan: _Plan, used: list[_Piece], made: list[_Piece], numbers: dict[float, int]) -> Iterable[Use]:
    inputs = set()
    for piece in used:
        inputs.add(piece[1])
        writes = piece[0] in plan.writes
        reads = not plan.shape_only and piece[0] not in plan.replaced
        if reads or writes:
            yield _use(piece, numbers, reads=reads, writes=writes)
    for piece in made:
        if piece[1] not in inputs:
            yield _use(piece, numbers, reads=False, writes=True)


def _use(piece: _Piece, numbers: dict[float, int], *, reads: bool, writes: bool) -> Use:
    _, storage, item, offset, size, stride = piece
    low = int(offset) * item
    high = low
    if 0 not in size:
        high += item * (1 + sum((int(n) - 1) * int(s) for n, s in zip(size, stride, strict=True)))
    return Use(numbers.setdefault(storage, len(numbers)), low, high, reads, writes)
