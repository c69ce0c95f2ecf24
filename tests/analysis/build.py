"""Small traces by hand, in microseconds, so that a test reads as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from perfmagic.trace.columns import CallKind, HostKind, OpKind
from perfmagic.trace.model import Cell, DeviceInfo, LaunchShape, Trace, TraceMeta, make_trace

US = 1000


@dataclass
class Builder:
    """Collects rows in µs and makes a trace in ns.

    op() queues one device op and records its launch; every time is (start, end).
    """

    names: list[str] = field(default_factory=list)
    ops: list[dict[str, int | bool]] = field(default_factory=list)
    calls: list[dict[str, int]] = field(default_factory=list)
    host: list[dict[str, int]] = field(default_factory=list)
    waits: list[dict[str, int]] = field(default_factory=list)
    marks: list[tuple[float, int]] = field(default_factory=list)
    shapes: list[LaunchShape] = field(default_factory=list)

    def _name(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def _shape(self, shape: LaunchShape) -> int:
        if shape not in self.shapes:
            self.shapes.append(shape)
        return self.shapes.index(shape)

    def launch(
        self,
        start: float,
        end: float | None = None,
        *,
        correlation: int | None = None,
        name: str = "cudaLaunchKernel",
        kind: CallKind = CallKind.LAUNCH,
        thread: int = 1,
    ) -> int:
        """A call on the host; returns its correlation id."""
        correlation = len(self.calls) + 1 if correlation is None else correlation
        during = _span(start, start + 1 if end is None else end)
        self.calls.append(
            {**during, "kind": int(kind), "name": self._name(name), "thread": thread, "correlation": correlation}
        )
        return correlation

    def sync(self, start: float, end: float, name: str = "cudaStreamSynchronize", thread: int = 1) -> int:
        return self.launch(start, end, name=name, kind=CallKind.SYNC, thread=thread)

    def op(
        self,
        start: float,
        end: float,
        *,
        launch: float | tuple[float, float] | None = None,
        of: int | None = None,
        name: str = "kernel",
        stream: int = 7,
        device: int = 0,
        size: int = -1,
        thread: int = 1,
        shape: LaunchShape | None = None,
    ) -> int:
        """A device op; launch: when it was launched, `of`: the launch it belongs to, neither: no launch record."""
        kind = {"Memcpy": OpKind.MEMCPY, "Memset": OpKind.MEMSET}.get(name[:6], OpKind.KERNEL)
        call = "cudaMemcpyAsync" if kind == OpKind.MEMCPY else "cudaLaunchKernel"
        if launch is not None:
            first, last = launch if isinstance(launch, tuple) else (launch, launch + 1)
            of = self.launch(first, last, name=call, thread=thread)
        of = -1 if of is None else of
        what = {"kind": int(kind), "name": self._name(name), "shape": -1 if shape is None else self._shape(shape)}
        where = {"device": device, "stream": stream, "correlation": of, "size_bytes": size}
        self.ops.append(_span(start, end) | what | where)
        return of

    def host_op(self, start: float, end: float, name: str, thread: int = 1, kind: HostKind = HostKind.OP) -> None:
        self.host.append(_span(start, end) | {"kind": int(kind), "name": self._name(name), "thread": thread})

    def wait(
        self, at: float, stream: int, on_stream: int, recorded: int, *, device: int = 0, on_device: int = -1
    ) -> int:
        """The stream waits for what was launched on another one up to the correlation id `recorded`."""
        correlation = self.launch(at, name="cudaStreamWaitEvent", kind=CallKind.WAIT)
        what = {"at_ns": round(at * US), "correlation": correlation, "device": device, "stream": stream}
        self.waits.append(what | {"on_stream": on_stream, "on_correlation": recorded, "on_device": on_device})
        return correlation

    def line(self, at: float, line: int) -> None:
        self.marks.append((at, line))

    def trace(
        self,
        start: float = 0,
        end: float | None = None,
        returned: float | None = None,
        devices: Sequence[DeviceInfo] = (DeviceInfo(0, "cuda", "Test GPU"),),
        cell: str | None = None,
        **meta: object,
    ) -> Trace:
        last = max((row["end_ns"] for row in [*self.ops, *self.calls, *self.host]), default=0)
        return make_trace(
            self.names,
            TraceMeta(
                origin="cell",
                start_ns=round(start * US),
                end_ns=last if end is None else round(end * US),
                returned_ns=None if returned is None else round(returned * US),
                devices=tuple(devices),
                **meta,  # type: ignore[arg-type]
            ),
            ops=_columns(self.ops),
            calls=_columns(self.calls),
            host_ops=_columns(self.host),
            waits=_columns(self.waits),
            marks=_columns([{"at_ns": round(at * US), "line": line, "top_line": line} for at, line in self.marks]),
            cell=None if cell is None else Cell(cell),
            shapes=self.shapes,
        )


def queued(*ops: tuple[float, float, float | tuple[float, float]]) -> Builder:
    """Ops of one stream by start, end and launch, in µs."""
    b = Builder()
    for start, end, launch in ops:
        b.op(start, end, launch=launch)
    return b


def _span(start: float, end: float) -> dict[str, int]:
    return {"start_ns": round(start * US), "end_ns": round(end * US)}


def _columns(rows: Sequence[dict[str, int | bool]] | Sequence[dict[str, int]]) -> dict[str, list[int | bool]] | None:
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else None
