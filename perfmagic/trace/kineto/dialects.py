"""Chrome JSON of other programs, in the words of torch.profiler: categories, arguments and names of Python functions.

CUPTI and its samples, nsys2json, ROCm's profilers and VizTracer write spans as Chrome has them, each with words of its
own. What they do not record stays unknown.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from perfmagic.trace.kineto.decode import NO_TEXT, Event, Span

_KERNEL, _COPY, _SET, _CALL, _RANGE, _FRAME = (
    *("kernel", "gpu_memcpy", "gpu_memset"),
    *("cuda_runtime", "user_annotation", "python_function"),
)
CATEGORIES = {
    **dict.fromkeys(("CONCURRENT_KERNEL", "KERNEL", "GPU_Kernel", "gpu_kernel", "cuda_kernel", "cuda"), _KERNEL),
    **dict.fromkeys(("kernel_dispatch", "KERNEL_DISPATCH"), _KERNEL),
    **dict.fromkeys(("MEMCPY", "MemCopy", "cuda_memcpy", "memory_copy", "MEMORY_COPY"), _COPY),
    **dict.fromkeys(("MEMSET", "cuda_memset"), _SET),
    **dict.fromkeys(("RUNTIME", "DRIVER", "CUDA_Runtime", "CUDA_Driver", "CUDA_API", "cuda_api"), _CALL),
    **dict.fromkeys(("hip_api", "HIP_API", "hip_runtime_api", "HIP_RUNTIME_API", "hsa_api", "HSA_API"), _CALL),
    **dict.fromkeys(("nvtx", "NVTX", "MARKER", "marker_api", "roctx"), _RANGE),
    "FEE": _FRAME,  # VizTracer's: function entry and exit
}
_ARGUMENTS = {
    **dict.fromkeys(("correlationId", "correlation_id", "corr_id"), "correlation"),
    **dict.fromkeys(("deviceId", "device_id"), "device"),
    **dict.fromkeys(("streamId", "stream_id"), "stream"),
    "size": "bytes",
}
_PREFIX = re.compile(r"^(?:Runtime|Driver|Kernel): ")
_FUNCTION = re.compile(r"^(.+) \((.+):(\d+)\)$")  # VizTracer: "step (train.py:12)"


def in_kineto_words(events: list[Event], rows: list[int]) -> None:
    """Translate some spans in place.  rows: those with a category of CATEGORIES."""
    for row in rows:
        span = events[row]
        if not isinstance(span, Span):
            continue
        name = _FUNCTION.sub(r"\2(\3): \1", span.name) if span.cat == "FEE" else _PREFIX.sub("", span.name)
        changed = {"cat": CATEGORIES[span.cat], "name": name, "args": _arguments(span.args)}
        events[row] = msgspec.structs.replace(span, **changed)


def _arguments(text: msgspec.Raw) -> msgspec.Raw:
    given: Any = msgspec.json.decode(text) if text else None
    if not isinstance(given, dict) or given.keys().isdisjoint(_ARGUMENTS):
        return text or NO_TEXT
    return msgspec.Raw(msgspec.json.encode({_ARGUMENTS.get(key, key): value for key, value in given.items()}))
