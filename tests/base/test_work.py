"""Operations and bytes from shapes, against torch's own counter on tensors without data."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.base.work import Inputs, describe_dtype, describe_shape, flop_is_at_most, flop_of, io_bytes_of

torch = pytest.importorskip("torch")
from torch.utils.flop_counter import FlopCounterMode, flop_registry  # noqa: E402

SIZE = st.integers(1, 9)
PLENTY = settings(max_examples=60, deadline=None)


def meta(*shape: int) -> Any:
    return torch.empty(shape, device="meta", dtype=torch.float32)


def inputs(*args: Any) -> Inputs:
    """As the profiler writes the arguments of a call."""
    shapes = [list(a.shape) if isinstance(a, torch.Tensor) else [] for a in args]
    dtypes = ["float" if isinstance(a, torch.Tensor) else "Scalar" for a in args]
    values = ["" if isinstance(a, torch.Tensor) or a is None else str(a) for a in args]
    return Inputs.read(json.dumps(shapes), json.dumps(dtypes), json.dumps(values))


def counted(call: Any, *args: Any) -> tuple[int, Any]:
    """What torch counts for a call, and what the call gives."""
    with FlopCounterMode(display=False) as mode:
        result = call(*args)
    return mode.get_total_flops(), result


def size_bytes(*tensors: Any) -> int:
    return sum(4 * t.numel() for t in tensors)


@pytest.mark.slow
@PLENTY
@given(SIZE, SIZE, SIZE, SIZE)
def test_products_are_counted_as_torch_counts_them(b: int, m: int, n: int, k: int) -> None:
    aten = torch.ops.aten
    for name, call, args in (
        ("aten::mm", aten.mm, (meta(m, k), meta(k, n))),
        ("aten::addmm", aten.addmm, (meta(n), meta(m, k), meta(k, n))),
        ("aten::bmm", aten.bmm, (meta(b, m, k), meta(b, k, n))),
        ("aten::baddbmm", aten.baddbmm, (meta(b, m, n), meta(b, m, k), meta(b, k, n))),
        ("aten::linear", torch.nn.functional.linear, (meta(b, m, k), meta(n, k), meta(n))),
    ):
        flop, result = counted(call, *args)
        assert flop_of(name, inputs(*args)) == flop > 0
        assert io_bytes_of(name, inputs(*args)) == size_bytes(*args, result)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Any, ...]:
    """The arguments of aten::convolution that fit each other."""
    dims, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    transposed = draw(st.booleans())
    c_in, c_out = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    several = st.lists(st.integers(1, 3), min_size=dims, max_size=dims)
    kernel, stride, dilation = draw(several), draw(several), draw(several)
    padding = draw(st.lists(st.integers(0, 2), min_size=dims, max_size=dims))
    # large enough for one place of the filter
    size = [d * (k - 1) + 1 + draw(st.integers(0, 4)) for k, d in zip(kernel, dilation, strict=True)]
    weight = (c_in, c_out // groups, *kernel) if transposed else (c_out, c_in // groups, *kernel)
    x, w = meta(draw(st.integers(1, 3)), c_in, *[n + 2 * p for n, p in zip(size, padding, strict=True)]), meta(*weight)
    return x, w, None, stride, padding, dilation, transposed, [0] * dims, groups


@PLENTY
@given(convolutions())
def test_convolutions_are_counted_as_torch_counts_them(args: tuple[Any, ...]) -> None:
    flop, result = counted(torch.ops.aten.convolution, *args)
    assert flop_of("aten::convolution", inputs(*args)) == flop > 0
    if not args[6]:
        assert io_bytes_of("aten::convolution", inputs(*args)) == size_bytes(args[0], args[1], result)


@PLENTY
@given(convolutions(), st.tuples(st.booleans(), st.booleans()))
def test_gradients_of_convolutions_are_counted_as_torch_counts_them(
    args: tuple[Any, ...], wanted: tuple[bool, bool]
) -> None:
    x, w, groups = args[0], args[1], args[8]
    grad = torch.ops.aten.convolution(*args)
    mask = [*wanted, False]
    backward = (grad, x, w, None, *args[3:], mask)
    flop, _ = counted(torch.ops.aten.convolution_backward, *backward)
    found = flop_of("aten::convolution_backward", inputs(*backward))
    once = flop_of("aten::convolution", inputs(*args))
    assert found == once * sum(wanted)
    if groups == 1:
        assert found == flop
    elif wanted == (False, True):  # torch's counter takes every pair of channels there, also of different groups
        assert found * groups == flop


@PLENTY
@given(SIZE, st.integers(1, 3), st.integers(1, 3), SIZE, SIZE, SIZE, SIZE)
def test_attention_is_counted_as_torch_counts_it(b: int, kv: int, share: int, n: int, m: int, d: int, d_v: int) -> None:
    q, k, v = meta(b, kv * share, n, d), meta(b, kv, m, d), meta(b, kv, m, d_v)
    grad = meta(b, kv * share, n, d_v)
    aten = torch.ops.aten
    for kind in ("flash", "efficient", "cudnn"):
        name = f"_scaled_dot_product_{kind}_attention"
        rule, back = flop_registry[getattr(aten, name)], flop_registry[getattr(aten, f"{name}_backward")]
        result: dict[str, Any] = {"out_val": None}
        assert flop_of(f"aten::{name}", inputs(q, k, v)) == rule(q, k, v, **result)
        assert flop_of(f"aten::{name}_backward", inputs(grad, q, k, v)) == back(grad, q, k, v, **result)
        assert io_bytes_of(f"aten::{name}", inputs(q, k, v)) == size_bytes(q, k, v, grad)


@PLENTY
@given(SIZE, st.integers(1, 3), SIZE, SIZE, SIZE, st.sampled_from(("flash", "efficient", "cudnn")))
def test_causal_attention_counts_the_products_that_its_mask_leaves(
    b: int, heads: int, n: int, d: int, d_v: int, kind: str
) -> None:
    q, v = meta(b, heads, n, d), meta(b, heads, n, d_v)
    pairs = sum(key <= query for query in range(n) for key in range(n))
    at = {"flash": (4, 11), "efficient": (6, 11), "cudnn": (6, 14)}[kind]  # of is_causal, by torch's schema
    for backward, flop in ((False, 2 * (d + d_v)), (True, 2 * (3 * d + 2 * d_v))):
        tensors = [v, q, q, v] if backward else [q, q, v]
        name = f"aten::_scaled_dot_product_{kind}_attention{'_backward' if backward else ''}"
        names = [a.name for a in getattr(torch.ops.aten, name.removeprefix("aten::")).default._schema.arguments]
        assert names[at[backward]] == "is_causal"
        rest: list[Any] = [None] * (at[backward] - len(tensors))
        whole, half, unknown = (inputs(*tensors, *more) for more in ([*rest, False], [*rest, True], []))
        assert flop_of(name, half) == flop * b * heads * pairs
        assert flop_of(name, whole) == flop_of(name, unknown) == flop * b * heads * n * n
        assert [flop_is_at_most(name, one) for one in (whole, half, unknown)] == [False, False, True]


def test_causal_attention_of_fewer_queries_than_keys_is_at_most_all_of_it() -> None:
    few = inputs(meta(1, 1, 3, 4), meta(1, 1, 8, 4), meta(1, 1, 8, 4), None, True)
    assert flop_of("aten::_scaled_dot_product_flash_attention", few) == 2 * 3 * 8 * 8
    assert flop_is_at_most("aten::_scaled_dot_product_flash_attention", few)


def test_the_inner_operators_of_attention_have_length_before_heads_and_may_pack_sequences() -> None:
    q = [[2, 100, 8, 64]] * 3
    alone = Inputs.read(json.dumps([*q, [], []]), json.dumps(["float"] * 3 + ["", ""]))
    assert flop_of("aten::_flash_attention_forward", alone) == 2 * 2 * 8 * 100 * 100 * 128
    packed = Inputs.read(json.dumps([[100, 8, 64]] * 3 + [[5], [5]]), json.dumps(["float"] * 3 + ["int", "int"]))
    assert flop_of("aten::_flash_attention_forward", packed) is None


@pytest.mark.parametrize(
    ("name", "shapes", "dtypes", "expected"),
    [
        ("aten::add", [[4, 1], [3], []], ["float", "float", "Scalar"], 4 * (4 + 3 + 12)),
        ("aten::add_", [[4, 3], [3], []], ["c10::Half", "float", "Scalar"], 24 + 12 + 24),
        ("aten::copy_", [[4, 3], [4, 3], []], ["c10::BFloat16", "float", "Scalar"], 48 + 24),
        ("aten::fill_", [[10], []], ["double", "Scalar"], 80),
        ("aten::gelu", [[10], []], ["c10::BFloat16", ""], 40),
        ("aten::mm", [[8, 2], [2, 4], [8, 4]], ["float"] * 3, 4 * (16 + 8 + 32)),  # mm(a, b, out=c)
        ("aten::add", [[4], [3], []], ["float", "float", "Scalar"], None),  # do not broadcast
        ("aten::add", [[4], [4], []], ["float", "quint8", "Scalar"], None),
        ("mylib::add", [[4], [4]], ["float", "float"], None),
        ("aten::sum", [[4]], ["float"], None),
    ],
)
def test_bytes_are_inputs_and_outputs_once(name: str, shapes: Any, dtypes: Any, expected: int | None) -> None:
    assert io_bytes_of(name, Inputs.read(json.dumps(shapes), json.dumps(dtypes))) == expected


@pytest.mark.parametrize(
    "text", ["", "7", "{}", "[", '[["a"]]', "[[-1, 2], [2, 3]]", "[[1.5, 2], [2, 3]]", "[[[2]], 5]"]
)
def test_shapes_that_are_none_count_nothing(text: str) -> None:
    assert flop_of("aten::mm", Inputs.read(text, "nonsense", "[")) is None
    assert io_bytes_of("aten::mm", Inputs.read(text, None)) is None


@pytest.mark.parametrize(
    ("name", "shapes", "values"),
    [
        ("aten::mm", [[2, 3], [4, 5]], []),
        ("aten::mm", [[2, 3]], []),
        ("aten::bmm", [[2, 3, 4], [3, 4, 5]], []),
        ("aten::convolution", [[1, 3, 8, 8], [4, 3, 3, 3]], []),  # without its stride nobody knows the output
        ("aten::convolution", [[1, 3, 8], [4, 3, 3]], ["", "", "", "[1]", "[0]", "[1]", "maybe", "[0]", "1"]),
        ("aten::convolution", [[1, 3, 2], [4, 3, 5]], ["", "", "", "[1]", "[0]", "[1]", "False", "[0]", "1"]),
        ("aten::_scaled_dot_product_flash_attention", [[1, 2, 3], [1, 2, 3], [1, 2, 3]], []),
        ("aten::matmul", [[2, 3], [3, 4]], []),
        ("mm", [[2, 3], [3, 4]], []),
    ],
)
def test_what_does_not_fit_is_not_counted(name: str, shapes: Any, values: Any) -> None:
    assert flop_of(name, Inputs.read(json.dumps(shapes), None, json.dumps(values))) is None


def test_words_name_types_once_and_leave_plain_numbers_out() -> None:
    found = Inputs.read("[[2, 3], [], [3]]", '["c10::BFloat16", "Scalar", "float"]')
    assert describe_shape(found.shapes) == "[2, 3] [3]"
    assert describe_dtype([d for _, d in found.tensors]) == "bf16, fp32"
    assert math.prod(found.shapes[0]) == 6
