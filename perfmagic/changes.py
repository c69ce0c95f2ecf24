"""Changes for `t.what_if(...)`: what would be done differently, as the record can be replayed with it.

>>> from perfmagic.changes import pin, no_item
>>> t.what_if(pin(), no_item(line=4))

Of several ranks together: `ranks.what_if(on_time())`, `ranks.what_if(pin(), ranks=3)`.
"""

from __future__ import annotations

import ast
import math

from perfmagic.analysis.replay.changes.change import COPIES, Change, OnTime
from perfmagic.analysis.replay.changes.copies import NoWaits, Overlapped, OwnStream, Pin
from perfmagic.analysis.replay.changes.gpu import OnGpu
from perfmagic.analysis.replay.changes.host import FasterPython, NoItem, NoLine, Prefetch
from perfmagic.analysis.replay.changes.kernels import FasterKernels, Fused, OneGraph
from perfmagic.base.errors import OptionError
from perfmagic.base.options import documented
from perfmagic.predict.gpus import gpu_named
from perfmagic.trace.names import OpClass

__all__ = [
    "Change", "faster", "faster_python", "fused", "no_item", "no_python", "no_waits", "on", "on_time", "one_graph",
    "overlap_communication", "overlap_copies", "own_stream", "pin", "prefetch",
]  # fmt: skip

MOST_CHARS = 1000  # of changes that are written as code
LEAST_FACTOR = 0.001  # a thousand times as slow: beyond that times would not fit


@documented()
def pin(line: int | None = None) -> Change:
    """pin_memory() and non_blocking=True for copies to the device.  line: only those of this line."""
    return Pin(_line("pin", line))


@documented()
def no_item(line: int | None = None) -> Change:
    """No .item(), .cpu() or other blocking read before the end of the cell.  line: only those of this line."""
    return NoItem(_line("no_item", line))


@documented()
def own_stream(line: int | None = None) -> Change:
    """Copies on a separate stream, with the waits that keep results right.  line: only those of this line."""
    return OwnStream(_line("own_stream", line))


@documented()
def no_waits() -> Change:
    """No stream waits for another. Results stay right only where no op needs data from another stream."""
    return NoWaits()


@documented()
def on(gpu: str) -> Change:
    """The same run on another GPU, predicted.  gpu: its name, such as "H100", "MI300X" or "RTX 4090".

    Kernels change by operator, shapes and types: the record needs record_shapes=True. The host stays as recorded, and
    so do kernels without a model; the interval includes that they change as the others do. Pinned copies change with
    the generation of PCIe. Four of five predictions of device time are within a factor of 1.4, or 1.5 where no such GPU
    was fitted. Of one operator they are rough.
    """
    if not isinstance(gpu, str):
        raise OptionError(f"on: {gpu!r} is not the name of a GPU", hint='on("H100")')
    return OnGpu(gpu_named(gpu))


@documented()
def on_time() -> Change:
    """No rank comes later to a collective than the median of its ranks; for ranks.what_if()."""
    return OnTime()


@documented()
def one_graph(line: int | None = None) -> Change:
    """The ops launched together, as one CUDA graph.  line: only those that this line queued."""
    return OneGraph(_line("one_graph", line))


@documented()
def fused(line: int | None = None) -> Change:
    """Successive elementwise kernels fused, as torch.compile does.  line: only those that this line queued.

    The fused kernel takes between the time of the longest and the time of all together.
    """
    return Fused(_line("fused", line))


@documented()
def overlap_copies(line: int | None = None) -> Change:
    """Copies that take no time: the most that overlap can gain.  line: only those of this line."""
    return Overlapped("copies", COPIES, _line("overlap_copies", line))


@documented()
def overlap_communication(line: int | None = None) -> Change:
    """Communication that takes no time: the most that overlap can gain.  line: only that of this line."""
    return Overlapped("communication", (OpClass.COMMUNICATION,), _line("overlap_communication", line))


@documented()
def prefetch() -> Change:
    """Batches are ready when Python asks a DataLoader for them: num_workers fetches ahead."""
    return Prefetch()


@documented()
def faster(name: str = "", k: float = 2.0, line: int | None = None) -> Change:
    """Kernels k times as fast.

    name: a part of the kernel's name; all but communication where left out.  line: only those that this line queued.
    """
    if not isinstance(name, str):
        raise OptionError(f"faster: {name!r} is not part of a kernel's name", hint='faster("gemm", k=2)')
    return FasterKernels(name, _factor("faster", k), _line("faster", line))


@documented()
def faster_python(k: float = math.inf) -> Change:
    """Python and its calls k times as fast; no time at all where left out: what launches cost at most."""
    return FasterPython(_factor("faster_python", k))


@documented()
def no_python(line: int) -> Change:
    """The cell without the Python time of a line; what the line queues stays."""
    checked = _line("no_python", line)
    if checked is None:
        raise OptionError("no_python: a line is needed", hint="no_python(line=4)")
    return NoLine(checked)


def written_changes(text: str) -> tuple[Change, ...]:
    """Changes that are written as code, such as "no_item(line=4), pin()": names, numbers and texts, nothing is run.

    Raises OptionError for anything else.
    """
    hint = f"no_item(line=4), pin(); there are {', '.join(__all__[1:])}"
    try:
        calls = ast.parse(f"[{text}]", mode="eval").body if len(text) <= MOST_CHARS else None
        if not isinstance(calls, ast.List) or not calls.elts:
            raise ValueError(text)
        return tuple(_called(call) for call in calls.elts)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise OptionError(f"{text[:80]!r} is not a change", hint=hint) from None


def _called(call: ast.expr) -> Change:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in __all__[1:]:
        raise ValueError("no call of a change")
    given = [_value(argument) for argument in call.args]
    named = {keyword.arg or "": _value(keyword.value) for keyword in call.keywords}
    made: Change = globals()[call.func.id](*given, **named)
    return made


def _value(node: ast.expr) -> object:
    if ast.unparse(node) in ("math.inf", "inf"):
        return math.inf
    return ast.literal_eval(node)


def _line(what: str, line: int | None) -> int | None:
    if line is None:
        return None
    if type(line) is not int or line < 1:
        message = f"{what}: line={line!r} is not a line of a cell"
        raise OptionError(message, hint="lines count from 1, the magic's own included")
    return line


def _factor(what: str, k: float) -> float:
    if type(k) not in (int, float) or not k >= LEAST_FACTOR:
        hint = f"k=2 is twice as fast, k=0.5 half as fast, k=math.inf takes no time; the least is {LEAST_FACTOR}"
        raise OptionError(f"{what}: k={k!r} is not a factor", hint=hint)
    return float(k)
