"""A host and a device whose times are exact: a clock that moves only when somebody works."""

from perfmagic.capture.bench.engine import BenchSpec, Engine
from perfmagic.capture.bench.spec import Host
from perfmagic.trace.model import DeviceInfo

MS = 1_000_000


class Machine:
    """The clock, one in-order queue, and the backend protocol on top of it."""

    kind = "cuda"

    def __init__(self, *, started: bool = False, events: bool = True, backlog: bool = True) -> None:
        self.now_ns = 0
        self.queue_end_ns = 0
        self.started, self._events, self._backlog = started, events, backlog
        self.backlogs_s: list[float] = []
        self.runs = 0
        self.held: int | None = None  # bytes on the device, None where it does not tell
        self.peak = 0
        self.depths: list[int] = []  # runs of the body at each synchronise

    def clock_ns(self) -> int:
        return self.now_ns

    def work(self, host_ns: int) -> None:
        self.now_ns += host_ns

    def body(self, host_ns: int, device_ns: int = 0) -> None:
        """One run: some Python, then work for the device."""
        self.runs += 1
        self.work(host_ns)
        if device_ns:
            self.started = True
            self.queue_end_ns = max(self.now_ns, self.queue_end_ns) + device_ns

    def backends(self):
        return (self,) if self.started else ()

    def in_use(self) -> bool:
        return self.started

    def infos(self):
        return (DeviceInfo(0, self.kind, "fake device"),)

    def synchronize(self) -> None:
        self.now_ns = max(self.now_ns, self.queue_end_ns)
        self.depths.append(self.runs)

    def progress(self, index: int | None = None) -> int | None:
        return None

    def has_events(self) -> bool:
        return self._events

    def event(self) -> int:
        return max(self.now_ns, self.queue_end_ns)

    def elapsed_ns(self, first: int, second: int) -> int:
        return second - first

    def occupy(self, seconds: float) -> bool:
        if self._backlog:
            self.backlogs_s.append(seconds)
            self.queue_end_ns = max(self.now_ns, self.queue_end_ns) + round(seconds * 1e9)
        return self._backlog

    def memory_bytes(self):
        return None if self.held is None else (self.held, max(self.held, self.peak))

    def reset_peak_memory(self) -> None:
        self.peak = 0

    def engine(self, spec: BenchSpec | None = None, *, synced: bool = False, **more) -> Engine:
        """An engine on this machine; spec: five samples without warm-up where none is given."""
        spec = spec or BenchSpec(samples=5, warmup=0)
        around = {name: more.pop(name) for name in ("load", "rest", "clocks") if name in more}
        return Engine(spec, synced=synced, host=self.host(**around), **more)

    def host(self, **around) -> Host:
        """What an engine sees of this machine."""
        return Host(**{"clock_ns": self.clock_ns, "backends": self.backends, "load": float, **around})

    def measure(self, host_ns: int, device_ns: int = 0, spec: BenchSpec | None = None, *, synced: bool = False, **more):
        """The record of a body with these times."""
        engine = self.engine(spec, synced=synced, **more)
        for () in engine.calls():
            self.body(host_ns, device_ns)
        engine.close()
        return engine.record()
