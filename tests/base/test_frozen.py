"""Tests of the frozen dataclasses: they do what the standard library's do."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from perfmagic.base import frozen


def classes(dataclass: Any) -> list[Any]:
    @dataclass(frozen=True)
    class Plain:
        """Two fields."""

        size: int
        name: str = "a"

    @dataclass(frozen=True)
    class Inside(Plain):
        """All kinds of fields."""

        kind: ClassVar[int] = 3
        parts: list[int] = dataclasses.field(default_factory=list, compare=False)
        hidden: int = dataclasses.field(default=4, repr=False)
        named: dict[str, int] = dataclasses.field(default_factory=dict, hash=False)
        derived: int = dataclasses.field(init=False, default=0)
        made: dict[str, int] = dataclasses.field(init=False, default_factory=dict, compare=False)
        last: int = dataclasses.field(kw_only=True, default=1)

        def __post_init__(self) -> None:
            object.__setattr__(self, "derived", self.size + 1)

    @dataclass(frozen=True, eq=False)
    class Identity:
        """Compared as an object."""

        size: int
        name: str = ""

    @dataclass(frozen=True, repr=False)
    class One:  # noqa: PLW1641 - the decorator writes it
        """A single field, a repr and a comparison of its own."""

        size: int
        name: str = ""

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, One)

    return [Plain, Inside, Identity, One]


ATTEMPTS: tuple[Callable[[Any], None], ...] = (
    lambda of: setattr(of, "size", 2),
    lambda of: setattr(of, "new", 2),
    lambda of: delattr(of, "size"),
)
PAIRS = list(zip(classes(frozen.dataclass), classes(dataclasses.dataclass), strict=True))


@pytest.mark.parametrize(("own", "library"), PAIRS)
def test_a_frozen_class_does_what_the_librarys_does(own: Any, library: Any) -> None:
    assert str(inspect.signature(own)) == str(inspect.signature(library))
    assert repr(own(1, "x")) == repr(library(1, "x"))
    assert (own(1) == own(1), own(1) == own(2)) == (library(1) == library(1), library(1) == library(2))
    assert (hash(own(1)) == hash(own(1))) == (hash(library(1)) == hash(library(1)))
    assert own(1) != library(1) or own.__name__ == "One"
    assert dataclasses.asdict(dataclasses.replace(own(1), size=2)) == dataclasses.asdict(library(2))
    assert vars(copy.copy(own(1))) == vars(own(1))
    assert own.__match_args__ == library.__match_args__
    for attempt in ATTEMPTS:
        with pytest.raises(dataclasses.FrozenInstanceError) as wrong:
            attempt(own(1))
        with pytest.raises(dataclasses.FrozenInstanceError) as expected:
            attempt(library(1))
        assert str(wrong.value) == str(expected.value)


def test_an_undecorated_subclass_takes_other_attributes() -> None:
    class Free(PAIRS[0][0]):  # type: ignore[misc]
        pass

    free = Free(1)
    free.other = 2
    del free.other
    with pytest.raises(dataclasses.FrozenInstanceError):
        free.size = 2


def test_what_contains_itself_has_a_text() -> None:
    own = PAIRS[1][0](1)
    own.parts.append(own)
    assert "parts=[...]" in repr(own)


def test_results_are_pickled() -> None:
    from perfmagic.trace.model import LaunchShape

    shape = LaunchShape((1, 1, 1), (2, 1, 1), None, None)
    assert pickle.loads(pickle.dumps(shape)) == shape
