"""Traces of operators with shapes, as torch.profiler writes them with record_shapes=True."""

from dataclasses import dataclass, field
from typing import Any

from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.trace.recorded import as_bytes, event

BF16, FLOAT, HALF = "c10::BFloat16", "float", "c10::Half"
A100: dict[str, Any] = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85 * 10**9, "numSms": 108}
HOST: dict[str, Any] = {"pid": 9, "tid": 9}


@dataclass
class Shaped:
    """Collects operators, one after the other, each with the kernels it launched; times in µs.

    The device runs them back to back from 1000 µs on; the host queues one every 10 µs.
    """

    properties: dict[str, Any] | None = field(default_factory=lambda: dict(A100))
    events: list[dict[str, Any]] = field(default_factory=list)
    host_us: float = 0.0
    device_us: float = 1000.0
    n: int = 0

    def op(
        self,
        name: str,
        shapes: list[Any] | None = None,
        dtypes: list[str] | str | None = None,
        kernels: tuple[tuple[str, float], ...] = (("void gemm", 10.0),),
        *,
        inside: tuple[str, ...] = (),
        values: list[str] | None = None,
        call: str = "cudaLaunchKernel",
        grid: tuple[int, int, int] = (1000, 1, 1),
        stream: int = 7,
    ) -> "Shaped":
        """One call of an operator. inside: operators around it, the outermost first.  call: what launches its kernels,
        all with one call if it launches a graph."""
        start, args = self.host_us, self._inputs(shapes, dtypes, values)
        for around, outer in enumerate(inside):
            self.events.append(event("cpu_op", outer, start + 0.1 * around, 9 - 0.2 * around, **HOST))
        self.events.append(event("cpu_op", name, start + 1, 7, **HOST, **args))
        self._launch(kernels, start + 2, call, grid, stream)
        self.host_us += 10
        return self

    def bare(self, kernels: tuple[tuple[str, float], ...], *, call: str = "cudaLaunchKernel", **more: Any) -> "Shaped":
        """Kernels without an operator around their launch."""
        self._launch(kernels, self.host_us + 2, call, more.get("grid", (1000, 1, 1)), more.get("stream", 7))
        self.host_us += 10
        return self

    def orphan(self, kernel: str, length_us: float) -> "Shaped":
        """A kernel whose launch was not recorded."""
        self.events.append(event("kernel", kernel, self.device_us, length_us, stream=7, device=0, correlation=-1))
        self.device_us += length_us
        return self

    def span(self, cat: str, name: str, start: float, length: float) -> "Shaped":
        """A frame or an annotation of the host."""
        self.events.append(event(cat, name, start, length, **HOST))
        return self

    def trace(self) -> Trace:
        header = {"deviceProperties": [self.properties]} if self.properties else {}
        return read_trace(as_bytes(self.events, **header))

    @staticmethod
    def _inputs(shapes: list[Any] | None, dtypes: list[str] | str | None, values: list[str] | None) -> dict[str, Any]:
        if shapes is None:
            return {}
        types = [dtypes if shape else "Scalar" for shape in shapes] if isinstance(dtypes, str) else dtypes
        args: dict[str, Any] = {"Input Dims": shapes}
        args |= {"Input type": types} if types is not None else {}
        return args | ({"Concrete Inputs": values} if values is not None else {})

    def _launch(
        self, kernels: tuple[tuple[str, float], ...], at: float, call: str, grid: tuple[int, int, int], stream: int
    ) -> None:
        one_call = "Graph" in call
        for i, (name, length) in enumerate(kernels):
            if i == 0 or not one_call:
                self.n += 1
                self.events.append(event("cuda_runtime", call, at + 0.5 * i, 0.4, **HOST, correlation=self.n))
            where = {"stream": stream, "device": 0, "correlation": self.n, "grid": list(grid), "block": [128, 1, 1]}
            self.events.append(event("kernel", name, self.device_us, length, tid=stream, **where))
            self.device_us += length
