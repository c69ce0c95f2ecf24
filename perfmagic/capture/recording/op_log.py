"""Which memory every operator of a cell reads and writes, noted beside the recording.

While the cell runs, an operator costs three values for each of its tensors: no tensor is kept, and no memory.
What the numbers mean is worked out when the cell has ended. Allocations and views are left out: they touch no data.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch

from perfmagic.base.clock import reader, thread_reader
from perfmagic.capture.devices import torch_private
from perfmagic.trace.columns import SeenOp, SeenOps, Use

LIMIT_OPS = 100_000  # each takes up to 1 kB until the cell has ended

# Bytes of an element, offset, size, stride; offset and stride in elements. Equal ones are one object.
_Layout = tuple[int, int, Any, Any]
_Piece = tuple[Any, float, _Layout]  # argument's place, storage, layout
_Note = Callable[[Iterable[Iterable[tuple[Any, Any]]], list[Any]], None]
_HEAD = 6  # of a row: operator, start_ns, end_ns, thread, where what it made begins, where the row ends; then pieces
_MADE = 4


@dataclass
class _Count:
    """Operators that were noted, and those of which nothing is known.

    beyond: the limit.  unread: whose tensors do not say which memory they have.
    """

    noted: int = 0
    beyond: int = 0
    unread: int = 0


class OpLog:
    """A resource that records each operator between acquire() and give_back(), in order of its end.

    The rows are values in one list: a tuple for each would make Python's garbage collector run every 80 operators.
    """

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._storages = _Storages()
        self._count = _Count()
        self._mode = _noting(self._values, _reader(self._storages), self._count)

    def acquire(self) -> None:
        self._mode.__enter__()

    def give_back(self) -> None:
        torch_private.leave_dispatch_mode(self._mode)

    def read(self, shift_ns: int) -> SeenOps:
        """What was noted, by start; shift_ns: from perf_counter to the time of the trace. Call only once."""
        uses_of = _Uses()
        plans: dict[int, _Plan] = {}  # by id: an operator's own hash is slow
        ops = []
        for func, start_ns, end_ns, thread, used, made in sorted(self._noted(), key=itemgetter(1)):
            plan = plans.get(id(func))
            if plan is None:
                plan = plans[id(func)] = _plan(func)
            if plan.is_empty or (plan.views and not plan.writes and _all_inside(made, used)):
                continue
            wrote = [piece for piece in used if piece[0] in plan.writes] + made if plan.writes else made
            touched = wrote or used
            device = self._storages.device[touched[0][1]] if touched else "cpu"
            source = self._source(used, device) if plan.copies else ""
            shape = uses_of.shape(wrote[0][2]) if wrote else ()
            uses, begin_ns, stop_ns = uses_of.operator(plan, used, made), start_ns + shift_ns, end_ns + shift_ns
            ops.append(SeenOp(plan.name, begin_ns, stop_ns, thread, uses, device, source, shape, bool(wrote)))
        self._values.clear()
        self._storages.release()
        return SeenOps(tuple(ops), self._count.beyond, self._count.unread)

    def _noted(self) -> Iterator[tuple[Any, int, int, int, list[_Piece], list[_Piece]]]:
        """The rows: operator, start_ns, end_ns, thread, pieces used, pieces made."""
        values, at = self._values, 0
        while at < len(values):
            func, start_ns, end_ns, thread, n_used, n_values = values[at : at + _HEAD]
            used, made = values[at + _HEAD : at + n_used], values[at + n_used : at + n_values]
            yield func, start_ns, end_ns, thread, _pieces(used), _pieces(made)
            at += n_values

    def _source(self, used: list[_Piece], device: str) -> str:
        """Where a copy came from; "" within one device."""
        sources = [self._storages.device[piece[1]] for piece in used]
        return next((item for item in reversed(sources) if item != device), "")


def _pieces(values: list[Any]) -> list[_Piece]:
    """Three values each."""
    each = iter(values)
    return list(zip(each, each, each, strict=True))


def _noting(values: list[Any], pieces: _Note, count: _Count) -> Any:
    """The mode that writes a row for each operator."""
    now_ns, this_thread, limit = reader(), thread_reader(), LIMIT_OPS
    run_of = _Runs()

    class Noting(torch_private.dispatch_mode()):  # type: ignore[misc]  # the class is made when it is first wanted
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            __tracebackhide__ = True  # a traceback ends at the user's line
            run, _ = run_of[id(func)] if id(func) in run_of else run_of.add(func)
            start_ns = now_ns()
            out = run(*args, **kwargs) if kwargs else run(*args)
            end_ns = now_ns()
            if count.noted >= limit:
                count.beyond += 1
                return out
            row = [func, start_ns, end_ns, this_thread(), 0, 0]
            used = enumerate(args)
            try:
                pieces((used, kwargs.items(), ((None, out),)) if kwargs else (used, ((None, out),)), row)
            except Exception:  # noqa: BLE001 - what a foreign kind of tensor does not tell is no fault of the cell
                count.unread += 1
                return out
            row[5] = len(row)
            values.extend(row)
            count.noted += 1
            return out

    return Noting()


class _Runs(dict[int, tuple[Callable[..., Any], Any]]):
    """What runs each operator, by its id: its own hash is slow. The operator is kept, so that its id stays its own."""

    def add(self, func: Any) -> tuple[Callable[..., Any], Any]:
        self[id(func)] = entry = torch_private.direct_call(func), func
        return entry


class _Storages:
    """The storages that were seen: where each lies, with its number kept from being given again; and their layouts."""

    def __init__(self) -> None:
        self.device: dict[float, str] = {}
        self.layouts: dict[_Layout, _Layout] = {}
        self.held: list[int] = []
        self.names = _Names()
        self.release = weakref.finalize(self, _release, self.held)


class _Names(dict[Any, str]):
    """What torch calls each device."""

    def __missing__(self, device: Any) -> str:
        self[device] = name = str(device)
        return name


def _release(held: list[int]) -> None:
    for number in held:
        torch_private.release_number(number)


def _reader(storages: _Storages) -> _Note:
    """What adds the pieces of memory of all tensors among groups of values, each after its place, also in lists.

    It notes in the row where the last group begins. Most operators need one call and no other function of Python:
    where sys.settrace follows lines, each costs 0.3 µs more.
    """
    tensor, plain, strided = torch.Tensor, frozenset({torch.Tensor, torch.nn.Parameter}), torch.strided
    number_of, known, same = torch_private.storage_number, storages.device, storages.layouts.setdefault
    hold_number, names, hold = torch_private.hold_number, storages.names, storages.held.append

    def pieces(groups: Iterable[Iterable[tuple[Any, Any]]], into: list[Any]) -> None:
        for group in groups:
            begin = into[_MADE] = len(into)
            for place, value in group:
                kind = type(value)
                if kind in plain and value.layout is strided and not value.is_nested:
                    storage = value.untyped_storage()
                    number = number_of(storage)
                    if number not in known:
                        hold(hold_number(storage))
                        known[number] = names[value.device]
                    layout = value.itemsize, value.storage_offset(), value.shape, value.stride()
                    into += place, number, same(layout, layout)
                elif kind is list or kind is tuple:
                    pieces(([(place, item) for item in value],), into)
                    into[_MADE] = begin
                elif isinstance(value, tensor):
                    _other(storages, pieces, (place, value), into)
                    into[_MADE] = begin

    return pieces


def _other(storages: _Storages, pieces: _Note, placed: tuple[Any, Any], into: list[Any]) -> None:
    """The same for a tensor on the simulated device, or a tensor that wraps others."""
    place, t = placed
    ref = getattr(t, "_ref", None)
    if ref is not None:
        held, spec = t._held, ref.spec
        number = -float(held) if held is not None else -0.5  # a number that is given once
        storages.device.setdefault(number, str(t.device))
        layout = spec.dtype.itemsize, spec.offset, spec.size, spec.stride
        into += place, number, storages.layouts.setdefault(layout, layout)
        return
    parts = torch_private.inner_tensors(t)
    if len(parts) != 1 or parts[0] is not t:
        pieces(([(place, part) for part in parts],), into)
        return
    with suppress(RuntimeError, NotImplementedError):  # of an opaque library: what it needs is not known
        storage = t.untyped_storage()
        number = torch_private.storage_number(storage)
        if number not in storages.device:
            storages.held.append(torch_private.hold_number(storage))
            storages.device[number] = storages.names[t.device]
        if t.is_nested:  # it has no shape: all of its memory
            into += place, number, (1, 0, (storage.nbytes(),), (1,))
        else:
            into += place, number, (t.dtype.itemsize, t.storage_offset(), t.shape, t.stride())


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
        # operations between ranks do not say what they write
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


class _Uses:
    """Makes uses of pieces; storages are numbered as they come, and what a layout says is worked out once."""

    def __init__(self) -> None:
        self._numbers: dict[float, int] = {}
        # by id, as a layout's own hash is slow: rows hold them all meanwhile
        self._spans: dict[int, tuple[int, int]] = {}
        self._shapes: dict[int, tuple[int, ...]] = {}

    def operator(self, plan: _Plan, used: list[_Piece], made: list[_Piece]) -> tuple[Use, ...]:
        """The memory that a call of an operator used and made."""
        writes, replaced, reads = plan.writes, plan.replaced, not plan.shape_only
        uses, inputs = [], set()
        for place, storage, layout in used:
            inputs.add(storage)
            is_read, is_written = reads and place not in replaced, place in writes
            if is_read or is_written:
                uses.append(self._use(storage, layout, is_read, is_written))
        uses += [self._use(storage, layout, False, True) for _, storage, layout in made if storage not in inputs]
        return tuple(uses)

    def shape(self, layout: _Layout) -> tuple[int, ...]:
        """The sizes as plain numbers."""
        known = self._shapes.get(id(layout))
        if known is None:
            known = self._shapes[id(layout)] = tuple(map(int, layout[2]))
        return known

    def _use(self, storage: float, layout: _Layout, reads: bool, writes: bool) -> Use:
        span = self._spans.get(id(layout))
        if span is None:
            span = self._spans[id(layout)] = _span(layout)
        numbers = self._numbers
        return Use(numbers.setdefault(storage, len(numbers)), *span, reads, writes)


def _span(layout: _Layout) -> tuple[int, int]:
    """The first byte in the storage, and the one behind the last."""
    item, offset, size, stride = layout
    low = int(offset) * item
    if 0 in size:
        return low, low
    return low, low + item * (1 + sum((int(n) - 1) * int(s) for n, s in zip(size, stride, strict=True)))
