"""Every operator on torch's own list: on the simulated device it gives what the CPU gives, or one clear error.

What is refused, and what cannot be compared, stands here by name with its reason: a change is a line of the diff.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="devices are reached through torch")

from perfmagic import sim  # noqa: E402 - after the skip
from perfmagic.base.errors import DeviceError  # noqa: E402
from tests.conformance import operators  # noqa: E402

pytestmark = pytest.mark.slow


# draw random numbers, which are the device's own: only shapes and types are compared
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "nn.functional.alpha_dropout",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout.with_train", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward", "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention", "normal", "normal.in_place", "normal.number_mean", "rand_like",
    "randint", "randint_like", "randn", "randn_like", "uniform",
}  # fmt: skip
# hand out memory as it is found
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

_SPARSE = "the device holds dense tensors only"
_HOST_INDICES = "as on CUDA: the indices have to be on the host"
_SAVED = "in evaluation the CPU's kernel leaves out the saved statistics, whose shape the host has been told"
_LISTS = "a list of out= tensors is not resized"
# name, variant -> reason
REFUSED = {
    ("_native_batch_norm_legit", ""): _SAVED,
    ("native_batch_norm", ""): _SAVED,
    ("split_with_sizes_copy", "empty out"): _LISTS,
    ("tensor_split", ""): _HOST_INDICES,
    ("to_sparse", ""): _SPARSE,
    ("unbind_copy", "empty out"): _LISTS,
}
_CHECKS = "torch looks whether the gradient is well defined at plain tensors only"
# works here where the CPU raises, or gives other values; name, variant -> reason
DIFFERENT = {
    ("linalg.eig", ""): _CHECKS,
    ("linalg.eigh", ""): _CHECKS,
    ("native_batch_norm", "out"): _SAVED,
    ("native_batch_norm", "out with gaps"): _SAVED,
    ("native_batch_norm", "empty out"): _SAVED,
}
# words of an error that says nothing to a user
_RAW = ("INTERNAL ASSERT", "returned NULL without setting", "has no attribute", "Could not run", "Please file")
SAMPLES = {torch.float32: 2}  # of each of the other types one


def _verdict(name: str, variant: str, here: operators.Outcome, there: operators.Outcome) -> str:
    """What is wrong with a pair of outcomes; empty if nothing is."""
    if there.error is not None:
        if here.error is None:
            return f"refused: {there.error}" if _is_clear(there.error) else f"raw error: {there.error!r}"
        return ""
    if here.error is not None:
        return f"the CPU raises {here.error!r}"
    return operators.difference(here.values, there.values, values=name not in RANDOM | UNDEFINED)


def _is_clear(error: BaseException) -> bool:
    clear = isinstance(error, (DeviceError, RuntimeError, NotImplementedError))
    return clear and not any(words in str(error) for words in _RAW)


def _findings(ops: Iterable[Any]) -> dict[tuple[str, str], list[str]]:
    """(name, variant) -> what is wrong, for all operators that differ or are refused."""
    found: dict[tuple[str, str], list[str]] = {}
    for op in ops:
        name = operators.name_of(op)
        for dtype in (d for d in operators.DTYPES if d in op.dtypes):
            for sample in operators.samples_of(op, dtype, SAMPLES.get(dtype, 1)):
                for variant, call in operators.variants_of(op, dtype, sample):
                    here, there = operators.outcome(call, "cpu"), operators.outcome(call, "sim")
                    wrong = _verdict(name, variant, here, there)
                    if wrong:
                        found.setdefault((name, variant), []).append(f"{dtype}: {wrong}")
    return found


@pytest.fixture(autouse=True)
def _sim() -> None:
    try:
        sim.load()
    except DeviceError as error:
        pytest.skip(str(error))
    sim.set_pace(None)
    torch.set_num_threads(1)


def _check(found: dict[tuple[str, str], list[str]]) -> None:
    refused = {key for key, lines in found.items() if all("refused: " in line for line in lines)}
    unknown = {key: found[key] for key in found.keys() - REFUSED.keys() - DIFFERENT.keys()}
    assert unknown == {}
    assert {key: found[key] for key in (found.keys() & REFUSED.keys()) - refused} == {}


def test_every_operator_gives_the_cpu_values_or_a_clear_error() -> None:
    ops = operators.operators()
    with ThreadPoolExecutor(1) as pool:  # torch writes down the whole stack for each sample: it is short there
        found = pool.submit(_findings, ops).result()
    _check(found)
    assert sorted(found) == sorted({**REFUSED, **DIFFERENT}), "one that works now leaves the list"
    assert {operators.name_of(op) for op in ops} >= RANDOM | UNDEFINED
    assert len(ops) > 500


@pytest.mark.parametrize(
    ("here", "there", "wrong"),
    [
        (torch.ones(2), torch.ones(2), ""),
        (torch.ones(2), torch.tensor([1.0, 2.0]), "Mismatched elements: 1 / 2"),
        (torch.ones(2), torch.ones(3), "(2,)"),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), "float64"),
        ([torch.ones(2)], [torch.ones(2), torch.ones(2)], "1 results here, 2 there"),
        (3, 4, "3 here, 4 there"),
    ],
)
def test_a_wrong_result_is_seen(here: Any, there: Any, wrong: str) -> None:
    assert wrong in operators.difference(here, there, values=True)
    assert bool(wrong) == bool(operators.difference(here, there, values=True))


def test_an_error_without_words_is_seen() -> None:
    raw = operators.Outcome(error=SystemError("run_backward returned NULL without setting an exception"))
    assert "raw error" in _verdict("add", "", operators.Outcome(values=1), raw)
    clear = operators.Outcome(error=DeviceError("not here", hint="there"))
    assert "refused" in _verdict("add", "", operators.Outcome(values=1), clear)
    assert _verdict("add", "", clear, clear) == ""
    assert "the CPU raises" in _verdict("add", "", clear, operators.Outcome(values=1))
