"""What the name of a runtime call says."""

from __future__ import annotations

import pytest

from perfmagic.trace.calls import call_kind, is_blocking_copy
from perfmagic.trace.columns import CallKind


def test_a_copy_whose_call_waits_is_told_from_one_that_is_queued() -> None:
    blocking = "cudaMemcpy cudaMemcpy2D cuMemcpyDtoH_v2 hipMemcpy hipMemcpyWithStream hipMemcpyHtoD"
    queued = "cudaMemcpyAsync cuMemcpyHtoDAsync_v2 hipMemcpyAsync cudaMemcpyPeer cuMemcpyDtoD_v2 cudaMemset aten::copy_"
    assert all(map(is_blocking_copy, blocking.split()))
    assert not any(map(is_blocking_copy, queued.split()))


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("cudaLaunchKernel cuLaunchKernelEx hipExtModuleLaunchKernel cudaGraphLaunch cudaMemcpyAsync", CallKind.LAUNCH),
        ("hipMemcpyWithStream cudaMemsetAsync cuMemcpyHtoDAsync_v2 cuMemsetD8Async", CallKind.LAUNCH),
        ("cudaDeviceSynchronize cudaStreamSynchronize cuCtxSynchronize hipEventSynchronize", CallKind.SYNC),
        ("cudaStreamWaitEvent hipStreamWaitEvent cuStreamWaitValue32", CallKind.WAIT),
        ("cudaEventRecord cudaEventRecordWithFlags", CallKind.RECORD),
        ("cudaMalloc cudaFree cudaHostAlloc cuMemAlloc_v2 hipFreeAsync cudaHostRegister", CallKind.MEMORY),
        ("cudaLaunchHostFunc cudaEventQuery cudaMemGetInfo INVALID my_memcpy", CallKind.OTHER),
    ],
)
def test_a_call_name_gives_its_kind(names: str, kind: CallKind) -> None:
    assert {name: call_kind(name) for name in names.split()} == dict.fromkeys(names.split(), kind)
