"""A kernel's name as a tree: the function, its template arguments, and theirs; namespaces and parameters set aside.

Demangled C++ is read with one scan for the brackets and one walk over each level, so the time is linear in the length.
A lambda is named after the function it stands in, a shell such as cutlass::Kernel2<…> after what it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from perfmagic.trace.mangled import is_mangled, mangled_parts
from perfmagic.trace.once import once_per_name
from perfmagic.trace.terms import Kind, Term, leaf, typed, value


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
    found = _Reader(text, partner).function(depth)
    return found if found.head else Term(name)


def _partners(text: str) -> dict[int, int] | None:
    """Where each bracket closes; None where they do not match."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for at, char in enumerate(text):
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
        found = [replace(arg, kind=Kind.DETAIL) for part in path for arg in self._args(part, depth - 1)]
        space = "::".join(part.name for part in path)
        return [*found, *([Term(space, kind=Kind.NAMESPACE)] if space else [])]

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
        while at < end:
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
