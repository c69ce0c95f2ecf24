"""What both functions are called with: the same objects, with values that no call has seen before.

    inputs=make     make(rng) gives a list of arguments; it is called again for every timed call
    inputs=[x, w]   these very objects; floating-point values are redrawn in place from the given ones

Functions without parameters can get a list, too: they read the same objects as globals or closure variables.
"""

from __future__ import annotations

import inspect
import operator
import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from perfmagic.base.errors import OptionError
from perfmagic.capture.same_work.contents import is_tensor
from perfmagic.capture.same_work.drawn import (
    copied,
    count_up,
    drawn_apart,
    generator,
    has_any,
    into,
    is_floating,
    mapped,
    size_bytes,
    size_of,
    times,
)
from perfmagic.capture.same_work.process import NOW_NS
from perfmagic.capture.same_work.state import State, read_around

MOST_SETS = 32  # of arguments that are kept ready, one for each call of a sample
MOST_BYTES = 32_000_000  # of all sets together
MAKES = "lambda rng: [torch.randn(64, 64, generator=rng)]"
LARGE_BYTES = 1_000_000  # of the arguments of one call: writing them all takes as long as a call that reads them


class Arguments:
    """Arguments in fixed objects, the slots. prepare() chooses values, write() copies them there, as often as needed.

    in_place: the user's own objects are the only slot.
    """

    in_place = False

    def __init__(self, fixed: Collection[int]) -> None:
        self.fixed = frozenset(fixed)
        self.slots: list[list[Any]] = []
        self._values: list[list[Any]] = []
        self._factors: list[list[float]] = []  # by which values are multiplied on writing
        self._written: dict[tuple[int, int], tuple[Any, float]] = {}
        self._versions: list[int] = []

    def prepare(self, n: int, *, cheaply: bool = False) -> None:
        """Choose new values for the first n slots.  cheaply: as few as make a new set, if they are large."""

    def write(self, *, only_new: bool = False) -> None:
        """Put the chosen values into the slots.

        only_new: values that are there already, as far as torch knows, stay; their versions count up as if written.
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
        """Whether torch has counted other writes since write()."""
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
        """The values that write() copies into a slot."""
        pairs = zip(self._values[slot], self._factors[slot], strict=True)
        return [value if factor == 1 else mapped(value, partial(times, factor)) for value, factor in pairs]

    def change(self, how: Callable[[Any], Any]) -> None:
        """Change the chosen values of the first slot, except fixed ones."""
        self._values[0] = [v if i in self.fixed else mapped(v, how) for i, v in enumerate(self.chosen())]
        self._factors[0] = [1.0] * len(self._values[0])

    def as_made(self) -> None:
        """Choose the values of the first slot as they are, not a multiple of them."""
        self._factors[0] = [1.0] * len(self._values[0])

    def choose(self, values: Sequence[Any]) -> None:
        """Choose these values for the first slot."""
        self._values[0], self._factors[0] = [*values], [1.0] * len(values)

    def most_sets(self) -> int:
        """How many slots may be kept ready."""
        size = sum(map(size_bytes, self.slots[0])) if self.slots else 0
        return max(1, min(MOST_SETS, MOST_BYTES // max(1, size)))

    def longest(self) -> int:
        """Elements of the largest array among them."""
        return max((size_of(each) for each in self.slots[0]), default=1) if self.slots else 1

    def close(self) -> None:
        """Restore the values of the user's objects."""


class MadeArguments(Arguments):
    """Arguments that a function makes from a generator of random numbers.  made_by: that function.

    made_ns: how long that takes.  left: which globals and closure variables its second call changed.
    """

    def __init__(self, make: Callable[[Any], Sequence[Any]], fixed: Collection[int]) -> None:
        super().__init__(fixed)
        self.made_by, self._rng = make, generator()
        from_ns = NOW_NS()
        self._made = [self.made()]
        self.made_ns = NOW_NS() - from_ns
        self.left: set[int] | None = None
        self._around = State(read_around(make))
        self._scaled = [i for i, v in enumerate(self._made[0]) if i not in self.fixed and has_any(v, is_floating)]
        self._begin(self._made)

    def prepare(self, n: int, *, cheaply: bool = False) -> None:
        if not cheaply or not self._scaled:
            were = self._around.traces() if self.left is None else {}
            self._made = [self.made() for _ in range(n)]
            if self.left is None:  # once: large arguments take as long to make as many calls
                self.left = {key for key, mark in self._around.traces().items() if were.get(key) != mark}
            self._begin(self._made)
            return
        others = [self._made[i % len(self._made)] for i in range(n)]
        kept = len(self._values) == n and all(map(operator.is_, self._values, others))
        before = self._factors if kept else [[1.0] * len(values) for values in others]
        self._begin(others)
        for factors, last in zip(self._factors, before, strict=True):
            factors[:] = last
            for i in some_of(self._scaled, self.slots[0]):
                factors[i] = 0.5 + secrets.randbelow(2**20) / 2**21  # symmetric, sorted and positive arrays stay so

    def _begin(self, values: list[list[Any]]) -> None:
        self._values, self._factors = [*values], [[1.0] * len(each) for each in values]
        while len(self.slots) < len(values):
            self.slots.append([self._first(i, v) for i, v in enumerate(values[len(self.slots)])])

    def _first(self, i: int, value: Any) -> Any:
        return self.slots[0][i] if i in self.fixed and self.slots else mapped(value, copied)

    def made(self) -> list[Any]:
        """A new list of arguments."""
        made = self.made_by(self._rng)
        if not isinstance(made, (list, tuple)):
            message = f"inputs: the function returned {type(made).__name__}, a list of arguments is needed"
            raise OptionError(message, hint=MAKES)
        if self.slots and len(made) != len(self.slots[0]):
            raise OptionError(f"inputs: the function returned {len(made)} arguments, {len(self.slots[0])} at first")
        return [*made]


class GivenArguments(Arguments):
    """The user's own objects. vary: whether floating-point values are redrawn."""

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
        """Whether any values vary."""
        return bool(self._varied)

    def prepare(self, n: int, *, cheaply: bool = False) -> None:
        if not cheaply:
            self._values = [[*self._before]]
        for i in some_of(self._varied, self.slots[0]) if cheaply else self._varied:
            self._values[0][i] = self._drawn(i)

    def _drawn(self, i: int) -> Any:
        """New values for an argument: a stretch of a bank that was drawn once, which costs one copy."""
        if i not in self._banks:
            self._banks[i] = drawn_apart(self._before[i], size_of(self._before[i]) * 5 // 4 + 4096)
        bank, like = self._banks[i], self._before[i]
        n = size_of(like)
        at = secrets.randbelow(len(bank) - n + 1)
        return bank[at : at + n].reshape(like.shape)

    def close(self) -> None:
        self._values, self._factors = [self._before], [[1.0] * len(self._before)]
        self.write()


def some_of(which: Sequence[int], values: Sequence[Any]) -> Sequence[int]:
    """All arguments, or if they are large, a random one: the set is then new, too."""
    large = sum(size_bytes(values[i]) for i in which) > LARGE_BYTES
    return [secrets.choice(which)] if large and which else which


def arguments_of(inputs: Any, fixed: Collection[int], values: str) -> Arguments | None:
    """The arguments that inputs= describes; None for None. Raises OptionError for anything invalid."""
    if inputs is None:
        return None
    if callable(inputs):
        if not accepts(inputs, 1):
            raise OptionError("inputs: the function is called with a generator of random numbers", hint=MAKES)
        made: Arguments = MadeArguments(inputs, fixed)
    elif isinstance(inputs, (list, tuple)):
        made = GivenArguments(inputs, fixed, vary=values != "given")
    else:
        message = f"inputs: a list of arguments, or a function that makes one, not {type(inputs).__name__}"
        raise OptionError(message, hint="compare(f, g, inputs=[x, w])")
    if any(not 0 <= i < len(made.slots[0]) for i in fixed):
        raise OptionError(f"fixed={(*fixed,)}: the arguments are numbered 0 to {len(made.slots[0]) - 1}")
    return made


def accepts(function: Callable[..., object], n: int) -> bool:
    """Whether a function can be called with n arguments; True if unknown, as for some functions in C."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    with suppress(TypeError):
        signature.bind(*[None] * n)
        return True
    return False


def takes(body: Callable[..., object], n: int, name: str, *, in_place: bool) -> bool:
    """Whether a function takes the n arguments; False for one without parameters, which reads them from outside.

    Raises OptionError if it takes another number.
    """
    if accepts(body, n):
        return True
    signature = inspect.signature(body)
    if in_place and not signature.parameters:
        return False
    message = f"{name or 'a function'}{signature} does not take the {n} arguments of inputs"
    raise OptionError(message, hint="both functions are called with the same arguments")
