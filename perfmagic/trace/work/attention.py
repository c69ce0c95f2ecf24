"""How many floating-point operations a call of fused attention takes, forward and backward, causal or not."""

from __future__ import annotations

from collections.abc import Callable

from perfmagic.trace.work.inputs import Inputs, Shape, Work, must


def _attention(q: Shape, k: Shape, v: Shape) -> Work:
    """Shapes (batch, heads, length, dimension); fewer heads of keys and values than of queries are shared."""
    batch, heads, n, d = q
    batch2, heads2, m, d2 = k
    batch3, heads3, m3, d_v = v
    must(batch == batch2 == batch3 and heads2 == heads3 and heads % heads2 == 0 and d == d2 and m == m3)
    return Work(2 * batch * heads * n * m * (d + d_v), (batch, heads, n, d_v))


def _attention_backward(inputs: Inputs) -> Work:
    """The scores again, then the gradients of scores, values, queries and keys: three products over d, two over d_v."""
    grad, q, k, v = inputs.shapes[:4]
    forward = _attention(q, k, v)
    must(grad == forward.output)
    (batch, heads, n, d), m, d_v = q, k[2], v[3]
    return Work(2 * batch * heads * n * m * (3 * d + 2 * d_v), None)


def _masked(work: Work, n: int, m: int, causal: bool | None) -> Work:
    """Attention of n queries to m keys, less what a causal mask hides; causal: None where the record does not say.

    Of as many queries as keys each has those up to its own place. Of other numbers the operators differ in which end
    the mask counts from, so that the whole is the most.
    """
    if causal is False or work.flop is None:
        return work
    if causal is None or n != m:
        return Work(work.flop, work.output, at_most=True)
    return Work(work.flop * (n + 1) // (2 * n), work.output)


def _is_causal(inputs: Inputs, at: int) -> bool | None:
    """Whether a call was causal, by the plain input at a place: a flag, or the number of a mask; None: unrecorded."""
    text = inputs.values[at].strip() if at < len(inputs.values) else ""
    return {"True": True, "False": False, "1": True, "2": True, "0": False}.get(text)


def fused(causal_at: int) -> Callable[[Inputs], Work]:
    """What a forward call does, of aten::_scaled_dot_product_…; causal_at: where its inputs say if it is causal."""

    def count(inputs: Inputs) -> Work:
        q, k, v = inputs.shapes[:3]
        return _masked(_attention(q, k, v), q[2], k[2], _is_causal(inputs, causal_at))

    return count


def fused_backward(causal_at: int) -> Callable[[Inputs], Work]:
    """What a backward call does; causal_at: as in fused()."""

    def count(inputs: Inputs) -> Work:
        q, k = inputs.shapes[1:3]
        return _masked(_attention_backward(inputs), q[2], k[2], _is_causal(inputs, causal_at))

    return count


def inner(lengths: int, causal_at: int) -> Callable[[Inputs], Work]:
    """What an inner operator does (aten::_flash_attention_forward); lengths: where those of packed sequences stand."""

    def count(inputs: Inputs) -> Work:
        q, k, v = _by_heads(inputs, 0, lengths)
        return _masked(_attention(q, k, v), q[2], k[2], _is_causal(inputs, causal_at))

    return count


def _by_heads(inputs: Inputs, first: int, lengths: int) -> list[Shape]:
    """Queries, keys and values of the inner operators, which have (batch, length, heads, dimension).

    lengths: where those of packed sequences stand; with them the shapes do not tell how long each sequence is.
    """
    must(lengths >= len(inputs.shapes) or not inputs.shapes[lengths])
    turned: list[Shape] = []
    for batch, length, heads, d in inputs.shapes[first : first + 3]:  # ValueError for another number of dimensions
        turned.append((batch, heads, length, d))
    return turned
