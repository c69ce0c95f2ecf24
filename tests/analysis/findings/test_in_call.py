"""What to do about calls that held Python, by what the call does."""

import pytest

from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.launches import in_call
from perfmagic.base.numerics.intervals import EMPTY, complement
from perfmagic.trace.columns import CallKind
from tests.analysis.build import US, Builder
from tests.trace.recorded import recorded


def advice(name: str, *lengths: float) -> str:
    b, at = Builder(), 100.0
    b.op(10, 20, launch=2)
    for length in lengths:
        b.launch(at, at + length, name=name, kind=CallKind.MEMORY)
        b.op(at + length + 10, at + length + 20, launch=at + length + 5)
        at += length + 100
    facts = Facts(b.trace())
    (finding,) = in_call(facts, complement(EMPTY, 0, round(at * US)))
    return finding.advice


@pytest.mark.parametrize(
    ("name", "lengths", "words"),
    [
        ("cudaMalloc", (300, 300), "expandable_segments"),
        ("cudaFree", (300, 300, 300), "num_alloc_retries"),
        ("cudaFree", (9000, 300, 300), "run the cell once before recording"),
        ("cudaLaunchKernel", (300,), "CUDA_MODULE_LOADING=EAGER"),
        ("cudaFuncGetAttributes", (300,), "CUDA_MODULE_LOADING=EAGER"),
        ("cudaHostAlloc", (300,), "memory"),
    ],
)
def test_the_advice_fits_the_call(name: str, lengths: tuple[float, ...], words: str) -> None:
    assert words in advice(name, *lengths)


def test_the_first_free_of_a_library_is_not_laid_on_the_allocator() -> None:
    # the raw file: cudaFree of 6,009 and 525 ms in the first two calls of aten::cudnn_convolution, the rest below 5 ms
    (found,) = (f for f in findings(recorded("a100_alexnet_cuda_sync")) if f.rule == "in_call")
    assert "cudaFree" in found.detail
    assert "cuDNN" in found.advice
    assert "PYTORCH_ALLOC_CONF" not in found.advice
