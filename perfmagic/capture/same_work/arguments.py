"""What both functions are called with: the same objects, with values that no call has seen before.

    inputs=make     make(rng) gives a list of arguments; it is called anew for every timed call
    inputs=[x, w]   these very objects; floating values are drawn anew in place from those that they had

Functions that take no arguments can be given a list, too: they read the same objects from around them.
"""

from __future__ import annotations

import inspect
import operator
import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from perfmagic.base.errors import OptionError
from perfmagic.base.imported import torch_if_imported
from perfmagic.capture.same_work.process import NOW_NS
from perfmagic.capture.same_work.values import is_tensor

MOST_SETS = 32  # of arguments that lie ready, one for each call of a sample
MOST_BYTES = 32_000_000  # of them together
MOST_DRAWN, STRETCH = 2**16, 509  # values drawn one by one, and how many of them come together; odd, as rows are even
LARGE_BYTES = 1_000_000  # of the arguments of one call: to write all takes as long as a call that reads them


class Arguments:
    """Arguments that lie in one place: slots. prepare() chooses values, write() puts them there, as often as needed.

    in_place: the user's own objects are the only slot.
    """

    in_place = False

    def __init__(self, fixed: Collection[int]) -> None:
        self.fixed = frozenset(fixed)
        self.slots: list[list[Any]] = []
        self._values: list[list[Any]] = []
        self._factors: list[list[float]] = []  # that they are written times
        self._written: dict[tuple[int, int], tuple[Any, float]] = {}
        self._versions: list[int] = []

    def prepare(self, n: int, *, cheaply: bool = False) -> None:
        """Choose new values for the first n slots.  cheaply: the least that no call has seen, where they are large."""

    def write(self, *, only_new: bool = False) -> None:
        """Put the chosen values into the slots.

        only_new: values that lie there already, as far as torch knows, stay; to functions it looks as if all came.
        """
        kept = only_new and not self.written_since()
        for at, (slot, values, factors) in enumerate(zip(self.slots, self._values, self._factors, strict=False)):
            for i, (value, factor) in enumerate(zip(values, factors, strict=True)):
                written = self._written.get((at, i), (None, 0.0))
                if i in self.fixed:
                    continue
                if kept and written[0] is value and written[1] == factor:
                    count_up(slot[i])
                    continue
                slot[i] = into(slot[i], value, factor)
                self._written[at, i] = value, factor
        self._versions = self._versions_now()

    def written_since(self) -> bool:
        """Whether torch knows of another writer since write()."""
        return self._versions_now() != self._versions

    def _versions_now(self) -> list[int]:
        found: list[int] = []

        def note(array: Any) -> Any:
            if is_tensor(array) and not array.is_inference():
                found.append(array._version)
            return array

        for slot in self.slots:
            mapped([v for i, v in enumerate(slot) if i not in self.fixed], note)
        return found

    def chosen(self, slot: int = 0) -> list[Any]:
        """The values that write() puts into a slot."""
        pairs = zip(self._values[slot], self._factors[slot], strict=True)
        return [value if factor == 1 else mapped(value, partial(_times, factor)) for value, factor in pairs]

    def change(self, how: Callable[[Any], Any]) -> None:
        """Change the chosen values of the first slot, but those that stay."""
        self._values[0] = [v if i in self.fixed else mapped(v, how) for i, v in enumerate(self.chosen())]
        self._factors[0] = [1.0] * len(self._values[0])

    def most_sets(self) -> int:
        """How many slots may lie ready."""
        size = sum(map(size_bytes, self.slots[0])) if self.slots else 0
        return max(1, min(MOST_SETS, MOST_BYTES // max(1, size)))

    def longest(self) -> int:
        """Elements of the largest array among them."""
        return max((size_of(each) for each in self.slots[0]), default=1) if self.slots else 1

    def close(self) -> None:
        """Give the user's objects the values that they had."""


class MadeArguments(Arguments):
    """Arguments that a function makes from a generator of random numbers.  made_ns: what that takes."""

    def __init__(self, make: Callable[[Any], Sequence[Any]], fixed: Collection[int]) -> None:
        super().__init__(fixed)
        self._make, self._rng = make, _generator()
        from_ns = NOW_NS()
        self._made = [self._new()]
        self.made_ns = NOW_NS() - from_ns
        self._scaled = [i for i, v in enumerate(self._made[0]) if i not in self.fixed and has_floating(v)]
        self._begin(self._made)

    def prepare(self, n: int, *, cheaply: bool = False) -> None:
        if not cheaply or not self._scaled:
            self._made = [self._new() for _ in range(n)]
            self._begin(self._made)
            return
        others = [self._made[i % len(self._made)] for i in range(n)]
        kept = len(self._values) == n and all(map(operator.is_, self._values, others))
        before = self._factors if kept else [[1.0] * len(values) for values in others]
        self._begin(others)
        for factors, last in zip(self._factors, before, strict=True):
            factors[:] = last
            for i in some_of(self._scaled, self.slots[0]):
                factors[i] = 0.5 + secrets.randbelow(2**20) / 2**21  # symmetric, sorted and positive ones stay so

    def _begin(self, values: list[list[Any]]) -> None:
        self._values, self._factors = [*values], [[1.0] * len(each) for each in values]
        while len(self.slots) < len(values):
            self.slots.append([self._first(i, v) for i, v in enumerate(values[len(self.slots)])])

    def _first(self, i: int, value: Any) -> Any:
        return self.slots[0][i] if i in self.fixed and self.slots else mapped(value, copied)

    def _new(self) -> list[Any]:
        made = self._make(self._rng)
        if not isinstance(made, (list, tuple)):
            message = f"inputs: the function gave a {type(made).__name__}, a list of arguments is needed"
            raise OptionError(message, hint="lambda rng: [torch.randn(64, 64, generator=rng)]")
        if self.slots and len(made) != len(self.slots[0]):
            raise OptionError(f"inputs: the function gave {len(made)} arguments, {len(self.slots[0])} at first")
        return [*made]


class GivenArguments(Arguments):
    """The user's own objects. vary: whether floating values are drawn anew."""

    in_place = True

    def __init__(self, values: Sequence[Any], fixed: Collection[int], *, vary: bool) -> None:
        super().__init__(fixed)
        self.slots = [[*values]]
        self._before = [mapped(v, copied) for v in values]
        self._varied = [i for i, v in enumerate(values) if vary and i not in self.fixed and is_floating(v)]
        self._banks: dict[int, Any] = {}
        self._values, self._factors = [[*self._before]], [[1.0] * len(values)]

    @property
    def varies(self) -> bool:
        """Whether anything in them can be new."""
        return bool(self._varied)

    def prepare(self, n: int, *, cheaply: bool = False) -> None:
        if not cheaply:
            self._values = [[*self._before]]
        for i in some_of(self._varied, self.slots[0]) if cheaply else self._varied:
            self._values[0][i] = self._drawn(i)

    def _drawn(self, i: int) -> Any:
        """New values for an argument: a stretch of some that were drawn once, which costs one copy."""
        if i not in self._banks:
            self._banks[i] = drawn_from(self._before[i], size_of(self._before[i]) * 5 // 4 + 4096)
        bank, like = self._banks[i], self._before[i]
        n = size_of(like)
        at = secrets.randbelow(len(bank) - n + 1)
        return bank[at : at + n].reshape(like.shape)

    def close(self) -> None:
        self._values, self._factors = [self._before], [[1.0] * len(self._before)]
        self.write()


def some_of(which: Sequence[int], values: Sequence[Any]) -> Sequence[int]:
    """All arguments, or where they are large one of them, that nobody can foresee: it makes the others new, too."""
    large = sum(size_bytes(values[i]) for i in which) > LARGE_BYTES
    return [secrets.choice(which)] if large and which else which


def arguments_of(inputs: Any, fixed: Collection[int], values: str) -> Arguments | None:
    """The arguments that inputs= stands for; None for none. Raises OptionError for what stands for none."""
    if inputs is None:
        return None
    if callable(inputs):
        made: Arguments = MadeArguments(inputs, fixed)
    elif isinstance(inputs, (list, tuple)):
        made = GivenArguments(inputs, fixed, vary=values != "given")
    else:
        message = f"inputs: a list of arguments, or a function that makes one, not {type(inputs).__name__}"
        raise OptionError(message, hint="compare(f, g, inputs=[x, w])")
    if any(not 0 <= i < len(made.slots[0]) for i in fixed):
        raise OptionError(f"fixed={(*fixed,)}: the arguments are numbered 0 to {len(made.slots[0]) - 1}")
    return made


def takes(body: Callable[..., object], n: int, name: str, *, in_place: bool) -> bool:
    """Whether a function takes the n arguments; False for one that takes none and reads them from around it.

    Raises OptionError where it takes others.
    """
    try:
        signature = inspect.signature(body)
    except (TypeError, ValueError):  # of some functions in C nobody knows
        return True
    with suppress(TypeError):
        signature.bind(*[None] * n)
        return True
    if in_place and not signature.parameters:
        return False
    message = f"{name or 'a function'}{signature} does not take the {n} arguments of inputs"
    raise OptionError(message, hint="both functions are called with the same arguments")


# Values: copied, written into what is there, drawn anew.


def mapped(value: Any, how: Callable[[Any], Any]) -> Any:
    """The same with each array in it changed; lists, tuples and dicts of arrays too."""
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(mapped(each, how) for each in value)
    if type(value) is dict:
        return {key: mapped(each, how) for key, each in value.items()}
    return how(value) if is_array(value) else value


def into(old: Any, new: Any, factor: float = 1.0) -> Any:
    """The old object with the new values where it can hold them, else the new one.  factor: of floating values."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old[:] = [into(a, b, factor) for a, b in zip(old, new, strict=True)]
        return old
    if type(old) is tuple and type(new) is tuple and len(old) == len(new):
        return tuple(into(a, b, factor) for a, b in zip(old, new, strict=True))
    if type(old) is dict and type(new) is dict and old.keys() == new.keys():
        old.update({key: into(old[key], value, factor) for key, value in new.items()})
        return old
    if not is_array(old) or type(old) is not type(new) or old.shape != new.shape or old.dtype != new.dtype:
        return mapped(new, partial(_times, factor))
    if is_tensor(old):
        _write_tensor(old, new, factor)
    elif not old.flags.writeable:
        return _times(factor, new)
    elif factor == 1 or not is_floating(new):
        np.copyto(old, new)
    else:
        np.multiply(new, factor, out=old)
    return old


def write_back(old: Any, was: Any) -> None:
    """Write values that an array had; of a parameter, too, whose gradient stays. A numpy array may forbid it."""
    if not is_tensor(old):
        if old.flags.writeable:
            np.copyto(old, was)
        return
    torch: Any = torch_if_imported()
    with torch.inference_mode(old.is_inference()), torch.no_grad():
        old.copy_(was)


def count_up(value: Any) -> None:
    """Let the versions of tensors in a value say that somebody wrote to them."""

    def of_one(array: Any) -> Any:
        if is_tensor(array) and not array.is_inference():
            torch_if_imported().autograd.graph.increment_version(array)  # type: ignore[union-attr] # it made the tensor
        return array

    mapped(value, of_one)


def _write_tensor(old: Any, new: Any, factor: float) -> None:
    torch: Any = torch_if_imported()
    with torch.no_grad():
        if factor == 1 or not is_floating(new):
            old.copy_(new)
        else:
            torch.mul(new, factor, out=old)
    if old.is_leaf and old.grad is not None:
        old.grad = None


def is_array(value: Any) -> bool:
    """Whether it is a tensor or a numpy array."""
    return is_tensor(value) or type(value) is np.ndarray


def is_floating(value: Any) -> bool:
    """Whether it is an array of floating-point numbers."""
    if is_tensor(value):
        return bool(value.dtype.is_floating_point) and value.layout == torch_if_imported().strided  # type: ignore[union-attr]
    return type(value) is np.ndarray and value.dtype.kind == "f"


def has_floating(value: Any) -> bool:
    """Whether any array in it is of floating-point numbers."""
    found: list[bool] = []
    mapped(value, lambda array: found.append(is_floating(array)))
    return any(found)


def size_of(value: Any) -> int:
    """Its elements; 1 for what is no array."""
    return int(value.numel()) if is_tensor(value) else int(value.size) if is_array(value) else 1


def size_bytes(value: Any) -> int:
    """Bytes of the arrays in it."""
    if isinstance(value, (list, tuple)):
        return sum(map(size_bytes, value))
    if isinstance(value, dict):
        return sum(map(size_bytes, value.values()))
    if is_tensor(value):
        return int(value.numel() * value.element_size())
    return int(value.nbytes) if is_array(value) else 0


def copied(array: Any) -> Any:
    """A copy of its own memory, in the same layout, that asks for a gradient where the other does."""
    if not is_tensor(array):
        return array.copy()
    return array.detach().clone().requires_grad_(array.requires_grad)


def drawn_from(array: Any, n: int) -> Any:
    """n values drawn from those of an array, which keeps mean, deviation and range; around it where all are one.

    Of many the same stretches come again, from places that are drawn: drawing each takes as long as a large product.
    """
    if not is_tensor(array):
        flat, rng = array.reshape(-1), np.random.default_rng(secrets.randbits(64))
        drawn = flat[rng.integers(0, max(1, flat.size), min(n, MOST_DRAWN))]
        if flat.size > 1 and not (flat != flat[0]).any():
            drawn = (drawn + rng.standard_normal(len(drawn))).astype(array.dtype)
        if n <= MOST_DRAWN:
            return drawn
        stretches = np.lib.stride_tricks.sliding_window_view(drawn, STRETCH)
        return stretches[rng.integers(0, len(stretches), -(-n // STRETCH))].reshape(-1)[:n]
    torch: Any = torch_if_imported()
    flat, made = array.detach().reshape(-1), _generator()
    drawn = flat[torch.randint(0, max(1, flat.numel()), (min(n, MOST_DRAWN),), generator=made).to(flat.device)].cpu()
    if flat.numel() > 1 and not bool((flat != flat[0]).any()):
        drawn = drawn + torch.randn(len(drawn), generator=made).to(drawn.dtype)
    if n > MOST_DRAWN:
        stretches = drawn.unfold(0, STRETCH, 1)
        drawn = stretches[torch.randint(0, len(stretches), (-(-n // STRETCH),), generator=made)].reshape(-1)[:n]
    return drawn.to(array.device)


def _times(factor: float, array: Any) -> Any:
    if factor == 1 or not is_floating(array):
        return array
    return array.detach() * factor if is_tensor(array) else (array * factor).astype(array.dtype)


def drawn_anew(array: Any) -> Any:
    """Other values of the same shape; what is no floating-point number stays."""
    return drawn_from(array, size_of(array)).reshape(array.shape) if is_floating(array) else array


def nearby(array: Any) -> Any:
    """The same values, each moved by at most one rounding."""
    if not is_floating(array):
        return array
    if not is_tensor(array):
        moves = 1 + np.finfo(array.dtype).eps * np.array([-1, 0, 1], array.dtype)
        return (array * drawn_from(moves, array.size).reshape(array.shape)).astype(array.dtype)
    torch: Any = torch_if_imported()
    moves = 1 + torch.finfo(array.dtype).eps * torch.tensor([-1.0, 0.0, 1.0], dtype=array.dtype)
    return array.detach() * drawn_from(moves, array.numel()).reshape(array.shape).to(array.device)


def _generator() -> Any:
    """Random numbers that no function can have foreseen: torch's where torch is in use, else numpy's."""
    torch = torch_if_imported()
    if torch is None or not hasattr(torch, "Generator"):
        return np.random.default_rng(secrets.randbits(64))
    return torch.Generator().manual_seed(secrets.randbits(63))
