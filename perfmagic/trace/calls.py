"""What the name of a CUDA or HIP runtime or driver call says: what it does, and whether it waits."""

from __future__ import annotations

import re

from perfmagic.trace.columns import CallKind

# First match wins. Read in the runtime and driver headers of CUDA 12.8 and ROCm 6.4.
_CALL_KINDS = (
    (re.compile(r"Launch(?!HostFunc)|Memcpy|Memset"), CallKind.LAUNCH),
    (re.compile(r"Synchronize"), CallKind.SYNC),
    (re.compile(r"StreamWait(?:Event|Value)"), CallKind.WAIT),
    (re.compile(r"EventRecord"), CallKind.RECORD),
    (re.compile(r"Malloc|Free|HostAlloc|Host(?:Unr|R)egister|Mem(?:Alloc|Create|Release|Map|Unmap)"), CallKind.MEMORY),
)
_RUNTIME_NAME = re.compile(r"(?:cuda|cu|hip|hsa_)")

_BLOCKING_COPY = re.compile(r"^(?:cuda|hip|cu)Memcpy(?!.*(?:Async|DtoD|Peer))")

_WAITS_FOR_ALL = re.compile(r"^(?:cuda|hip)DeviceSynchronize|^(?:cu|hip)CtxSynchronize")


def is_blocking_copy(name: str) -> bool:
    """Whether a runtime or driver call is a copy between host and device that returns only when it is done.

    cudaMemcpy, cuMemcpyDtoH, and HIP's hipMemcpyWithStream, which is what .item() calls there.
    """
    return _BLOCKING_COPY.match(name) is not None


def waits_for_all(name: str) -> bool:
    """Whether a runtime or driver call waits for all the streams of a device."""
    return _WAITS_FOR_ALL.match(name) is not None


def call_kind(name: str) -> CallKind:
    """What a CUDA or HIP runtime or driver call does, by its name."""
    if _RUNTIME_NAME.match(name):
        for pattern, kind in _CALL_KINDS:
            if pattern.search(name):
                return kind
    return CallKind.OTHER
