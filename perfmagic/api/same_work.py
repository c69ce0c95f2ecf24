"""The options by which a comparison finds out whether functions do the same work."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from perfmagic.api.options import Option
from perfmagic.base.errors import OptionError
from perfmagic.base.imported import torch_if_imported
from perfmagic.capture.bench.spec import BenchSpec
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.capture.same_work.arguments import arguments_of, takes
from perfmagic.capture.same_work.same_work import Asked, SameWork

VALUES = ("fresh", "given")


class CheckOptions(TypedDict, total=False):
    """What the functions are called with, and when their results count as the same."""

    inputs: Annotated[
        Callable[[Any], Sequence[Any]] | Sequence[Any] | None,
        Option(
            "the arguments of both functions: a list, whose floating values are redrawn in place; or a function of "
            "a generator of random numbers that makes the list, for every call",
            unset="functions without arguments",
            metavar="NAME",
            flag="arguments: `x,w`, or a function of a generator that makes them",
        ),
    ]
    fixed: Annotated[Sequence[int], Option("arguments that stay, by number from 0", (), metavar="N,…")]
    values: Annotated[
        str,
        Option(
            "`given`: functions may depend on these values",
            "fresh",
            choices=VALUES,
            metavar="V",
        ),
    ]
    dtype: Annotated[
        str | None,
        Option("the precision that is good enough", unset="that of the results", metavar="TYPE"),
    ]
    random: Annotated[bool, Option("compare distributions alone", default=False)]
    equal: Annotated[
        Callable[[Any, Any], Any] | None,
        Option("tells whether two results are the same, in place of the tolerances", unset="by tolerances"),
    ]
    check: Annotated[bool | None, Option("check that they do the same work", unset="on")]
    limit: Annotated[
        float | None,
        Option("stop a call after this", unset="600 s", unit="seconds", metavar="S"),
    ]


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the check, and the others."""
    mine = {name: value for name, value in options.items() if name in CheckOptions.__annotations__}
    return mine, {name: value for name, value in options.items() if name not in mine}


def same_work_of(
    bodies: Sequence[Callable[..., object]], specs: Sequence[BenchSpec], options: Mapping[str, Any]
) -> SameWork | None:
    """What watches the functions; None for no checks. Raises OptionError for an unusable value."""
    given = {name: value for name, value in options.items() if value is not None}
    asked, arguments = _asked(given), None
    if asked is None:
        return None
    arguments = arguments_of(given.get("inputs"), given.get("fixed", ()), asked.values)
    taking = [True] * len(bodies)
    if arguments is not None:
        n = len(arguments.slots[0])
        pairs = zip(bodies, specs, strict=True)
        taking = [takes(body, n, spec.name, in_place=arguments.in_place) for body, spec in pairs]
    reads = [spec.inputs for spec in specs]
    return SameWork([spec.name for spec in specs], asked, arguments, taking, reads, bodies)


def same_work_of_cell(
    specs: Sequence[BenchSpec], options: Mapping[str, Any], results: Callable[[], Any]
) -> SameWork | None:
    """The same for variants of a cell.  results: gives what the last one that ran has assigned."""
    given = {name: value for name, value in options.items() if value is not None}
    asked = _asked(given)
    if asked is None:
        return None
    if callable(given.get("inputs")):
        raise OptionError("--inputs: the cell's own variables are needed", hint="--inputs x,w")
    arguments = arguments_of(given.get("inputs"), given.get("fixed", ()), asked.values)
    same = SameWork([s.name for s in specs], asked, arguments, [False] * len(specs), [s.inputs for s in specs])
    same.take = results
    return same


def limit_of(options: Mapping[str, Any]) -> float | None:
    """The longest that one call may take, in s; None for the usual. Raises OptionError for no time."""
    limit_s = options.get("limit")
    if limit_s is not None and not (isinstance(limit_s, (int, float)) and 0 < limit_s < math.inf):
        raise OptionError(f"limit={limit_s!r}: a time above 0 s is needed")
    return limit_s


def _asked(given: Mapping[str, Any]) -> Asked | None:
    if not given.get("check", True):
        if given.get("inputs") is not None:
            raise OptionError("check=False: inputs are made for the check", hint="leave one of them out")
        return None
    values, dtype = given.get("values", "fresh"), str(given.get("dtype", "")).removeprefix("torch.")
    if values not in VALUES:
        raise OptionError(f"values={values!r} is not known", hint='"fresh" or "given"')
    torch = torch_if_imported()
    if dtype and not getattr(getattr(torch, dtype, None), "is_floating_point", False):
        raise OptionError(f"dtype={dtype!r} is not a floating-point type of torch", hint='dtype="bfloat16"')
    if (equal := given.get("equal")) is not None and not callable(equal):
        raise OptionError(f"equal: a function of two results is needed, not {type(equal).__name__}")
    return Asked(dtype, bool(given.get("random")), equal, values)


def recordings() -> Callable[[str], Recorder] | None:
    """What records one call, by the kind of device; None without torch, which would record it."""
    torch = torch_if_imported()
    if torch is None or not hasattr(torch, "autograd"):
        return None
    return lambda device: Recorder(origin="block", device=device, shapes=True, lines=False)
