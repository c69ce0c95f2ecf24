"""A kernel's name as a tree: the function, its template arguments, and theirs; namespaces and parameters set aside.

Demangled C++ is read with one scan for the brackets and one walk over each level, so the time is linear in the length.
A lambda is named after the function it stands in, a shell such as cutlass::Kernel2<…> after what it runs.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import lru_cache, update_wrapper
from typing import TypeVar

R = TypeVar("R")
MOST_NAMES = 2048  # kept for each function
LONGEST_NAME = 4096  # characters: what a file with names of a megabyte says is not kept


def once_per_name(function: Callable[[str], R]) -> Callable[[str], R]:
    """Keep what a pure function of a kernel's name gave, for the names asked for last.

    Several analyses ask the same of each name, and traces of one program have the same names.
    """
    known = lru_cache(maxsize=MOST_NAMES)(function)

    def remembered(name: str) -> R:
        return known(name) if len(name) <= LONGEST_NAME else function(name)

    update_wrapper(remembered, function)
    return remembered


# Itanium-mangled names, as AMD's kernels come: the function, and the template arguments that stand in it in the open.

_PART = re.compile(r"(\d+)")
_ARGUMENT = re.compile(r"IN(?:S\w?_)?")
_TOKEN = re.compile(r"L([a-z])(n?\d+)E|DF16_|DF16b|Dh|S\w?_|T\d*_|[KPRO]+(?=[a-zDNS\d])|[a-z]|[A-Z]")
_BUILTIN = {
    **dict(zip("bcahst", ("bool", "char", "signed char", "unsigned char", "short", "unsigned short"), strict=True)),
    **dict(zip("ijlmfd", ("int", "unsigned int", "long", "unsigned long", "float", "double"), strict=True)),
    "DF16_": "half",
    "DF16b": "bf16",
    "Dh": "half",
}
MOST_ARGUMENTS = 200


def is_mangled(name: str) -> bool:
    """Whether a name is as the Itanium C++ ABI mangles it."""
    return name.startswith("_Z")


def mangled_parts(name: str, shells: Collection[str]) -> tuple[str, list[str]]:
    """The function of a mangled name, "" where it cannot be read, and its arguments: types, classes and values.

    shells: functions that are named after their first argument.

    >>> mangled_parts("_ZN5aiter4normIDF16bLi256ELb0EEEvPT0_", ())
    ('norm', ['bf16', '256', 'false'])
    """
    at = 3 if name.startswith("_ZN") else 2
    while True:
        part = ""
        while number := _PART.match(name, at):
            part = name[number.end() : number.end() + int(number[1])]
            at = number.end() + int(number[1])
        argument = _ARGUMENT.match(name, at)
        if part not in shells or not argument:
            return part, _arguments(name, at)
        at = argument.end()


def _arguments(name: str, at: int) -> list[str]:
    """What stands between I and its E, classes by their own name and without their arguments."""
    if not name.startswith("I", at):
        return []
    arguments: list[str] = []
    depth, at = 1, at + 1
    while depth and at < len(name) and len(arguments) < MOST_ARGUMENTS:
        if number := _PART.match(name, at):
            at = number.end() + int(number[1])
            arguments.append(name[number.end() : at])
            continue
        token = _TOKEN.match(name, at)
        if token is None:
            break
        at = token.end()
        word = token[0]
        if token[1]:
            arguments.append(_value(token[1], token[2]))
        elif word in _BUILTIN:
            arguments.append(_BUILTIN[word])
        elif word in "INJX":
            depth += 1
        elif word == "E":
            depth -= 1
    return arguments


def _value(kind: str, digits: str) -> str:
    if kind == "b":
        return "true" if digits == "1" else "false"
    return digits.replace("n", "-")


# What a kernel's name is made of: functions, types and values, each with how much it tells a reader.


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
    **dict.fromkeys(("gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_index_kernel", "apply"), 0),
    **dict.fromkeys(("BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor"), -1),
    **dict.fromkeys(("ReduceOp", "func_wrapper_t"), 1),
}
_DTYPES = {
    **dict.fromkeys(("BFloat16", "__nv_bfloat16", "__hip_bfloat16", "hip_bfloat16", "bfloat16_t"), "bf16"),
    **dict.fromkeys(("Half", "__half", "half_t", "_Float16"), "half"),
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
        # A wrapper is what it wraps; the rest is there to tell namesakes apart
        own = [i for i, arg in enumerate(args) if arg.kind != Kind.DETAIL]
        at = own[_WRAPPERS[name]] if len(own) > max(0, _WRAPPERS[name]) else 0
        rest = [replace(arg, kind=max(arg.kind, Kind.PLUMBING)) for i, arg in enumerate(args) if i != at]
        return replace(args[at], args=(*args[at].args, Term(name, kind=Kind.FLAG), *rest))
    if _DTYPE.fullmatch(name):
        return Term(name + stars, args, Kind.DTYPE)
    if function or _FUNCTION.search(name):
        return Term(_AFFIXES.sub("", name) or name, args, Kind.FUNCTION)
    if _PLUMBING.search(name):
        return Term(name + stars, args, Kind.PLUMBING)
    return Term(name + stars, args, Kind.TYPE, silent=bool(_SILENT.search(name)))


@dataclass(frozen=True)
class _Part:
    """A component of a path a::b<…>(…): the name, where its arguments begin and end; 0 where it has none."""

    name: str
    args: tuple[int, int] = (0, 0)
    call: tuple[int, int] = (0, 0)


MAX_DEPTH = 10  # of arguments in arguments; deeper ones are left out

_CPP_NAME = re.compile(r"^void |::|\w<|\w\(")
_PLAIN_NAMESPACED = re.compile(r"^[\w:]+(?:\.\w+)?$")
_NOT_A_KERNEL = re.compile(r"^Mem(?:cpy|set)\b|^<|\(\d+\): |^## |: |\brecv \d+<-\d")  # the last: torch's "recv 0<-1"
# Kernels that are only a shell: the first template argument says what runs.
SHELLS = frozenset({"Kernel", "Kernel2", "device_kernel", "enable_sm90", "enable_sm90_or_later", "enable_sm80_to_sm89"})
_NAMELESS = frozenset({"kernel", "Kernel", "run", "operator", "operator_"})

# Parameters whose meaning is the same in every release: flash-attention 2, csrc/flash_attn/src/flash_fwd_kernel.h and
# flash_bwd_kernel.h, <Kernel_traits, Is_dropout, Is_causal, …>.
_NAMED_FLAGS = {("flash_fwd_kernel", 2): "causal", ("flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", 2): "causal"}

_OPERATOR = re.compile(r"\boperator\s*(?:\(\)|<=>|<<|>>|->\*?|<=|>=|<|>|\[\])")
_LAMBDA = re.compile(r"\{lambda\(|\{?'lambda\d*'|\$_\d|\{unnamed")
_LAMBDA_NUMBER = re.compile(r"#(\d+)\}$|'lambda(\d*)'|\$_(\d+)")
_BRACKET = re.compile(r"[(){}\[\]<>]")
_SPLIT_AT = {by: re.compile(rf"[({{\[<{by}]") for by in " ,:"}
_WITHOUT = ("(anonymous namespace)::", "{anonymous}::", "<unnamed>::")


@once_per_name
def is_signature(name: str) -> bool:
    """Whether a name is C++ with more than a path: what a compiler wrote for a kernel."""
    if is_mangled(name):
        return True
    return not (_NOT_A_KERNEL.search(name) or _PLAIN_NAMESPACED.match(name)) and bool(_CPP_NAME.search(name))


@once_per_name
def function_name(name: str) -> str:
    """The kernel's function alone: without return type, namespaces, template and call arguments.

    >>> function_name("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)")
    'vectorized_elementwise_kernel'
    >>> function_name("aten::mm")
    'aten::mm'
    """
    return signature(name, depth=0).head if is_signature(name) else name


def signature(name: str, depth: int = MAX_DEPTH) -> Term:
    """The tree of a kernel's name; a name that is no signature is a head alone.  depth: of arguments in arguments.

    >>> tree = signature("void gemv<float, (bool)1, ns::Op<4> >(float const*)")
    >>> tree.head, [argument.head for argument in tree.args]
    ('gemv', ['float', 'true', 'Op'])
    """
    if is_mangled(name):
        return _from_mangled(name)
    if not is_signature(name):
        return Term(name)
    text = name
    for piece in _WITHOUT:
        text = text.replace(piece, "")
    text = _OPERATOR.sub("operator_", text.replace(" const::", "::"))
    partner = _partners(text)
    if partner is None:
        return Term(re.split(r"[<({\[]", text)[0].strip().split(" ")[-1].split("::")[-1] or name)
    term = _Reader(text, partner).function(depth)
    return term if term.head else Term(name)


def _partners(text: str) -> dict[int, int] | None:
    """Where each bracket closes; None where they do not match."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for match in _BRACKET.finditer(text):
        at, char = match.start(), match[0]
        if char in "({[" or (char == "<" and at and (text[at - 1].isalnum() or text[at - 1] in "_}")):
            opened.append(at)
        elif char in ")}]" or (char == ">" and opened and text[opened[-1]] == "<" and text[at - 1] != "-"):
            if not opened or text[opened[-1]] + char not in ("()", "{}", "[]", "<>"):
                return None
            partner[opened.pop()] = at
    return None if opened else partner


class _Reader:
    """Reads terms out of one name whose brackets are known."""

    def __init__(self, text: str, partner: dict[int, int]) -> None:
        self._text = text
        self._partner = partner

    def function(self, depth: int) -> Term:
        """The kernel: the word that is called, of "return_type path<…>(…) [clone]"."""
        words = self._split(0, len(self._text), " ")
        called = next((w for w in words if self._is_called(*w)), None)
        named = [w for w in words if self._text[slice(*w)] != "const" and self._text[w[0]] != "["]
        if called is None and not named:
            return Term("")
        path = self._path(*(called or named[-1]))
        last = path[-1]
        if last.name in SHELLS and last.args[1]:
            inner = self._split(*last.args, ",")[0]
            return self._named(self._path(*self._last_word(*inner)), max(depth, 0), shell=True)
        return self._named(path, depth)

    def _named(self, path: list[_Part], depth: int, *, shell: bool = False) -> Term:
        last = path[-1]
        if shell and last.name in SHELLS and last.args[1]:
            inner = self._split(*last.args, ",")[0]
            return self._named(self._path(*self._last_word(*inner)), depth, shell=True)
        if len(path) > 1 and any(_LAMBDA.match(part.name) for part in path):
            return replace(self._lambda(path, depth), kind=Kind.FUNCTION)
        head = "::".join(p.name for p in path[-2:]) if last.name in _NAMELESS else last.name
        args = [*self._args(last, depth), *self._enclosing(path[:-1], depth)]
        for position, argument in enumerate(args):
            named = _NAMED_FLAGS.get((head, position))
            if named and argument.head == "true":
                args[position] = Term(named, kind=Kind.NUMBER)
        return Term(head, tuple(args), Kind.FUNCTION)

    def _enclosing(self, path: list[_Part], depth: int) -> list[Term]:
        """What only tells namesakes apart: the arguments of enclosing classes, and the namespace."""
        details = [replace(arg, kind=Kind.DETAIL) for part in path for arg in self._args(part, depth - 1)]
        space = "::".join(part.name for part in path)
        return [*details, *([Term(space, kind=Kind.NAMESPACE)] if space else [])]

    def _args(self, part: _Part, depth: int) -> list[Term]:
        if depth <= 0 or not part.args[1]:
            return []
        return [self._argument(begin, end, depth - 1) for begin, end in self._split(*part.args, ",")]

    def _argument(self, begin: int, end: int, depth: int) -> Term:
        """A template argument: a value, a type, or a function."""
        text = self._text
        while begin < end and (text[begin] in " &" or self._partner.get(begin) == end - 1):
            begin, end = begin + 1, end - (text[begin] not in " &")
        if begin < end and text[begin] == "(" and self._partner[begin] + 1 < end:  # (type)value
            return value(text[begin + 1 : self._partner[begin]], text[self._partner[begin] + 1 : end].strip())
        words = [
            w for w in self._split(begin, end, " ") if text[slice(*w)].rstrip("*&") not in ("const", "volatile", "")
        ]
        if not words:
            return Term(text[begin:end].strip(), kind=Kind.TYPE)
        plain = " ".join(text[slice(*w)] for w in words)
        stars = "*" * text[words[-1][0] : end].count("*") if not any(c in plain for c in "<({") else ""
        if re.fullmatch(r"[\w ]+[*&]*", plain):
            return leaf(plain.rstrip("*&"), stars)
        path = self._path(*words[-1])
        if any(_LAMBDA.match(part.name) for part in path):
            return self._lambda(path, depth)
        last = path[-1]
        if last.name in _NAMELESS and len(path) > 1:
            last = replace(path[-2], args=last.args if last.args[1] else path[-2].args)
        if not last.name or last.name == "decltype":
            return Term(plain, kind=Kind.TYPE)
        outer = [replace(a, kind=Kind.DETAIL) for part in path[:-1] for a in self._args(part, depth - 1)]
        return typed(last.name, stars, (*self._args(last, depth), *outer))

    def _lambda(self, path: list[_Part], depth: int) -> Term:
        """A lambda: the function it stands in, that one's arguments, the parameters of the lambda, its numbers."""
        first = next(i for i, part in enumerate(path) if _LAMBDA.match(part.name))
        owner = first - 1
        if owner > 0 and path[owner].name in _NAMELESS:
            owner -= 1
        name = path[owner].name if owner >= 0 else "lambda"
        own = [arg for part in path[max(owner, 0) : first] for arg in self._args(part, depth)]
        inner = next(part for part in reversed(path) if _LAMBDA.match(part.name))
        parameters = [] if own or depth <= 0 else [self._argument(*w, depth - 1) for w in self._split(*inner.call, ",")]
        numbers = [m for part in path if (m := _LAMBDA_NUMBER.search(part.name))]
        number = ".".join(next(filter(None, m.groups()), "0") for m in numbers)
        args = (*own, *parameters, Term(f"#{number}", kind=Kind.DETAIL))
        return typed(name, "", args, function=True)

    def _path(self, begin: int, end: int) -> list[_Part]:
        """The components between "::"."""
        return [self._part(i, j) for i, j in self._split(begin, end, ":") if j > i] or [_Part("")]

    def _part(self, begin: int, end: int) -> _Part:
        text, at = self._text, begin
        if text[begin] == "{":
            close = self._partner[begin]
            bracket = text.find("(", begin, close)
            call = (bracket + 1, self._partner[bracket]) if bracket > 0 else (0, 0)
            return _Part(text[begin : close + 1], call=call)
        args = call = (0, 0)
        name_end = end
        while at < end:
            if at in self._partner:
                name_end = min(name_end, at)
                inside = (at + 1, self._partner[at])
                if text[at] == "<" and not args[1]:
                    args = inside
                elif text[at] == "(":
                    call = inside
                at = self._partner[at]
            at += 1
        return _Part(text[begin:name_end].strip(" *&"), args, call)

    def _is_called(self, begin: int, end: int) -> bool:
        at = begin
        while at < end:
            if self._text[at] == "(" and at > begin:
                return True
            at = self._partner.get(at, at) + 1
        return False

    def _last_word(self, begin: int, end: int) -> tuple[int, int]:
        words = self._split(begin, end, " ")
        return words[-1] if words else (begin, end)

    def _split(self, begin: int, end: int, by: str) -> list[tuple[int, int]]:
        """The pieces of a span between separators that stand in no bracket, empty ones left out."""
        pieces, start, at, text = [], begin, begin, self._text
        while found := _SPLIT_AT[by].search(text, at, end):
            at = found.start()
            if text[at] == by:
                pieces.append((start, at))
                start = at + 1
            at = self._partner.get(at, at) + 1
        pieces.append((start, end))
        return [(i, j) for i, j in pieces if text[i:j].strip()]


def _from_mangled(name: str) -> Term:
    """The function of a mangled name with those arguments that can be read."""
    function, arguments = mangled_parts(name, SHELLS)
    leaves = [leaf(text, "") for text in arguments]
    # classes stand among those that hold them and those they hold: they say little alone
    plain = tuple(
        replace(leaf, kind=Kind.PLUMBING) if leaf.kind in (Kind.TYPE, Kind.FUNCTION) else leaf for leaf in leaves
    )
    return Term(function or name, plain, Kind.FUNCTION)
