"""Whether the others returned what the first returned: compared pass by pass, after the clock stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfmagic.base.clock import virtual_clock
from perfmagic.base.errors import CaptureError
from perfmagic.capture.same_work.difference import (
    NEARBY,
    Moments,
    distances,
    is_steady,
    lost,
    moments,
    rounding,
    size_of,
    standard_errors,
    unlike,
)
from perfmagic.capture.same_work.values import Leaf, leaves
from perfmagic.trace.samples import Condition

SPREAD = 4.0  # times the difference of the first's own results on equal inputs (atomics)
VARIES = 0.1  # of their size: if the first's own results on equal inputs differ by more, they prove nothing
RANDOM_ERRORS = 6.0  # standard errors: chance exceeds them once in 10⁹ numbers


@dataclass
class _Compared:
    """The comparison of one function with the first.  worst: distance of each value.

    failed: the first difference that has no distance.  given: worst on the user's own values.
    """

    n: int = 0
    worst: list[float] = field(default_factory=list)
    given: list[float] = field(default_factory=list)
    moments: list[Moments] = field(default_factory=list)
    of: Sequence[Leaf] = ()
    failed: Condition | None = None
    noted: dict[str, Condition] = field(default_factory=dict)


class Results:
    """Compares the results of functions on the same values.

    equal: the user's own check.  random: compare distributions alone.  eps: of a type declared as precise enough, else
    0.  eps_of_numbers: of the least precise input, as a Python number may come from it.  before: the first's last
    result.  loses: whether small values were lost.  are_ours: whether the current values are generated, not the user's.
    """

    def __init__(
        self, n: int, *, equal: Callable[[Any, Any], Any] | None, random: bool, eps: float, eps_of_numbers: float = 0.0
    ) -> None:
        self._equal, self._random, self._eps, self._eps_of_numbers = equal, random, eps, max(eps, eps_of_numbers)
        self._of = [_Compared() for _ in range(n)]
        self._now: dict[int, tuple[list[Leaf], Any]] = {}
        self.before: list[Leaf] = []
        self._spread: list[float] = []
        self._nearby: list[float] = []
        self._sizes: list[float] = []  # the largest size of each value so far
        self.seed, self.loses, self.are_ours = 0, False, False

    def begin(self, seed: int) -> None:
        """New values: earlier results are no longer compared."""
        self._now, self.seed = {}, seed

    def take(self, which: int, out: Any, *, same_values: bool) -> None:
        """Take one's result on the current values.  same_values: whether earlier passes had the same values."""
        found = leaves(out, self.seed)
        self._now[which] = found, out if self._equal is not None else None
        if which == 0:
            if same_values and self.before:
                self.repeated(found)
            self.before = found
            for other in self._now.keys() - {0}:
                self._compare(other)
        elif 0 in self._now:
            self._compare(which)

    def of_first(self) -> list[Leaf]:
        """The first's result on the current values."""
        return self._now[0][0] if 0 in self._now else []

    def of_all(self) -> list[list[Leaf]]:
        """The results of all functions on the current values, in order."""
        return [found for _, (found, _) in sorted(self._now.items())]

    def repeated(self, found: Sequence[Leaf]) -> None:
        """Take the first's result of a repeated call on the values that gave `before`."""
        if unlike(self.before, found) is None:
            self._spread = _larger(self._spread, distances(self.before, found))

    def moved(self, before: Sequence[Leaf], out: Any) -> None:
        """Take the first's result on inputs moved by one rounding.  before: its result on the inputs themselves."""
        found = leaves(out, self.seed)
        if unlike(before, found) is None:
            self._nearby = _larger(self._nearby, [d if math.isfinite(d) else 0.0 for d in distances(before, found)])

    def _compare(self, which: int) -> None:
        compared, (first, raw), (other, other_raw) = self._of[which], self._now[0], self._now[which]
        compared.n += 1
        if compared.failed is not None:
            return
        if self._equal is not None:
            if not self._user_says(raw, other_raw):
                compared.failed = Condition("not equal", {"pass": compared.n})
            return
        compared.failed = unlike(first, other)
        if compared.failed is None:
            self._note(compared, first, other)
            compared.of = other
            if self._random:
                compared.moments.append(moments(first, other))
                compared.worst = _larger(compared.worst, [standard_errors(compared.moments[-1])])
            else:
                self.loses = self.loses or any(map(lost, first, other))
                self._measure(compared, self._in_own_units(first, distances(first, other)))

    def _in_own_units(self, first: Sequence[Leaf], found: list[float]) -> list[float]:
        """Distances times the size of a value, if it has one: a sum that happens to be near 0 is no less precise."""
        sizes = [size_of(leaf) for leaf in first]
        self._sizes = _larger(self._sizes, sizes)
        return [off * (own or 1.0) for off, own in zip(found, sizes, strict=True)]

    def _relative(self, worst: Sequence[float]) -> list[float]:
        """These distances relative to the usual size."""
        return [off / (usual or 1.0) for off, usual in zip(worst, self._sizes, strict=False)]

    def _measure(self, compared: _Compared, found: list[float]) -> None:
        compared.worst = _larger(compared.worst, found)
        if not self.are_ours:
            compared.given = _larger(compared.given, found)

    def _user_says(self, first: Any, other: Any) -> bool:
        try:
            return bool(self._equal(first, other)) if self._equal is not None else True
        except Exception as error:
            raise CaptureError(f"equal= raised {type(error).__name__}: {error}", hint="it gets both results") from error

    def _note(self, compared: _Compared, first: Sequence[Leaf], other: Sequence[Leaf]) -> None:
        for a, b in zip(first, other, strict=True):
            if not a.plain:  # both may return the same function or class
                compared.failed = Condition("unread", {"type": a.kind}) if a.storage != b.storage else compared.failed
            elif a.kind != b.kind:
                compared.noted["result type"] = Condition("result type", {"first": a.kind, "other": b.kind})
            elif a.eps and b.eps > max(a.eps, self._eps):
                compared.failed = Condition("lower type", {"first": a.dtype, "other": b.dtype})
            elif a.dtype != b.dtype and a.kind == "tensor":
                compared.noted["result dtype"] = Condition("result dtype", {"first": a.dtype, "other": b.dtype})
            if a.gradient and not b.gradient:
                compared.failed = Condition("no graph")

    def facts(self, which: int, longest: int, *, fresh: bool) -> list[Condition]:
        """The facts about one function.  longest: elements of the largest input.  fresh: whether inputs vary."""
        compared, noted = self._of[which], [*self._of[which].noted.values()]
        if compared.failed is not None:
            return [compared.failed, *noted]
        if not compared.n:
            return [Condition("not compared")]
        if self._equal is not None:
            return [Condition("equal", {"n": compared.n})]
        if self._random:
            off = max(compared.worst, default=0.0)
            kind = "random differ" if off > RANDOM_ERRORS and is_steady(compared.moments) else "random"
            return [Condition(kind, {"off": min(off, 1e9), "n": compared.n}), *noted]
        return [self._verdict(compared, longest, fresh=fresh), *noted]

    def _verdict(self, compared: _Compared, longest: int, *, fresh: bool) -> Condition:
        first, n = self.before or compared.of, compared.n
        plain = [leaf for leaf in compared.of if leaf.plain]
        if not any(leaf.values is not None for leaf in plain):
            return Condition("nothing returned")
        numbers = [leaf for leaf in plain if leaf.kind != "text" and leaf.values.size]
        if numbers and all(_all_nan(leaf) for leaf in numbers):
            return Condition("only NaN" if virtual_clock() is None else "no values")
        allowed = [self.allowed(i, a, b, longest) for i, (a, b) in enumerate(zip(first, compared.of, strict=False))]
        if max(self._spread, default=0.0) > VARIES:
            return Condition("first is random" if fresh else "first varies")
        worst, given = self._relative(compared.worst), self._relative(compared.given)
        for i, (off, most) in enumerate(zip(worst, allowed, strict=False)):
            ours = " on ours" if i < len(given) and given[i] <= most and math.isfinite(given[i]) else ""
            which: dict[str, str | float] = {
                "which": i + 1,
                "of": len(worst),
                "type": compared.of[i].dtype or compared.of[i].kind,
            }
            if not math.isfinite(off):
                return Condition(f"differ in kind{ours}", which)
            if off > most:
                return Condition(f"differ{ours}", {**which, "off": off, "allowed": most})
        if not any(worst):
            return Condition("identical", {"n": n})
        return Condition("results", {"n": n, "off": max(worst), "allowed": max(allowed, default=0.0)})

    def in_doubt(self, longest: int) -> bool:
        """Whether any differ by more than rounding alone explains, so that the first's own precision decides."""
        return any(
            off > self.allowed(i, a, a, longest)
            for compared in self._of
            if compared.failed is None and not self._random
            for i, (off, a) in enumerate(zip(self._relative(compared.worst), self.before, strict=False))
            if math.isfinite(off)
        )

    def allowed_for(self, found: Sequence[Leaf], longest: int) -> float:
        """How much other values, such as arguments that both changed, may differ."""
        return max((rounding(leaf, leaf, self._eps, longest) for leaf in found), default=0.0)

    def allowed(self, i: int, a: Leaf, b: Leaf, longest: int) -> float:
        spread = SPREAD * self._spread[i] if i < len(self._spread) else 0.0
        near = NEARBY * self._nearby[i] if i < len(self._nearby) else 0.0
        eps = self._eps_of_numbers if a.kind == "number" and not a.shape else self._eps
        return max(rounding(a, b, eps, longest), spread, min(0.1, near))


def _larger(worst: Sequence[float], found: Sequence[float]) -> list[float]:
    if len(worst) != len(found):
        return [*found]
    return [max(pair) for pair in zip(worst, found, strict=True)]


def _all_nan(leaf: Leaf) -> bool:
    return leaf.eps > 0 and bool((leaf.values != leaf.values).all())
