"""What a kernel's name is made of: functions, types and values, each with how much it tells a reader."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace


class Kind(enum.IntEnum):
    """What an argument is, the most telling first."""

    FUNCTION = 0  # the function that a general kernel applies
    DTYPE = 1
    NUMBER = 2
    TYPE = 3
    FLAG = 4  # a bool or a member of an enumeration: nothing without its parameter's name
    PLUMBING = 5  # how operands are passed and indexed
    DETAIL = 6  # number of a lambda, arguments of an enclosing class
    NAMESPACE = 7


@dataclass(frozen=True)
class Term:
    """A function, type or value.

    head: its name alone.  args: template arguments, then parameters of a lambda.  silent: the arguments say it all.
    """

    head: str
    args: tuple[Term, ...] = ()
    kind: Kind = Kind.TYPE
    silent: bool = False


# ATen's wrappers around the function that is computed (aten/src/ATen/native/cuda: Loops.cuh, CUDALoops.cuh, Reduce.cuh,
# IndexKernel.cu), and which of their arguments that is.
_WRAPPERS = {
    "gpu_kernel_impl": 0,
    "gpu_kernel_impl_nocast": 0,
    "gpu_index_kernel": 0,
    "apply": 0,
    "BinaryFunctor": -1,
    "AUnaryFunctor": -1,
    "BUnaryFunctor": -1,
    "ReduceOp": 1,
    "func_wrapper_t": 1,
}
_DTYPES = {
    "BFloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "__hip_bfloat16": "bf16",
    "hip_bfloat16": "bf16",
    "bfloat16_t": "bf16",
    "Half": "half",
    "__half": "half",
    "half_t": "half",
    "_Float16": "half",
}
_DTYPE = re.compile(
    r"(?:unsigned |signed )?(?:bool|char|short|int|long|long long)|unsigned|float|double|long double|bf16|half"
    r"|u?int\d+_t|Float8_\w+|float_e\dm\d\w*|__nv_fp8_\w+|complex|tfloat32_t"
)
_NUMBER = re.compile(r"(-?\d+)(?:u|l|ul|ull|ll|U|L|UL|ULL|LL)?$")
_FUNCTION = re.compile(r"Functor|_functor|Ops?$|gemm|fprop|dgrad|wgrad")
_PLUMBING = re.compile(
    r"^[Aa]rray$|OffsetCalculator|^(?:Load|Store)With|TensorInfo|TensorAccessor|Metadata|Policy|Params$|NullType"
    r"|TensorSizeStride|ScanTileState|integral_constant|_config|Generator|Iterator"
)
_SILENT = re.compile(r"_traits$|Traits$")
_AFFIXES = re.compile(r"^CUDAFunctor_?|_kernel_cuda$|_cuda_kernel$|_kernel_impl$|CUDAKernelImpl$|(?<=\w)_?[Ff]unctor$")


def value(cast: str, value: str) -> Term:
    """(type)value, as older demanglers write every value and newer ones those of enumerations."""
    if cast == "bool":
        return Term("true" if value == "1" else "false", kind=Kind.FLAG)
    number = _NUMBER.match(value)
    if number and _DTYPE.fullmatch(cast):
        return Term(number[1], kind=Kind.NUMBER)
    return Term(value, kind=Kind.FLAG)


def leaf(text: str, stars: str) -> Term:
    """An argument without arguments of its own."""
    if text in ("true", "false"):
        return Term(text, kind=Kind.FLAG)
    number = _NUMBER.match(text)
    if number:
        return Term(number[1], kind=Kind.NUMBER)
    return typed(text, stars, ())


def typed(name: str, stars: str, args: tuple[Term, ...], *, function: bool = False) -> Term:
    """A type or a function with its arguments.  stars: of a pointer.  function: whether it is known to be one."""
    name = _DTYPES.get(name, name)
    if name in _WRAPPERS and args:
        return _wrapper(name, args)
    if _DTYPE.fullmatch(name):
        return Term(name + stars, args, Kind.DTYPE)
    if function or _FUNCTION.search(name):
        return Term(_AFFIXES.sub("", name) or name, args, Kind.FUNCTION)
    if _PLUMBING.search(name):
        return Term(name + stars, args, Kind.PLUMBING)
    return Term(name + stars, args, Kind.TYPE, silent=bool(_SILENT.search(name)))


def _wrapper(name: str, args: tuple[Term, ...]) -> Term:
    """A wrapper is what it wraps; the rest is there to tell namesakes apart."""
    own = [i for i, arg in enumerate(args) if arg.kind != Kind.DETAIL]
    at = own[_WRAPPERS[name]] if len(own) > max(0, _WRAPPERS[name]) else 0
    rest = [replace(arg, kind=max(arg.kind, Kind.PLUMBING)) for i, arg in enumerate(args) if i != at]
    return replace(args[at], args=(*args[at].args, Term(name, kind=Kind.FLAG), *rest))
